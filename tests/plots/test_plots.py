"""Pictures of a model: what they show is what the model says."""

import sys
from copy import copy
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from bpfa import BPFA, draw_data
from bpfa.plots import plot_components, plot_coverage, plot_residuals, plot_trace, plot_usage

mpl.use("Agg")
import matplotlib.pyplot as plt

PLOTS = (plot_components, plot_usage, plot_trace, plot_coverage, plot_residuals)
OF_DATA = (plot_coverage, plot_residuals)


@pytest.fixture(scope="module")
def X():
    values = draw_data(1500, 6, 3, g_o=25.0, g_w=1.0, seed=0).y * np.arange(1, 7)
    values[np.random.default_rng(0).random(values.shape) < 0.1] = np.nan
    return pandas.DataFrame(values, columns=list("abcdef"))


@pytest.fixture(scope="module")
def model(X):
    """Mean field from a start of few features a row, which leaves components unused."""
    start = {"init": "random", "step_delay": 0.0, "step_decay": 0.75}
    return BPFA(10, algorithm="mf-ssvi", max_steps=150, held_out=0.1, random_state=0, **start).fit(X)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def arguments(plot, model, X):
    return (model, X) if plot in OF_DATA else (model,)


def test_components(model):
    n_used = model.n_components_used_
    assert 2 < n_used < 10
    ax = plot_components(model)
    [image] = ax.get_images()
    np.testing.assert_allclose(image.get_array(), (model.components_[:n_used] / model.scale_).T)
    low, high = image.get_clim()
    assert low == -high == -np.abs(image.get_array()).max()
    assert [label.get_text() for label in ax.get_yticklabels()] == list("abcdef")
    assert [label.get_text() for label in ax.get_xticklabels()] == [f"bpfa{k}" for k in range(n_used)]
    assert ax.get_ylabel() == ""


def test_the_columns_with_the_largest_loadings_are_shown(model):
    ax = plot_components(model, 2, n_columns=3)
    loadings = np.abs(model.components_[:2] / model.scale_).max(axis=0)
    largest = sorted("abcdef"[d] for d in np.argsort(-loadings)[:3])
    assert [label.get_text() for label in ax.get_yticklabels()] == largest
    assert ax.get_images()[0].get_array().shape == (3, 2)
    assert ax.get_ylabel() == "3 of 6 columns"


def overlapping(labels):
    """Return whether any two neighbouring labels overlap, once they are drawn."""
    labels[0].figure.canvas.draw()
    boxes = [label.get_window_extent() for label in labels]
    return any(a.overlaps(b) for a, b in pairwise(boxes))


@pytest.mark.parametrize("given_axes", [False, True])
def test_forty_components_of_columns_with_long_names_are_legible(given_axes):
    names = [f"a channel with a long name, number {d} (CD{d})" for d in range(60)]
    rows = pandas.DataFrame(draw_data(300, 60, 40, g_o=25.0, g_w=1.0, seed=0).y, columns=names)
    many = BPFA(45, max_steps=3, noise="shared", random_state=0).fit(rows)
    many.n_components_used_ = 45
    axes = plt.subplots(1, 2, figsize=(9, 6), layout="constrained")[1][0] if given_axes else None
    ax = plot_components(many, n=40, ax=axes)
    across = [label.get_text() for label in ax.get_xticklabels()]
    assert across[:2] == (["bpfa0", "bpfa4"] if given_axes else ["bpfa0", "bpfa1"])
    assert not overlapping(ax.get_xticklabels())
    assert not overlapping(ax.get_yticklabels())
    assert all(label.get_text().startswith("a channel") for label in ax.get_yticklabels())
    assert len({label.get_text() for label in ax.get_yticklabels()}) == 30
    # The matrix has most of the figure, whatever the names.
    assert ax.get_window_extent().width > (0.2 if given_axes else 0.5) * ax.figure.bbox.width


def test_usage(model):
    ax = plot_usage(model)
    used, unused, limit = ax.get_lines()
    n_used = model.n_components_used_
    np.testing.assert_allclose(used.get_ydata(), model.component_probabilities_[:n_used])
    np.testing.assert_allclose(used.get_xdata(), np.arange(1, n_used + 1))
    assert len(unused.get_xdata()) == 10 - n_used
    assert limit.get_ydata()[0] == 1e-3
    assert [text.get_text() for text in ax.get_legend().get_texts()][:2] == [
        f"{n_used} in use",
        f"{10 - n_used} not in use",
    ]


def test_components_that_no_row_uses_are_not_lost(model):
    """Zero has no place on a logarithmic axis."""
    chain = copy(model)
    in_use = np.arange(10) < model.n_components_used_
    chain.component_probabilities_ = np.where(in_use, 0.5, 0.0)
    ax = plot_usage(chain)
    assert (ax.get_lines()[1].get_ydata() > ax.get_ylim()[0]).all()


def test_trace(model):
    axes = plot_trace(model, against="seconds")
    assert [ax.get_title(loc="left") for ax in axes] == [
        "Noise (units of column scale)",
        "Components in use",
        "Held-out log-likelihood per entry",
    ]
    for ax, name in zip(axes, ("noise_std", "n_active", "held_out_log_likelihood"), strict=True):
        taken = np.isfinite(model.history_[name])
        np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), model.history_[name][taken])
        np.testing.assert_array_equal(ax.get_lines()[0].get_xdata(), model.history_["seconds"][taken])
    assert axes[-1].get_xlabel() == "Training time (s)"


def test_trace_without_held_out_entries(X):
    assert len(plot_trace(BPFA(3, max_steps=5, random_state=0).fit(X))) == 2


def test_trace_into_a_part_of_a_figure(model):
    parts = plt.figure().subfigures(1, 2)
    axes = plot_trace(model, figure=parts[1])
    assert parts[1].axes == axes
    assert not parts[0].axes


def test_coverage(model, X):
    ax = plot_coverage(model, X, n_draws=39)
    diagonal, line = ax.get_lines()
    np.testing.assert_allclose(line.get_xdata(), np.arange(0.05, 0.96, 0.05))
    calibration = model.calibration(X, levels=line.get_xdata(), n_draws=39)
    np.testing.assert_allclose(line.get_ydata(), calibration["coverage"])
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert ax.get_ylabel() == f"Coverage of {calibration['n_entries'][0]:,} held-out entries"
    # The band holds 95 % of what chance makes of a coverage of one half.
    [band] = ax.collections
    middle = [y for x, y in band.get_paths()[0].vertices if abs(x - 0.5) < 1e-9]
    spread = norm.ppf(0.975) * 0.5 / calibration["n_entries"][0] ** 0.5
    np.testing.assert_allclose([min(middle), max(middle)], [0.5 - spread, 0.5 + spread], atol=2e-3)


def test_coverage_of_given_entries(model, X):
    hidden = np.zeros(X.shape, dtype=bool)
    hidden[:, 1] = X["b"].notna()
    ax = plot_coverage(model, X, hidden, n_draws=39)
    assert ax.get_ylabel() == f"Coverage of {X['b'].notna().sum():,} entries"
    assert ax.get_title() == "Entries seen in the fit; others are covered less"


def test_residuals(model, X):
    ax = plot_residuals(model, X)
    [stairs] = ax.patches
    values, edges, _ = stairs.get_data()
    np.testing.assert_allclose((values * np.diff(edges)).sum(), 1.0)
    summary = model.residuals(X)
    share = summary["n_entries"] / summary["n_entries"].sum()
    np.testing.assert_allclose(
        (values * np.diff(edges)) @ (edges[1:] + edges[:-1]) / 2, share @ summary["mean"], atol=0.03
    )
    beyond = share @ summary["beyond_3"]
    assert ax.texts[0].get_text() == f"beyond ±3:\n{beyond:.2%}\n(normal: 0.27%)"
    [density] = ax.get_lines()
    np.testing.assert_allclose(density.get_ydata(), norm.pdf(density.get_xdata()))


def test_residuals_out_of_the_picture_are_counted_at_its_edge(model, X):
    far = X.copy()
    far.iloc[:, 0] = 1e4
    values, edges, _ = plot_residuals(model, far).patches[0].get_data()
    np.testing.assert_allclose((values * np.diff(edges)).sum(), 1.0)
    assert values[-1] * np.diff(edges)[-1] > 0.1


def test_nothing_to_show(model, X):
    with pytest.raises(ValueError, match="X: every entry is missing; expected at least one observed entry"):
        plot_residuals(model, X * np.nan)


@pytest.mark.parametrize("plot", [plot for plot in PLOTS if plot is not plot_trace])
def test_plots_are_drawn_where_one_asks(model, X, plot):
    figure, axes = plt.subplots(1, 2)
    assert plot(*arguments(plot, model, X), ax=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
    assert not axes[0].has_data()


@pytest.mark.parametrize("plot", PLOTS)
def test_a_model_without_fit_has_no_picture(plot, X):
    with pytest.raises(NotFittedError):
        plot(*arguments(plot, BPFA(), X))


@pytest.mark.parametrize("plot", PLOTS)
def test_without_matplotlib_the_way_out_is_named(model, X, plot, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'bpfa\[plots\]'"):
        plot(*arguments(plot, model, X))


@pytest.mark.parametrize(
    ("plot", "options", "error"),
    [
        (plot_components, {"n": 0}, "n=0: expected an integer >= 1"),
        (plot_components, {"n_columns": 0}, "n_columns=0: expected an integer >= 1"),
        (plot_trace, {"against": "time"}, "against='time': expected one of 'step', 'seconds', 'epoch'"),
    ],
)
def test_bad_arguments(model, plot, options, error):
    with pytest.raises(ValueError, match=error):
        plot(model, **options)
