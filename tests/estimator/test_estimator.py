"""BPFA: what it learns, and what it gives back."""

import numpy as np
import pytest
from scipy import sparse
from small_table import HIDDEN, HOLED, SCALES, TRUTH, D, N, X, assert_same_model, in_units, model, saved

from bpfa import ALGORITHMS, BPFA, ArrayRows
from bpfa._support.philox import Stream
from bpfa.data import HeldOutRows

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


def test_it_learns(fitted):
    np.testing.assert_allclose(fitted.mean_, np.nanmean(HOLED, axis=0), rtol=1e-9)
    np.testing.assert_allclose(fitted.scale_, np.nanstd(HOLED, axis=0), rtol=1e-9)
    # The true noise is 0.05 of the scale of each column; the prior of so small a data set adds to it, in
    # proportion to what each column's noise is taken for.
    noise = fitted.noise_std_ / SCALES
    assert np.sqrt((noise**2).mean()) < 0.12
    assert (noise < 0.25).all()
    assert 2 <= fitted.n_components_used_ <= 6
    assert fitted.components_.shape == (6, D)
    assert (np.diff(fitted.component_probabilities_) <= 0).all()
    assert fitted.n_steps_ == 150
    assert fitted.stopped_by_ == "max_steps"


def test_imputation_is_right_and_honest(fitted):
    filled, std = fitted.impute(HOLED, return_std=True)
    np.testing.assert_array_equal(filled[~HIDDEN], X[~HIDDEN])
    assert (std[~HIDDEN] == 0).all()
    error, scale = (filled - X)[HIDDEN], np.broadcast_to(SCALES, X.shape)[HIDDEN]
    spread = np.broadcast_to(np.std(X, axis=0), X.shape)[HIDDEN]
    assert np.mean((error / spread) ** 2) < 0.5
    # 95 % intervals over 240 entries: four binomial deviations are 0.056.
    covered = np.abs(error) < 1.96 * std[HIDDEN]
    assert covered.mean() > 0.95 - 0.056
    assert (std[HIDDEN] > 0.02 * scale).all()


def test_reconstruction_by_weights(fitted):
    weights = fitted.transform(X)
    assert weights.shape == (N, 6)
    restored = fitted.inverse_transform(weights)
    # What is left is the noise, 0.05 in the units of the columns, and what shrinking adds.
    assert np.sqrt(np.mean(((restored - X) / SCALES) ** 2)) < 0.1
    np.testing.assert_allclose(fitted.inverse_transform(sparse.csr_array(weights)), restored)


def test_weights_of_a_row_do_not_depend_on_its_neighbours(fitted):
    whole = fitted.transform(HOLED)
    np.testing.assert_array_equal(fitted.transform(HOLED[50:60]), whole[50:60])
    np.testing.assert_array_equal(fitted.transform(HOLED[::-1]), whole[::-1])
    np.testing.assert_array_equal(fitted.impute(HOLED[7:9]), fitted.impute(HOLED)[7:9])


def test_sparse_output(fitted):
    dense = fitted.transform(HOLED)
    as_sparse = BPFA.load(saved(fitted)).set_params(sparse_output=True).transform(HOLED)
    assert sparse.issparse(as_sparse)
    assert as_sparse.format == "csr"
    np.testing.assert_array_equal(as_sparse.toarray(), dense)
    assert as_sparse.nnz < dense.size


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(algorithm):
    features = "factorised" if ALGORITHMS[algorithm].view == "expected" else "auto"
    fitted = model(algorithm=algorithm, features=features).fit(HOLED)
    filled = fitted.impute(HOLED)
    error = ((filled - X) / X.std(axis=0))[HIDDEN]
    assert np.mean(error**2) < 0.5
    score = fitted.held_out_score(X, HIDDEN).log_likelihood
    assert score > np.mean(-np.log(X.std(axis=0))) - 0.5 * np.log(2 * np.pi * np.e)


def odd_table():
    """Column 1 is 42.1 throughout, apart from a hole; column 3 and row 5 are entirely missing."""
    odd = HOLED.copy()
    odd[:, 1], odd[:, 3], odd[5] = 42.1, np.nan, np.nan
    return odd


@pytest.mark.filterwarnings("ignore::bpfa.SeenInFitWarning")
@pytest.mark.parametrize("standardize", [True, False])
def test_constant_and_missing_columns_survive(standardize):
    odd = odd_table()
    with pytest.warns(UserWarning, match=r"X: no entry of column x3 is observed") as warned:
        fitted = model(max_steps=30, standardize=standardize).fit(odd)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    for known in (fitted, BPFA.load(saved(fitted))):
        filled, std = known.impute(odd, return_std=True)
        nothing_known = np.broadcast_to(np.arange(D) == 3, odd.shape)
        np.testing.assert_array_equal(np.isnan(filled), nothing_known)
        np.testing.assert_array_equal(np.isnan(std), nothing_known)
        assert (filled[:, 1] == 42.1).all()
        assert (std[:, 1] == 0).all()
        assert (std[5, [0, 2, 4]] > 0).all()
        np.testing.assert_array_equal(np.isnan(known.noise_std_), np.arange(D) == 3)
        np.testing.assert_array_equal(known.noise_std_ == 0, np.arange(D) == 1)
        drawn = known.sample(4, random_state=0)
        assert (drawn[:, 1] == 42.1).all()
        assert np.isnan(drawn[:, 3]).all()
    assert np.isfinite(fitted.transform(odd)).all()
    assert np.isfinite(fitted.transform(np.full((2, D), np.nan))).all()
    assert np.isfinite(fitted.components_).all()
    assert np.isfinite(fitted.score(odd))
    assert fitted.scale_[1] == fitted.scale_[3] == 1.0


def test_the_warning_names_the_columns_of_a_frame():
    odd = odd_table()
    odd[:, 0] = np.nan
    frame = pytest.importorskip("pandas").DataFrame(odd, columns=[f"gene {d}" for d in range(D)])
    with pytest.warns(UserWarning, match=r"no entry of columns gene 0, gene 3 is observed"):
        model(max_steps=5).fit(frame)


def test_diagnostics_work_with_a_column_that_nobody_observed():
    odd = odd_table()
    with pytest.warns(UserWarning, match="no entry"):
        fitted = model(max_steps=30).fit(odd)
    assert np.isfinite(fitted.component_summary(odd).drop(columns="largest_columns")).all(axis=None)
    assert np.isfinite(fitted.variance_explained(odd)["variance_explained"]).all()
    assert np.isfinite(fitted.calibration(odd)[["coverage", "width"]]).all(axis=None)
    assert len(fitted.top_columns(2)) == 2 * len(fitted.components_)
    assert fitted.residuals(odd)["n_entries"].iloc[3] == 0


def test_one_entry_does_not_make_a_column_constant():
    odd = HOLED.copy()
    odd[1:, 2] = np.nan
    odd[0, 2] = 3.0
    fitted = model(max_steps=5).fit(odd)
    filled, std = fitted.impute(odd, return_std=True)
    assert np.isfinite(filled).all()
    assert (std[1:, 2] > 0).all()


def test_later_parts_of_a_stream_show_what_a_column_holds():
    odd = odd_table()
    stream = model()
    with pytest.warns(UserWarning, match="no entry of column x3"):
        stream.partial_fit(odd[:60])
    stream.partial_fit(odd[60:90])
    assert np.isnan(stream.noise_std_[3])
    assert stream.noise_std_[1] == 0
    stream.partial_fit(np.full((2, D), np.nan))
    stream.partial_fit(X[90:])
    filled, std = stream.impute(HOLED, return_std=True)
    assert np.isfinite(filled).all()
    assert (std[HIDDEN] > 0).all()


@pytest.mark.filterwarnings("ignore::bpfa.SeenInFitWarning")
def test_standardising_is_undone():
    """The same data in other units gives the same model in other units."""
    # Whether groups of like rows are taken is a choice between nearly equal scores, which rounding decides.
    plain, scaled = model(groups=False).fit(TRUTH.y), model(groups=False).fit(X)
    np.testing.assert_allclose(
        plain.components_ * SCALES, scaled.components_, rtol=1e-3, atol=1e-3 * SCALES.min()
    )
    restored = plain.inverse_transform(plain.transform(TRUTH.y))
    other = scaled.inverse_transform(scaled.transform(X))
    assert np.sqrt(np.mean(((in_units(restored) - other) / SCALES) ** 2)) < 0.05
    # A density is divided by the scale of its column: the mean logarithm over the entries that are scored.
    _, _, scored = HeldOutRows(ArrayRows(X), 0.1, Stream.from_seed(0)).take_held_out(np.arange(N))
    units = (scored @ np.log(SCALES)).sum() / scored.sum()
    np.testing.assert_allclose(plain.score(TRUTH.y), scaled.score(X) + units, atol=0.05)


def test_without_standardising():
    fitted = model(standardize=False).fit(TRUTH.y)
    assert not fitted.mean_.any()
    assert (fitted.scale_ == 1).all()
    with pytest.raises(TypeError, match="standardize='no'"):
        model(standardize="no").fit(TRUTH.y)


@pytest.mark.filterwarnings("ignore::bpfa.SeenInFitWarning")
def test_score_hides_what_it_scores(fitted):
    """A tenth of the entries is scored, the same ones each time."""
    score = fitted.held_out_score(X)
    assert score.n_entries == pytest.approx(0.1 * X.size, rel=0.15)
    assert fitted.score(X) == score.log_likelihood == fitted.score(X)
    given = fitted.held_out_score(X, HIDDEN)
    assert given.n_entries == HIDDEN.sum()
    assert given.mse < 0.5
    # In the units of the data a density is divided by the scale.
    worse = model(n_components=1, max_steps=2).fit(HOLED)
    assert worse.score(X) < fitted.score(X)
    with pytest.raises(ValueError, match="is missing; expected its value"):
        fitted.held_out_score(HOLED, HIDDEN)


def test_samples_look_like_the_data():
    fitted = model().fit(X)
    rows = fitted.sample(5000, random_state=0)
    assert rows.shape == (5000, D)
    np.testing.assert_array_equal(fitted.sample(5, random_state=1), fitted.sample(5, random_state=1))
    assert (np.abs(rows.mean(axis=0) - X.mean(axis=0)) < 0.2 * X.std(axis=0)).all()
    ratio = rows.std(axis=0) / X.std(axis=0)
    assert ((ratio > 0.7) & (ratio < 1.4)).all()


@pytest.mark.filterwarnings("ignore::bpfa.SeenInFitWarning")
def test_loaded_model_is_the_same(fitted):
    again = BPFA.load(saved(fitted))
    assert_same_model(again, fitted)
    assert again.get_params() == fitted.get_params()
    for name in ("components_", "noise_std_", "mean_", "scale_", "component_probabilities_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
    np.testing.assert_array_equal(again.impute(HOLED), fitted.impute(HOLED))
    np.testing.assert_array_equal(again.transform(HOLED), fitted.transform(HOLED))
    assert again.score(X) == fitted.score(X)


def test_threads_do_not_change_bits(fitted):
    for n_jobs in (1, 2):
        assert_same_model(model(n_jobs=n_jobs).fit(HOLED), fitted)


def test_random_states():
    seeds = [model(max_steps=3, random_state=np.random.RandomState(s)).fit(X) for s in (0, 0, 1)]
    assert_same_model(seeds[0], seeds[1])
    assert (seeds[0].components_ != seeds[2].components_).any()
    unseeded = [model(max_steps=3, random_state=None).fit(X) for _ in range(2)]
    assert (unseeded[0].components_ != unseeded[1].components_).any()


def test_a_mask_of_missing_entries_means_the_same_as_nan(fitted):
    """Also in a frame, and in rows of which some entries are NaN as well. Sources are refused, as in fit."""
    half = np.where(HIDDEN & (np.arange(N) % 2 == 0)[:, None], np.nan, X)
    frame = pytest.importorskip("pandas").DataFrame(half, columns=list("abcdef"))
    expected, expected_std = fitted.impute(HOLED, return_std=True)
    for data in (X, half):
        filled, std = fitted.impute(data, missing=HIDDEN, return_std=True)
        np.testing.assert_array_equal(filled, expected)
        np.testing.assert_array_equal(std, expected_std)
        np.testing.assert_array_equal(fitted.transform(data, missing=HIDDEN), fitted.transform(HOLED))
    named = model(max_steps=5).fit(frame, missing=HIDDEN)
    assert list(named.impute(frame, missing=HIDDEN).columns) == list("abcdef")
    with pytest.raises(ValueError, match="missing: shape"):
        fitted.impute(X, missing=HIDDEN[1:])
    with pytest.raises(ValueError, match="missing: shape"):
        fitted.transform(X, missing=HIDDEN[1:])
    with pytest.raises(ValueError, match="missing: a mask goes with an array"):
        fitted.impute(ArrayRows(X), missing=HIDDEN)


def test_fit_transform_knows_the_mask_in_both_steps():
    weights = model().fit_transform(X, missing=HIDDEN)
    np.testing.assert_array_equal(weights, model().fit_transform(HOLED))


def test_weights_that_overflow_are_refused():
    rng = np.random.default_rng(0)
    fitted = BPFA(4, max_steps=10, random_state=0).fit(rng.normal(size=(200, 5)))
    huge = rng.normal(size=(5, 5)).astype(np.float32)
    huge[3] = 1e38
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="the weights of row 3 overflow"):
        fitted.transform(huge)
