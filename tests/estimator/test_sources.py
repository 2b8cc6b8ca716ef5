"""The kinds of data that an estimator takes, and the kinds of container that it gives back."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from small_table import HIDDEN, HOLED, TRUTH, D, N, X, assert_same_model, model

from bpfa import BPFA, ArrayRows, BPFAImputer, open_rows

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


class TestFrames:
    NAMES = tuple(f"protein {i}" for i in range(D))

    def test_pandas(self, fitted):
        frame = pd.DataFrame(HOLED, columns=list(self.NAMES), index=[f"cell {i}" for i in range(N)])
        named = model(max_steps=150).fit(frame)
        assert_same_model(named, fitted)
        np.testing.assert_array_equal(named.feature_names_in_, self.NAMES)
        weights = named.set_output(transform="pandas").transform(frame)
        assert list(weights.columns) == [f"bpfa{k}" for k in range(6)]
        assert list(weights.index) == list(frame.index)
        filled, std = named.impute(frame, return_std=True)
        assert tuple(filled.columns) == self.NAMES
        assert list(std.index) == list(frame.index)
        np.testing.assert_array_equal(filled.to_numpy(), fitted.impute(HOLED))
        with pytest.raises(ValueError, match="feature names"):
            named.transform(frame.rename(columns={"protein 0": "other"}))

    @pytest.mark.parametrize("kind", [BPFA, BPFAImputer])
    def test_a_column_of_text_is_named(self, kind):
        frame = pd.DataFrame(HOLED, columns=list(self.NAMES))
        mixed = frame.assign(**{"protein 0": [1.0, "n.d.", *[2.0] * (N - 2)]})
        refused = {
            r"'donor' is not numbers \('p7' in row 0\); .*X.set_index\('donor'\)": frame.assign(donor="p7"),
            r"'when' is not numbers \('2020-01-01 00:00:00' in row 0\)": frame.assign(
                when=pd.Timestamp("2020")
            ),
            r"'protein 0' is not numbers \('n\.d\.' in row 1\)": mixed,
            r"'c' is not numbers .*X.drop\('c'\)": pl.DataFrame({"b": [1.0, 2.0], "c": ["x", "y"]}),
            r"column 0 is not numbers \('n\.d\.' in row 1\)": mixed.to_numpy(),
        }
        for match, data in refused.items():
            with pytest.raises(ValueError, match=f"X: .*{match}") as caught:
                kind(2, max_steps=1).fit(data)
            assert "\n" not in str(caught.value)

    def test_polars(self, fitted):
        frame = pl.DataFrame(
            np.where(np.isnan(HOLED), None, HOLED).tolist(), schema=list(self.NAMES), orient="row"
        )
        named = model().fit(frame)
        assert_same_model(named, fitted)
        weights = named.set_output(transform="polars").transform(frame)
        assert weights.columns == [f"bpfa{k}" for k in range(6)]
        filled = named.impute(frame)
        assert isinstance(filled, pl.DataFrame)
        np.testing.assert_array_equal(filled.to_numpy(), fitted.impute(HOLED))


class TestSources:
    def test_rows_and_files_give_the_same_model(self, fitted, tmp_path):
        np.save(tmp_path / "x.npy", HOLED)
        for source in (ArrayRows(HOLED), open_rows(tmp_path / "x.npy"), np.load("x.npy", mmap_mode="r")):
            again = model().fit(source)
            assert_same_model(again, fitted)
            np.testing.assert_array_equal(again.transform(source), fitted.transform(HOLED))

    def test_mask_beside_the_data(self, fitted):
        assert_same_model(model().fit(X, missing=HIDDEN), fitted)

    def test_sparse_needs_a_choice(self):
        with pytest.raises((TypeError, ValueError), match="absent"):
            model().fit(sparse.csr_array(TRUTH.y))
        counts = np.where(HIDDEN, 0.0, TRUTH.y)
        for absent, dense in (("zero", counts), ("missing", np.where(HIDDEN, np.nan, TRUTH.y))):
            chosen = model(max_steps=5).fit(open_rows(sparse.csr_array(counts), absent=absent))
            assert_same_model(chosen, model(max_steps=5).fit(dense))

    def test_wrong_columns(self, fitted):
        with pytest.raises(ValueError, match="expecting 6 features"):
            fitted.transform(HOLED[:, 1:])
        with pytest.raises(ValueError, match="expecting 6 features"):
            fitted.transform(ArrayRows(HOLED[:, 1:]))

    def test_anndata(self, fitted):
        anndata = pytest.importorskip("anndata")
        cells = anndata.AnnData(HOLED.copy())
        cells.var_names = [f"gene {i}" for i in range(D)]
        named = model().fit(cells)
        assert_same_model(named, fitted)
        named.annotate(cells, imputed=True)
        np.testing.assert_array_equal(cells.obsm["X_bpfa"], fitted.transform(HOLED))
        np.testing.assert_array_equal(cells.varm["bpfa_components"], fitted.components_.T)
        np.testing.assert_array_equal(cells.layers["bpfa_imputed"], fitted.impute(HOLED))
        np.testing.assert_array_equal(cells.uns["bpfa"]["mean"], fitted.mean_)
        # New cells of another scale are projected with that of the fit.
        few = cells[:5].copy()
        named.annotate(few)
        np.testing.assert_array_equal(few.obsm["X_bpfa"], fitted.transform(HOLED)[:5])
        few.var_names = [f"other {i}" for i in range(D)]
        with pytest.raises(ValueError, match="column 0 is 'other 0'; expected 'gene 0'"):
            named.annotate(few)
