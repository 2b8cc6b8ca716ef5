"""Rows in batches: offsets and noise scales are found, removed, saved, and shown on request."""

import anndata
import numpy as np
import pandas as pd
import pytest

from bpfa import BPFA, BPFAImputer, open_rows
from bpfa.data.batches import BatchEffects
from bpfa.selection.batch_effects import posterior_offsets

N, D, B = 1500, 10, 6


def drawn(seed=0, n_batches=B, deviation=0.8):
    """Rows of a factor model with offsets and noise scales of batches, in a random order."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_batches, N)
    offset = deviation * rng.normal(size=(n_batches, D))
    scale = np.exp(0.4 * rng.normal(size=n_batches))
    signal = rng.normal(size=(N, 2)) @ rng.normal(size=(2, D)) + 5.0
    noise = 0.4 * scale[codes][:, None] * rng.normal(size=(N, D))
    return signal + offset[codes] + noise, codes, offset, scale


def fitted(X, batch=None, **parameters):
    return BPFA(n_components=2, max_steps=60, n_jobs=1, random_state=0, **parameters).fit(X, batch=batch)


@pytest.fixture(scope="module")
def example():
    X, codes, offset, scale = drawn()
    hidden = np.random.default_rng(1).random(X.shape) < 0.1
    holes = np.where(hidden, np.nan, X)
    labels = np.array([f"day {code}" for code in codes])
    return X, holes, hidden, codes, labels, offset, scale, fitted(holes, labels)


@pytest.mark.parametrize("n_batches", [3, 10])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_offsets_are_found_within_their_own_error(n_batches, tau):
    rng = np.random.default_rng(0)
    n = rng.integers(20, 2000, size=(n_batches, 1)) * np.ones((1, 300), dtype=int)
    offset = tau * rng.normal(size=n.shape)
    found = posterior_offsets(3.0 + offset + rng.normal(size=n.shape) / np.sqrt(n), np.ones(300), n)
    z = (found.offset - offset) / found.offset_std
    assert 0.85 < np.sqrt((z**2).mean()) < 1.15
    levels = (found.mean + found.offset - 3.0 - offset) / found.level_std
    assert 0.85 < np.sqrt((levels**2).mean()) < 1.15
    assert 0.8 < np.sqrt((found.between_std**2).mean()) / tau < 1.4


def test_offsets_and_noise_scales_of_a_fit(example):
    _, _, _, codes, _, offset, scale, model = example
    effects = model.batch_effects_
    assert isinstance(effects, BatchEffects)
    assert effects.labels == tuple(f"day {code}" for code in range(B))
    true = scale / np.sqrt((np.bincount(codes) * scale**2).sum() / N)
    np.testing.assert_allclose(effects.scale, true, rtol=0.15)
    level = (effects.mean + effects.offset) - (5.0 + offset)
    assert np.sqrt(((level / effects.level_std) ** 2).mean()) < 1.6
    table = effects.to_pandas()
    assert table.loc["day 2", "n_rows"] == (codes == 2).sum()


def test_batches_make_predictions_better_and_honest(example):
    X, holes, hidden, _, labels, _, _, model = example
    filled, std = model.impute(holes, batch=labels, return_std=True)
    error = (filled - X)[hidden]
    # Batches are kinds of rows, too, which would make up for a part of what is lost without labels.
    plain = (fitted(holes, groups=False).impute(holes) - X)[hidden]
    assert (error**2).mean() < 0.7 * (plain**2).mean()
    assert 0.93 < (np.abs(error) < 1.96 * std[hidden]).mean() < 0.97
    np.testing.assert_array_equal(filled[~hidden], X[~hidden])


def test_a_row_as_another_batch_would_show_it(example):
    X, holes, hidden, codes, labels, _, _, model = example
    effects = model.batch_effects_
    moved = model.impute(holes, batch=labels, to_batch="day 3")
    shift = effects.offset[3] - effects.offset[codes]
    np.testing.assert_allclose(moved[~hidden], (X + shift)[~hidden])
    own = model.impute(holes, batch=labels)
    unscaled = (own - effects.mean - effects.offset[codes]) / effects.scale[codes][:, None]
    expected = effects.mean + effects.offset[3] + effects.scale[3] * unscaled
    np.testing.assert_allclose(moved[hidden], expected[hidden])


def test_rows_of_unknown_batches_belong_to_the_population(example):
    _, holes, hidden, _, labels, _, _, model = example
    _, own_std = model.impute(holes[:50], batch=labels[:50], return_std=True)
    filled, std = model.impute(holes[:50], batch=["another"] * 50, return_std=True)
    without, _ = model.impute(holes[:50], return_std=True)
    np.testing.assert_array_equal(filled, without)
    assert (std[hidden[:50]] > own_std[hidden[:50]]).mean() > 0.9
    assert (std[hidden[:50]] ** 2).mean() > 0.5 * (model.batch_effects_.between_std**2).mean()


def test_weights_do_not_show_batches(example):
    X, _, _, codes, labels, _, _, model = example

    def between(weights):
        means = np.array([weights[codes == code].mean(axis=0) for code in range(B)])
        return means.var(axis=0).sum() / weights.var(axis=0).sum()

    assert between(model.transform(X, batch=labels)) < 0.02 < between(fitted(X).transform(X))
    restored = model.inverse_transform(model.transform(X, batch=labels), batch=labels)
    assert np.abs(restored - X).mean() < np.abs(model.inverse_transform(model.transform(X)) - X).mean()


def test_a_model_with_batches_is_saved_and_resumed(example, tmp_path):
    _, holes, _, _, labels, _, _, model = example
    model.save(tmp_path / "m.bpfa")
    loaded = BPFA.load(tmp_path / "m.bpfa")
    assert loaded.batch_effects_.labels == model.batch_effects_.labels
    np.testing.assert_array_equal(loaded.impute(holes, batch=labels), model.impute(holes, batch=labels))
    short = BPFA(n_components=2, max_steps=30, n_jobs=1, random_state=0)
    short.fit(holes, batch=labels, checkpoint=tmp_path / "c.bpfa")
    longer = BPFA(n_components=2, max_steps=60, n_jobs=1, random_state=0)
    longer.fit(holes, batch=labels, resume=tmp_path / "c.bpfa")
    np.testing.assert_array_equal(longer.components_, model.components_)
    for other in (labels[::-1], None):
        with pytest.raises(ValueError, match=r"resume: .*c.bpfa was fitted to other data"):
            longer.fit(holes, batch=other, resume=tmp_path / "c.bpfa")


def test_scores_and_diagnostics_know_batches(example):
    X, _, _, _, labels, _, _, _ = example
    model = fitted(X, labels, held_out=0.1)
    assert (
        model.score(X, batch=labels)
        > model.held_out_score(X, ~np.isnan(X) & (np.arange(D) == 3)).log_likelihood
    )
    table = model.calibration(X, batch=labels)
    assert (table["entries"] == "held out").all()
    assert 0.92 < table["coverage"].iloc[-1] < 0.98
    known, unknown = (
        model.variance_explained(X, batch=batch)["variance_explained"].iloc[1] for batch in (labels, None)
    )
    # More than half of what is left unexplained without the batches is theirs.
    assert 1 - known < (1 - unknown) / 2
    std = model.residuals(X, batch=labels)["std"]
    assert (std < model.residuals(X)["std"]).mean() > 0.7
    assert model.component_summary(X, batch=labels)["variance_explained"].sum() > 0.5


def test_the_score_is_a_density_in_the_units_of_the_data():
    X, codes, _, _ = drawn()
    held_out = np.zeros(X.shape, dtype=bool)
    held_out[::7, 4] = True
    model = fitted(np.where(held_out, np.nan, X), codes)
    mean, std = model.impute(np.where(held_out, np.nan, X), batch=codes, return_std=True)
    error, spread = (X - mean)[held_out], std[held_out]
    normal = (-0.5 * np.log(2 * np.pi * spread**2) - error**2 / (2 * spread**2)).mean()
    assert abs(model.held_out_score(X, held_out, batch=codes).log_likelihood - normal) < 0.05


def test_labels_from_a_column_of_obs(example, tmp_path):
    X, _, _, _, labels, _, _, _ = example
    adata = anndata.AnnData(X, obs=pd.DataFrame({"day": labels}, index=[f"c{i}" for i in range(N)]))
    model = fitted(adata, "day")
    np.testing.assert_array_equal(model.components_, fitted(X, labels).components_)
    adata.write_h5ad(tmp_path / "x.h5ad")
    rows = open_rows(tmp_path / "x.h5ad")
    np.testing.assert_array_equal(model.transform(rows, batch="day"), model.transform(adata, batch="day"))
    model.annotate(adata, batch="day")
    with pytest.raises(ValueError, match="batch='plate': obs has no such column; expected one of 'day'"):
        fitted(adata, "plate")


def test_rows_on_disk_and_labels_in_memory(example, tmp_path):
    _, holes, _, codes, _, _, _, _ = example
    np.save(tmp_path / "x.npy", holes)
    model = fitted(open_rows(tmp_path / "x.npy"), codes)
    np.testing.assert_allclose(model.batch_effects_.offset, fitted(holes, codes).batch_effects_.offset)


def test_a_batch_of_one_row_is_shrunk():
    X, codes, _, _ = drawn(deviation=0.05)
    codes = np.where(np.arange(N) == 0, 99, codes)
    with pytest.warns(UserWarning, match="batch: a single row in 99; the offsets") as caught:
        effects = fitted(X, codes).batch_effects_
    assert caught[0].filename == __file__
    alone = effects.labels.index(99)
    assert np.abs(effects.offset[alone]).max() < 0.2 < np.abs(X[0] - X.mean(axis=0)).max()
    assert 0.5 < effects.scale[alone] < 2.0


def test_sparse_columns_take_batches():
    X, *_ = drawn()
    model = BPFA(n_components=2, sparse="columns", max_steps=20, random_state=0).fit(
        X.T[:, :60], batch=[0, 1] * 5
    )
    assert model.batch_effects_.offset.shape == (2, 60)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (["a"] * (N - 1), f"batch: {N - 1} labels; expected {N}, one for every row"),
        ([np.nan] + ["a"] * (N - 1), "batch: the label of row 0 is missing; expected a label for every row"),
        ([1.0] * (N - 1) + [np.nan], f"batch: the label of row {N - 1} is missing"),
        (pd.Series([None] + ["a"] * (N - 1)), "batch: the label of row 0 is missing"),
        ("day", "batch='day': the name of a column of obs, but X is not AnnData; expected a label"),
        (np.ones((N, 2)), rf"batch: an array of shape \({N}, 2\); expected a sequence or array of one axis"),
        (3, "batch: int; expected a sequence or array of one axis"),
        (range(N), f"batch: {N} different labels for {N} rows; expected batches of several rows"),
    ],
)
def test_labels_that_are_refused(batch, message):
    X, _, _, _ = drawn()
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(X, batch)


def test_batches_that_are_not_in_the_model(example):
    X, _, _, _, labels, _, _, model = example
    with pytest.raises(
        ValueError, match="to_batch='day 9': not a batch of the fit; expected one of 'day 0', "
    ):
        model.impute(X, batch=labels, to_batch="day 9")
    plain = fitted(X)
    with pytest.raises(ValueError, match="batch: the model was fitted without batches; expected None"):
        plain.transform(X, batch=labels)
    with pytest.raises(ValueError, match="to_batch=3: the model was fitted without batches; expected None"):
        plain.impute(X, to_batch=3)
    again = fitted(X, labels)
    assert not hasattr(again.fit(X), "batch_effects_")


def test_a_stream_keeps_the_batches_of_its_first_part(example):
    X, holes, hidden, _, labels, offset, _, _ = example
    model = BPFA(n_components=2, n_jobs=1, random_state=0, batch_size=100)
    model.partial_fit(holes[:900], batch=labels[:900])
    effects = model.batch_effects_
    for start in range(0, 900, 300):
        model.partial_fit(holes[start : start + 300], batch=labels[start : start + 300])
    assert model.batch_effects_ is effects
    np.testing.assert_allclose(
        effects.offset - effects.offset.mean(axis=0), offset - offset.mean(axis=0), atol=0.5
    )
    without = BPFA(n_components=2, n_jobs=1, random_state=0, batch_size=100).partial_fit(holes[:900])
    later, mask = X[900:], hidden[900:]
    known = model.held_out_score(later, mask, batch=labels[900:])
    assert known.mse < 0.8 * without.held_out_score(later, mask).mse
    model.partial_fit(holes[900:], batch=["new"] * 600)
    with pytest.raises(ValueError, match="batch: the model was fitted without batches"):
        without.partial_fit(holes[900:], batch=labels[900:])


def test_the_imputer_takes_batches(example):
    _, holes, _, _, labels, *_ = example
    settings = {"n_components": 2, "max_steps": 60, "n_jobs": 1, "random_state": 0}
    imputer = BPFAImputer(**settings).fit(holes, batch=labels)
    np.testing.assert_array_equal(
        imputer.transform(holes, batch=labels, to_batch="day 2"),
        imputer.model_.impute(holes, batch=labels, to_batch="day 2"),
    )
    np.testing.assert_array_equal(
        BPFAImputer(**settings).fit_transform(holes, batch=labels), imputer.transform(holes, batch=labels)
    )
    adata = anndata.AnnData(
        holes, obs=pd.DataFrame({"day": labels}, index=[str(i) for i in range(len(labels))])
    )
    np.testing.assert_array_equal(
        imputer.transform(adata, batch="day"), imputer.transform(holes, batch=labels)
    )
