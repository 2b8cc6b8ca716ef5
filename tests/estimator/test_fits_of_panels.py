"""Fitting tables that are made up of panels, and imputing what a panel lacks."""

import numpy as np
import pandas as pd
import pytest

from bpfa import BPFA, BPFAImputer, open_rows
from bpfa._support.philox import Stream
from bpfa.data import ArrayRows, Scale
from bpfa.inference.factor_analysis import FactorAnalysis
from bpfa.inference.linked_rows import linked_rows
from bpfa.inference.panel_factors import PanelFactorAnalysis, factor_analysis
from bpfa.selection.column_noise import column_noise

NAMES = [f"m{d}" for d in range(12)]
FIRST, SECOND = slice(4, 8), slice(8, 12)
SCALE = Scale(np.zeros(12), np.ones(12), np.ones(12))


def drawn(n_rows=3000, seed=0):
    """Two factors that all columns show, and one more in each of the two panels."""
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(4, 12))
    loadings[2, :8], loadings[3, :4] = 0.0, 0.0
    loadings[3, 8:] = 0.0
    noise = rng.uniform(0.3, 0.8, size=12)
    complete = rng.normal(size=(n_rows, 4)) @ loadings + noise * rng.normal(size=(n_rows, 12))
    hidden = np.zeros(complete.shape, dtype=bool)
    hidden[: n_rows // 2, SECOND] = hidden[n_rows // 2 :, FIRST] = True
    return complete, hidden, noise


def panels():
    complete, hidden, _ = drawn()
    half = len(complete) // 2
    first = pd.DataFrame(complete[:half, :8], columns=NAMES[:8])
    second = pd.DataFrame(complete[half:, [*range(4), *range(8, 12)]], columns=NAMES[:4] + NAMES[8:])
    return complete, hidden, first, second


def test_the_marker_that_a_panel_lacks_is_imputed_in_one_call():
    complete, hidden, first, second = panels()
    rows = open_rows([first, second], columns="union")
    model = BPFA(random_state=0, n_jobs=1).fit(rows)
    filled, std = model.impute(rows, return_std=True)
    assert list(filled.columns) == NAMES == list(std.columns)
    error, spread = (filled.to_numpy() - complete)[hidden], std.to_numpy()[hidden]
    # Linear regression on the shared columns, given the truth: the best that they alone can do.
    covariance = np.cov(complete.T)
    best = np.zeros(12)
    for d in range(4, 12):
        weights = np.linalg.solve(covariance[:4, :4], covariance[:4, d])
        best[d] = covariance[d, d] - weights @ covariance[:4, d]
    assert (error**2).mean() < 1.05 * best[4:].mean()
    assert 0.93 < (np.abs(error) < 1.96 * spread).mean() < 0.97
    np.testing.assert_array_equal(filled.to_numpy()[~hidden], complete[~hidden])
    # New rows of a single panel, whose columns come in another order.
    new = open_rows([second[second.columns[::-1]].iloc[:5]], columns="union")
    np.testing.assert_allclose(model.impute(new), filled[-len(second) :][:5], atol=0.3)
    assert list(model.impute(new).columns) == NAMES


def test_the_imputer_of_pipelines_takes_panels():
    _, _, first, second = panels()
    rows = open_rows([first[:200], second[:200]], columns="union")
    filled = BPFAImputer(n_components=3, max_steps=20, random_state=0).fit_transform(rows)
    assert filled.shape == (400, 12)
    assert np.isfinite(filled).all()


def test_the_noise_of_columns_is_found_in_panels():
    complete, hidden, noise = drawn()
    scale = complete.std(axis=0)
    rows = ArrayRows(complete / scale, hidden)
    found = column_noise(rows, 5, Stream.from_seed(0))
    expected = noise / scale / np.sqrt(((noise / scale) ** 2).mean())
    assert 0.7 < (found / expected).min() < (found / expected).max() < 1.5
    # Without a treatment of their own, some columns of panels appear to have hardly any noise.
    naive = FactorAnalysis(rows.values, rows.observed)
    naive.fit(5, 100)
    assert (np.sqrt(naive.noise / naive.noise.mean()) / expected).min() < 0.3


def test_entries_missing_here_and_there_are_no_panels():
    complete, _, _ = drawn()
    missing = np.random.default_rng(1).random(complete.shape) < 0.4
    assert type(factor_analysis(complete, ~missing)) is FactorAnalysis
    rows = ArrayRows(complete, missing)
    assert linked_rows(rows, SCALE, Stream.from_seed(0)) is rows


def test_only_what_a_panel_lacks_is_drawn_and_by_the_number_of_the_row():
    complete, hidden, _ = drawn()
    missing = hidden | (np.random.default_rng(1).random(complete.shape) < 0.05)
    rows = linked_rows(ArrayRows(complete, missing), SCALE, Stream.from_seed(0))
    batch = rows.read(0, rows.n_rows)
    np.testing.assert_array_equal(batch.observed, ~missing | hidden)
    some = np.array([7, 2900, 3])
    np.testing.assert_allclose(rows.take(some).values, batch.values[some], rtol=1e-12)
    # The draws have the covariance with the shared columns that the table has.
    filled = np.where(hidden, batch.values, complete)[:1500]
    np.testing.assert_allclose(np.cov(filled.T)[:4, 8:], np.cov(complete.T)[:4, 8:], atol=0.45)


def test_no_covariance_is_claimed_that_no_row_has_shown():
    # One factor is in all columns but the shared ones. Whether it is one factor or two cannot be known.
    rng = np.random.default_rng(0)
    complete = rng.normal(size=(3000, 1)) @ np.r_[np.zeros(4), np.ones(8)][None] + 0.5 * rng.normal(
        size=(3000, 12)
    )
    hidden = np.zeros(complete.shape, dtype=bool)
    hidden[:1500, SECOND] = hidden[1500:, FIRST] = True
    analysis = PanelFactorAnalysis(complete, ~hidden)
    analysis.fit(2, 50)
    covariance = analysis.loadings @ analysis.loadings.T
    assert np.abs(covariance[FIRST, SECOND]).max() < 0.1
    assert covariance[FIRST, FIRST].min() > 0.8


def test_a_fit_of_panels_is_resumed_to_the_same_bits(tmp_path):
    _, _, first, second = panels()
    rows = open_rows([first[:300], second[:300]], columns="union")
    whole = BPFA(n_components=3, max_steps=20, n_jobs=1, random_state=0).fit(rows)
    BPFA(n_components=3, max_steps=8, n_jobs=1, random_state=0).fit(rows, checkpoint=tmp_path / "c.bpfa")
    resumed = BPFA(n_components=3, max_steps=20, n_jobs=1, random_state=0)
    resumed.fit(rows, resume=tmp_path / "c.bpfa")
    np.testing.assert_array_equal(resumed.components_, whole.components_)


def test_panels_can_be_batches():
    complete, hidden, first, second = panels()
    shifted = second + np.linspace(-2.0, 2.0, second.shape[1])
    lacking = hidden & (np.arange(12) < 8)

    def squared_error(second, by_panel):
        rows = open_rows({"monday": first, "tuesday": second}, columns="union")
        labels = rows.panel_labels if by_panel else None
        model = BPFA(n_components=4, max_steps=60, n_jobs=1, random_state=0).fit(rows, batch=labels)
        filled = model.impute(rows, batch=labels).to_numpy()
        return ((filled - complete)[lacking] ** 2).mean(), model

    found, model = squared_error(shifted, by_panel=True)
    offset = model.batch_effects_.offset[:, :4]
    np.testing.assert_allclose(offset[1] - offset[0], np.linspace(-2.0, 2.0, 8)[:4], atol=0.3)
    assert found < 1.05 * squared_error(second, by_panel=False)[0]
    assert found < squared_error(shifted, by_panel=False)[0]


@pytest.mark.parametrize("columns", [NAMES[:7], [*NAMES[:8], "other"]])
def test_columns_that_the_fit_does_not_have(columns):
    _, _, first, second = panels()
    model = BPFA(n_components=2, max_steps=2).fit(open_rows([first[:100], second[:100]], columns="union"))
    new = pd.DataFrame(np.ones((2, len(columns))), columns=columns)
    if columns[-1] != "other":
        assert model.impute(open_rows([new], columns="union")).shape == (2, 12)
        return
    with pytest.raises(ValueError, match="panel 0: column 'other' is not a column of the fit; expected"):
        model.impute(open_rows([new], columns="union"))
