"""What a model says of itself, in frames: against known answers, loops, and data drawn from it."""

import sys
from copy import copy
from dataclasses import replace

import numpy as np
import pandas
import polars
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError

from bpfa import BPFA, ArrayRows, GlobalPosterior, Priors
from bpfa.data.scaling import Scale
from bpfa.estimator.calibration import predictive_draws
from bpfa.estimator.publishing import publish
from bpfa.model.features import FactorisedFeatures

METHODS = (
    "component_summary",
    "variance_explained",
    "top_columns",
    "merge_report",
    "calibration",
    "residuals",
)
OF_DATA = ("component_summary", "variance_explained", "calibration", "residuals")
# So large that a global is as good as known.
SURE = 1e8


def known_model(phi, pi, *, g_o=100.0, g_w=1.0, scale=None, names=None, **parameters):
    """A model that knows these globals, not in the order of use, of columns with this scale and mean 5."""
    phi, pi = np.asarray(phi, dtype=float), np.asarray(pi, dtype=float)
    (K, D), n_rows = phi.shape, 10_000
    posterior = GlobalPosterior(
        priors=Priors(),
        n_rows=n_rows,
        # The share of the prior is small beside that of the rows.
        a=Priors().beta(K)[0] + n_rows * pi,
        b=Priors().beta(K)[1] + n_rows * (1 - pi),
        c=SURE * g_o,
        d=SURE,
        e=SURE * g_w,
        f=SURE,
        features=FactorisedFeatures.around(phi, tau=SURE),
    )
    some = np.random.default_rng(0).normal(size=(3, D))
    X = some if names is None else pandas.DataFrame(some, columns=names)
    model = BPFA(K, max_steps=1, random_state=0, **parameters).fit(X)
    columns = Scale(np.full(D, 5.0), np.ones(D) if scale is None else np.asarray(scale), np.ones(D))
    known = {"posterior": posterior, "last": None, "scale": columns, "n_rows_seen": n_rows}
    publish(model, replace(model._outcome, **known))
    return model


def drawn(model, n_rows, seed=0):
    """Rows drawn from what a model knows."""
    return model.sample(n_rows, random_state=seed)


PHI = np.array([[1.0, -2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 1.0], [0.5, 0.5, 0.5, 0.5]])
PI = np.array([0.2, 0.4, 0.0])
SCALE = np.array([1.0, 2.0, 0.5, 10.0])
NAMES = ["CD3", "CD4", "CD8", "CD19"]


@pytest.fixture(scope="module")
def model():
    """Two components of separate columns, and a third that no row uses."""
    return known_model(PHI, PI, scale=SCALE, names=NAMES)


@pytest.fixture(scope="module")
def X(model):
    """Its data, a fifth missing."""
    values = drawn(model, 400)
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    return values


def as_names(X):
    return pandas.DataFrame(X, columns=NAMES)


def test_component_summary(model):
    summary = model.component_summary()
    assert summary.index.tolist() == ["bpfa0", "bpfa1", "bpfa2"]
    np.testing.assert_allclose(summary["usage"], [0.4, 0.2, 0.0], atol=1e-3)
    assert summary["in_use"].tolist() == [True, True, False]
    np.testing.assert_allclose(summary["size"], [10**0.5, 5**0.5, 1.0])


def test_component_in_use_by_the_rule_of_the_posterior():
    model = known_model(np.eye(4), [0.0011, 0.0009, 0.5, 0.0])
    assert model.n_components_used_ == 2
    assert model.component_summary()["in_use"].tolist() == [True, True, False, False]


def test_what_a_component_explains_is_what_is_lost_without_it(model, X):
    standardised = (X - model.mean_) / model.scale_
    weights, phi = model.transform(as_names(X)), model.components_ / model.scale_

    def squared_error(weights):
        return np.nansum((standardised - weights @ phi) ** 2)

    expected = []
    for k in range(3):
        without = weights.copy()
        without[:, k] = 0.0
        expected.append((squared_error(without) - squared_error(weights)) / np.nansum(standardised**2))
    explained = model.component_summary(as_names(X))["variance_explained"]
    np.testing.assert_allclose(explained, expected, rtol=1e-6, atol=1e-12)
    assert explained.iloc[2] == 0.0
    # The two share no column, so that what they explain adds up.
    np.testing.assert_allclose(
        explained.sum(), 1 - squared_error(weights) / np.nansum(standardised**2), rtol=1e-6
    )
    assert explained.sum() > 0.95


@pytest.mark.parametrize("per_column", [False, True])
def test_variance_explained_is_that_of_what_impute_fills_in(model, X, per_column):
    hidden = (np.random.default_rng(2).random(X.shape) < 0.3) & ~np.isnan(X)
    answer = model.variance_explained(as_names(X), hidden, per_column=per_column)
    filled = model.impute(as_names(np.where(hidden, np.nan, X)), n_draws=20).to_numpy()
    axis = 0 if per_column else None
    error = np.where(hidden, (X - filled) / model.scale_, 0.0)
    total = np.where(hidden, (X - model.mean_) / model.scale_, 0.0)
    expected = 1 - (error**2).sum(axis=axis) / (total**2).sum(axis=axis)
    held_out = answer[answer["entries"] == "held out"]
    np.testing.assert_allclose(held_out["variance_explained"], np.atleast_1d(expected), rtol=1e-5)
    np.testing.assert_array_equal(held_out["n_entries"], np.atleast_1d(hidden.sum(axis=axis)))
    seen = answer[answer["entries"] == "observed"]
    np.testing.assert_array_equal(seen["n_entries"], np.atleast_1d((~np.isnan(X) & ~hidden).sum(axis=axis)))
    assert (seen["variance_explained"] > 0.9).all()
    assert ("column" in answer) == per_column
    if per_column:
        assert held_out["column"].tolist() == NAMES


def test_variance_explained_of_nothing_but_noise():
    model = known_model(np.eye(3), [0.01, 0.01, 0.01], g_o=1.0)
    X = np.random.default_rng(0).normal(5.0, size=(2000, 3))
    held_out = model.variance_explained(X)["variance_explained"].iloc[1]
    assert abs(held_out) < 0.02


def test_a_constant_column_has_no_variance_to_explain(model, X):
    X = X.copy()
    X[:, 0] = model.mean_[0]
    answer = model.variance_explained(as_names(X), per_column=True)
    assert answer.groupby("column")["variance_explained"].apply(lambda share: share.isna().all())["CD3"]
    assert answer["variance_explained"].isna().sum() == 2


def test_the_entries_hidden_by_default_are_those_of_the_score(model, X):
    score = model.held_out_score(as_names(X))
    answer = model.variance_explained(as_names(X))
    assert answer["n_entries"].iloc[1] == score.n_entries
    assert (model.calibration(as_names(X))["n_entries"] == score.n_entries).all()
    np.testing.assert_array_equal(answer["n_entries"].sum(), (~np.isnan(X)).sum())


def test_top_columns(model):
    top = model.top_columns(2)
    assert top["component"].tolist() == ["bpfa0", "bpfa0", "bpfa1", "bpfa1", "bpfa2", "bpfa2"]
    assert top["rank"].tolist() == [1, 2] * 3
    # Sorted by the standardised loading: in the units of the data CD19 would lead in the first component.
    assert top["column"].tolist()[:4] == ["CD8", "CD19", "CD4", "CD3"]
    np.testing.assert_allclose(top["standardised_loading"][:4], [3.0, 1.0, -2.0, 1.0])
    np.testing.assert_allclose(top["loading"][:4], [1.5, 10.0, -4.0, 1.0])
    assert len(model.top_columns(100)) == 3 * 4


def test_merge_report():
    a, b = np.array([1.0, 2.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 0.0])
    phi = [a, 3 * a + 0.1 * b, b, -b, b, np.zeros(4)]
    model = known_model(phi, [0.5, 0.3, 0.2, 0.1, 0.0, 0.05], scale=[1.0, 10.0, 100.0, 1.0])
    report = model.merge_report()
    assert report["component"].tolist() == ["bpfa2", "bpfa0", "bpfa5"]
    assert report["other"].tolist() == ["bpfa3", "bpfa1", None]
    np.testing.assert_allclose(report["usage"], [0.2, 0.5, 0.0], atol=1e-3)
    np.testing.assert_allclose(report["other_usage"], [0.1, 0.3, np.nan], atol=1e-3)
    np.testing.assert_allclose(report["cosine"], [-1.0, 15 / (5 * 45.01) ** 0.5, np.nan])
    assert report["advice"].tolist() == ["merge", "merge", "prune"]
    assert model.merge_report(similarity=0.9999)["advice"].tolist() == ["merge", "prune"]


def test_merge_report_with_nothing_to_say():
    report = known_model(np.eye(3), [0.5, 0.3, 0.2]).merge_report()
    assert len(report) == 0
    assert report.columns.tolist() == ["component", "other", "usage", "other_usage", "cosine", "advice"]


@pytest.fixture(scope="module")
def drawn_from_model():
    """A model, 6000 rows drawn from it, and one hidden entry a row, so that entries are independent."""
    rng = np.random.default_rng(0)
    model = known_model(
        rng.normal(size=(3, 6)), [0.12, 0.12, 0.12], g_o=4.0, g_w=0.1, scale=np.arange(1.0, 7.0), burn_in=10
    )
    X = drawn(model, 6000)
    hidden = np.arange(6) == rng.integers(6, size=(6000, 1))
    return model, X, hidden


def assert_calibrated(calibration, n_entries):
    level, n = calibration["level"], calibration["n_entries"]
    assert (n == n_entries).all()
    assert (np.abs(calibration["coverage"] - level) < 4 * np.sqrt(level * (1 - level) / n)).all()


def test_intervals_cover_what_they_are_meant_to(drawn_from_model):
    assert_calibrated(drawn_from_model[0].calibration(*drawn_from_model[1:]), 6000)


def test_intervals_of_peaked_distributions(drawn_from_model):
    """Of few entries, a component may be in the row or not: normal intervals of 50 % would cover 57 %."""
    model, X, hidden = copy(drawn_from_model[0]), drawn_from_model[1][:3000], drawn_from_model[2][:3000]
    model.settings_ = replace(model.settings_, options={**model.settings_.options, "burn_in": 60})
    missing = (np.random.default_rng(1).random(X.shape) < 0.7) & ~hidden
    assert_calibrated(model.calibration(np.where(missing, np.nan, X), hidden), 3000)


def test_intervals_that_leave_no_tail_to_spare(drawn_from_model):
    """Between the smallest and the largest of 39 draws lies 95 %, whatever the distribution."""
    model, X, hidden = drawn_from_model
    coverage = model.calibration(X, hidden, levels=[0.95], n_draws=39)["coverage"][0]
    assert abs(coverage - 0.95) < 4 * (0.95 * 0.05 / 6000) ** 0.5
    with pytest.raises(ValueError, match=r"n_draws=38: expected at least 39, for the tails of 0\.95"):
        model.calibration(X, hidden, levels=[0.5, 0.95], n_draws=38)


def test_coverage_tells_of_a_model_that_is_too_sure(drawn_from_model):
    """The control: the data has three times the noise that the model knows of."""
    model, X, hidden = drawn_from_model
    rng = np.random.default_rng(3)
    noisy = X + model.scale_ * rng.normal(scale=8**0.5 * 0.5, size=X.shape)
    assert model.calibration(noisy[:1000], hidden[:1000])["coverage"].iloc[2] < 0.9


def test_width_of_intervals_where_all_is_noise():
    model = known_model(np.eye(3), [1e-9] * 3, g_o=4.0, scale=[1.0, 10.0, 100.0])
    X = drawn(model, 3000)
    for per_column in (False, True):
        calibration = model.calibration(X, per_column=per_column, n_draws=199)
        np.testing.assert_allclose(
            calibration["width"], 2 * stats.norm.ppf((1 + calibration["level"]) / 2) * 0.5, rtol=0.03
        )
    assert calibration["column"].tolist() == ["x0", "x1", "x2"] * 3


def test_calibration_per_column_adds_up(drawn_from_model):
    model, X, hidden = drawn_from_model
    X, hidden = X[:1000], hidden[:1000].copy()
    hidden[:, 2] = False
    whole, columns = model.calibration(X, hidden), model.calibration(X, hidden, per_column=True)
    assert columns["coverage"].isna().sum() == 3
    for name in ("coverage", "width"):
        columns[name] *= columns["n_entries"]
        whole[name] *= whole["n_entries"]
    sums = columns.groupby("level", as_index=False)[["n_entries", "coverage", "width"]].sum()
    pandas.testing.assert_frame_equal(sums, whole, check_like=True)


def test_residuals_are_standard_normal_if_the_model_is_right(drawn_from_model):
    model, X, _ = drawn_from_model
    residuals, n = model.residuals(X), len(X)
    assert (residuals["n_entries"] == n).all()
    for name, expected, error in (
        ("mean", 0.0, n**-0.5),
        ("std", 1.0, (2 * n) ** -0.5),
        ("skewness", 0.0, (6 / n) ** 0.5),
        ("excess_kurtosis", 0.0, (24 / n) ** 0.5),
        ("beyond_3", 0.0027, (0.0027 / n) ** 0.5),
    ):
        assert (np.abs(residuals[name] - expected) < 4 * error).all(), name


def test_residuals_of_a_model_without_components_are_the_data():
    """Moments against SciPy's, missing entries left out."""
    model = known_model(np.zeros((2, 3)), [0.5, 0.5], g_o=4.0, scale=[1.0, 2.0, 3.0])
    rng = np.random.default_rng(0)
    X = 5 + (rng.gamma(1.0, size=(500, 3)) - 0.7) * [1.0, 2.0, 3.0]
    X[:5] -= 10
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 2] = np.nan
    residuals = model.residuals(X)
    expected = (X - 5) / [1.0, 2.0, 3.0] / 0.5
    for d in range(2):
        r = expected[~np.isnan(X[:, d]), d]
        moments = [len(r), r.mean(), r.std(), stats.skew(r), stats.kurtosis(r), (np.abs(r) > 3).mean()]
        # SURE is no more than that.
        np.testing.assert_allclose(residuals.iloc[d], moments, rtol=1e-3)
    assert residuals.iloc[2, 0] == 0
    assert residuals.iloc[2, 1:].isna().all()


@pytest.mark.parametrize("name", OF_DATA)
def test_frames_and_arrays_say_the_same(model, X, name):
    frame = as_names(X)
    first = getattr(model, name)(frame)
    for other in (polars.DataFrame(X, schema=NAMES), ArrayRows(X)):
        pandas.testing.assert_frame_equal(getattr(model, name)(other), first)
    # What a missing entry holds is of no matter.
    filled = ArrayRows(np.nan_to_num(X, nan=1e6), np.isnan(X))
    pandas.testing.assert_frame_equal(getattr(model, name)(filled), first)


@pytest.mark.parametrize("name", OF_DATA)
def test_rows_are_read_in_blocks_without_effect(model, X, name, monkeypatch):
    whole = getattr(model, name)(as_names(X))
    sizes = []

    class Watched(ArrayRows):
        def take(self, ids):
            sizes.append(len(ids))
            return super().take(ids)

    monkeypatch.setattr("bpfa.estimator.frames.BLOCK_ENTRIES", 4 * 30)
    # The noise of predictive draws is another.
    tolerance = 0.15 if name == "calibration" else 1e-6
    pandas.testing.assert_frame_equal(getattr(model, name)(Watched(X)), whole, rtol=tolerance)
    assert max(sizes) == 30
    assert sum(sizes) == len(X)


def test_what_is_said_does_not_depend_on_the_order_of_rows(X):
    model = known_model(PHI, [0.3, 0.3, 0.3])
    pandas.testing.assert_frame_equal(model.residuals(X), model.residuals(X[::-1]))
    explained = (model.component_summary(rows) for rows in (X, X[::-1]))
    pandas.testing.assert_frame_equal(*explained)


def test_predictive_draws():
    """Rows that show the same have the same draws, but for the noise, of which each block has its own."""
    model = known_model(PHI, [0.3, 0.3, 0.3], g_o=1e8)
    batch = model._standardised(np.full((2, 4), np.nan)).take(np.arange(2))
    first, second = (predictive_draws(model, batch, ~batch.observed, 9, block=i) for i in range(2))
    assert first.shape == (9, 8)
    assert first.std() > 0.1
    np.testing.assert_allclose(first[:, :4], first[:, 4:], atol=1e-3)
    np.testing.assert_allclose(first, second, atol=1e-3)
    assert (first != second).all()
    assert (first[:, :4] != first[:, 4:]).all()


@pytest.mark.parametrize("algorithm", ["gibbs", "mf-svi", "titsias-ssvi"])
def test_every_kind_of_model_can_be_read(algorithm):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = BPFA(4, algorithm=algorithm, max_steps=5, random_state=0).fit(X)
    frames = {}
    for name in METHODS:
        frames[name], again = (
            getattr(model, name)(X) if name in OF_DATA else getattr(model, name)() for _ in range(2)
        )
        pandas.testing.assert_frame_equal(frames[name], again)
    np.testing.assert_array_equal(frames["component_summary"]["usage"], model.component_probabilities_)
    assert frames["component_summary"]["in_use"].sum() == model.n_components_used_
    assert frames["variance_explained"]["n_entries"].sum() == X.size
    assert (frames["variance_explained"]["variance_explained"] < 1).all()
    assert len(frames["top_columns"]) == 4 * 3
    assert frames["calibration"]["coverage"].between(0, 1).all()
    assert (frames["calibration"]["width"] > 0).all()
    assert (frames["residuals"]["n_entries"] == 60).all()
    # Residuals of standardised columns, in units of the noise that the model has found.
    signal = model.inverse_transform(model.transform(X))
    expected = ((X - signal) / model.noise_std_).mean(axis=0)
    np.testing.assert_allclose(frames["residuals"]["mean"], expected, atol=0.1)


@pytest.mark.parametrize("name", METHODS)
def test_a_model_without_fit_says_nothing(name):
    with pytest.raises(NotFittedError):
        getattr(BPFA(), name)(*[np.ones((2, 2))] * (name in OF_DATA))


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("top_columns", {"n": 0}, "n=0: expected an integer >= 1"),
        ("merge_report", {"similarity": 1.5}, r"similarity=1\.5: expected a number >= 0 and <= 1"),
        ("calibration", {"levels": (0.5, 1.0)}, r"levels=\(0\.5, 1\.0\): expected numbers between 0 and 1"),
        ("calibration", {"levels": ()}, r"levels=\(\): expected numbers between 0 and 1, at least one"),
        ("calibration", {"n_draws": 0}, "n_draws=0: expected an integer >= 1"),
        ("calibration", {"held_out": np.zeros((400, 4))}, "held_out: no entry is held out among 400 rows"),
        (
            "variance_explained",
            {"held_out": np.ones((3, 4))},
            r"held_out: shape \(3, 4\), expected \(400, 4\)",
        ),
        ("variance_explained", {"held_out": np.ones((400, 4))}, "held_out: the entry at row .* is missing"),
        ("variance_explained", {"n_draws": 0}, "n_draws=0: expected an integer from 1"),
    ],
)
def test_bad_arguments(model, X, name, arguments, error):
    data = [as_names(X)] * (name in OF_DATA)
    with pytest.raises(ValueError, match=error):
        getattr(model, name)(*data, **arguments)


def test_too_few_rows_to_hide_any(model, X):
    with pytest.raises(ValueError, match="X: no entry is held out among 1 rows; expected more of them"):
        model.calibration(as_names(np.full((1, 4), 5.0)))


def test_without_pandas_the_way_out_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'bpfa\[tables\]'"):
        model.top_columns()
