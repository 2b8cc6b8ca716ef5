"""Plots of a fitted BPFA: components, usage, trace, coverage and residuals. They need matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom, norm
from sklearn.utils.validation import check_is_fitted

from bpfa._support.checks import check_choice, check_integer
from bpfa._support.optional import library
from bpfa.estimator.diagnostics import residual_blocks
from bpfa.estimator.frames import column_labels, component_labels, shortened
from bpfa.estimator.hidden_entries import HELD_OUT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    from bpfa.estimator import BPFA

__all__ = ["plot_components", "plot_coverage", "plot_residuals", "plot_trace", "plot_usage"]

# Colours of Okabe & Ito, which colour-blind people can tell apart.
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "0.55"
# Width of a figure in inches. If it fills the screen of a phone, text of ten points is still legible.
WIDTH = 4.8
# Inches between the names of neighbouring rows or columns, and inches for the names at the side and for the
# scale of colours.
NAME_SPACING, NAMES_WIDTH = 0.2, 3.0
# Smaller shares are drawn as this one, because a share of 0 has no place on a logarithmic axis.
LEAST_USAGE = 1e-4
# What a trace can be plotted against, and the label of the axis.
TRACE_AXES = {"step": "Step", "seconds": "Training time (s)", "epoch": "Passes over the data"}
# Levels of the predictive intervals whose coverage is shown.
LEVELS = np.arange(0.05, 0.96, 0.05)
# Residuals are counted in these bins, in units of the noise; larger ones are counted in the outermost bins.
BINS = np.linspace(-5, 5, 51)


def plot_components(model: BPFA, n: int = 12, *, n_columns: int = 30, ax: Axes | None = None) -> Axes:
    """Show the loadings of the columns on the components that explain most, in standardised units.

    Parameters
    ----------
    model : BPFA
        A fitted model.
    n : int
        How many components to show, the first ones; components that are not in use are left out. A new
        figure is wide enough for all their names. In given axes that are too narrow, some names are left out.
    n_columns : int
        How many columns to show. If there are more, those with the largest loadings on these components are
        shown, in the order of the data.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    bpfa.BPFA.component_summary : What each feature is, and how often it is used.
    bpfa.plots.plot_usage : How often features are used.

    Examples
    --------
    >>> from bpfa import BPFA, draw_data
    >>> model = BPFA(n_components=4, max_steps=20, random_state=0)
    >>> model = model.fit(draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y)
    >>> plot_components(model, n=2).get_images()[0].get_array().shape
    (6, 2)
    """
    check_is_fitted(model)
    # If no component is in use, the first one is shown, so that there is something to see.
    n = min(check_integer("n", n, low=1), max(1, model.n_components_used_))
    n_columns = check_integer("n_columns", n_columns, low=1)
    loadings = (model.components_[:n] / model.scale_).T
    largest = np.argsort(-np.abs(loadings).max(axis=1), kind="stable")[:n_columns]
    chosen = np.sort(largest)
    if ax is None:
        width = max(WIDTH, NAMES_WIDTH + NAME_SPACING * n)
        ax = _axes(height=1.6 + NAME_SPACING * len(chosen), width=width)
    limit = np.abs(loadings).max() or 1.0
    image = ax.imshow(loadings[chosen], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    every = _every_name_that_fits(ax, n)
    ax.set_xticks(range(0, n, every), component_labels(model)[:n:every], rotation=90)
    names = [shortened(name) for name in column_labels(model)[chosen]]
    ax.set_yticks(range(len(chosen)), names)
    ax.tick_params(length=0)
    ax.set_xlabel("Component, by variance explained")
    if len(chosen) < len(loadings):
        ax.set_ylabel(f"{len(chosen)} of {len(loadings)} columns")
    # A colour bar as high as a tall figure would be out of proportion.
    shown = min(1.0, 3.0 / (0.2 * len(chosen)))
    ax.figure.colorbar(image, ax=ax, label="Loading (units of column scale)", shrink=shown, anchor=(0, 1))
    return ax


def plot_usage(model: BPFA, *, ax: Axes | None = None) -> Axes:
    """Show what share of the rows uses each component, and which components are in use at all.

    Parameters
    ----------
    model : BPFA
        A fitted model.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    bpfa.BPFA.component_summary : What each feature is, and how often it is used.
    bpfa.plots.plot_components : The features.

    Examples
    --------
    >>> from bpfa import BPFA, draw_data
    >>> model = BPFA(n_components=4, max_steps=20, random_state=0)
    >>> model = model.fit(draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y)
    >>> plot_usage(model).get_ylabel()
    'Share of rows that use it'
    """
    check_is_fitted(model)
    ax = ax or _axes()
    n_used, usage = model.n_components_used_, model.component_probabilities_
    place = np.arange(1, len(usage) + 1)
    shown = np.maximum(usage, LEAST_USAGE)
    for chosen, colour, label in (
        (slice(n_used), BLUE, f"{n_used} in use"),
        (slice(n_used, None), GREY, f"{len(usage) - n_used} not in use"),
    ):
        if len(usage[chosen]):
            ax.plot(place[chosen], shown[chosen], "o", markersize=4, color=colour, label=label)
    ax.axhline(1e-3, color="0.3", linewidth=1, linestyle=":", label="1 row in 1000")
    ax.set(xlabel="Component, by variance explained", ylabel="Share of rows that use it", yscale="log")
    ax.set_ylim(LEAST_USAGE / 1.5, 1.5)
    ax.set_yticks([1, 0.1, 0.01, 1e-3, LEAST_USAGE], ["100%", "10%", "1%", "0.1%", "≤ 0.01%"])
    ax.minorticks_off()
    ax.locator_params(axis="x", integer=True)
    _hide_frame(ax)
    ax.legend(frameon=False)
    return ax


def plot_trace(model: BPFA, *, against: str = "step", figure: FigureBase | None = None) -> list[Axes]:
    """Show how the fit went: the noise, the components in use, and the held-out score if there is one.

    Parameters
    ----------
    model : BPFA
        A fitted model.
    against : {"step", "seconds", "epoch"}
        What is on the horizontal axis.
    figure : matplotlib.figure.Figure or SubFigure, optional
        An empty figure to draw into; a new one by default.

    Returns
    -------
    list of matplotlib.axes.Axes
        The panels from top to bottom.

    See Also
    --------
    bpfa.report.model_report : A page about a model.
    bpfa.plots.plot_usage : How often features are used.

    Examples
    --------
    >>> from bpfa import BPFA, draw_data
    >>> model = BPFA(n_components=4, max_steps=20, random_state=0)
    >>> model = model.fit(draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y)
    >>> [ax.get_title(loc="left") for ax in plot_trace(model)]
    ['Noise (units of column scale)', 'Components in use']
    """
    check_is_fitted(model)
    check_choice("against", against, tuple(TRACE_AXES))
    history = model.history_
    panels = {"Noise (units of column scale)": "noise_std", "Components in use": "n_active"}
    if np.isfinite(history["held_out_log_likelihood"]).any():
        panels["Held-out log-likelihood per entry"] = "held_out_log_likelihood"
    if figure is None:
        figure = _pyplot().figure(figsize=(WIDTH, 0.6 + 1.5 * len(panels)), layout="constrained")
    axes: list[Axes] = list(figure.subplots(len(panels), sharex=True))
    for ax, (title, name) in zip(axes, panels.items(), strict=True):
        # Scores are not computed at every step.
        taken = np.isfinite(history[name])
        marker = "" if taken.all() else "o"
        ax.plot(history[against][taken], history[name][taken], color=BLUE, marker=marker, markersize=3)
        ax.set_title(title, loc="left", fontsize="medium")
        _hide_frame(ax)
    axes[1].locator_params(axis="y", integer=True)
    axes[-1].set_xlabel(TRACE_AXES[against])
    return axes


def plot_coverage(
    model: BPFA, X: Any, held_out: Any = None, *, n_draws: int = 99, ax: Axes | None = None
) -> Axes:
    """Show how often predictive intervals cover held-out entries, against how often they should.

    If the model has learned from these entries in its fit, the title says so (see `BPFA.calibration`).

    Where the curve is below the diagonal, the model is overconfident. The band contains 95% of the points
    of a calibrated model whose entries are independent; entries of the same row are not quite independent, so
    the band is slightly too narrow.

    Parameters
    ----------
    model : BPFA
        A fitted model.
    X, held_out, n_draws
        As in `BPFA.calibration`.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    bpfa.BPFA.calibration : Whether intervals contain as much as they promise.
    bpfa.report.model_report : A page about a model.

    References
    ----------
    .. [1] T. Gneiting, F. Balabdaoui and A. E. Raftery, "Probabilistic Forecasts, Calibration and Sharpness",
       Journal of the Royal Statistical Society B 69 (2007).

    Examples
    --------
    >>> from bpfa import BPFA, draw_data
    >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
    >>> model = BPFA(n_components=4, max_steps=20, random_state=0).fit(X)
    >>> plot_coverage(model, X).get_xlabel()
    'Nominal coverage'
    """
    counted = model.calibration(X, held_out, levels=LEVELS, n_draws=n_draws)
    ax = ax or _axes(height=WIDTH)
    n_entries = int(counted["n_entries"].iloc[0])
    nominal = np.linspace(0, 1, 101)
    low, high = binom.interval(0.95, n_entries, nominal)
    ax.fill_between(
        nominal,
        low / n_entries,
        high / n_entries,
        color=GREY,
        alpha=0.4,
        linewidth=0,
        label="expected by chance (95%)",
    )
    ax.plot([0, 1], [0, 1], color="0.3", linewidth=1, linestyle="--", label="calibrated")
    ax.plot(counted["level"], counted["coverage"], "o-", markersize=4, color=BLUE, label="model")
    kind = counted["entries"].iloc[0]
    if kind == HELD_OUT:
        ax.set_ylabel(f"Coverage of {n_entries:,} held-out entries")
    else:
        ax.set_ylabel(f"Coverage of {n_entries:,} entries")
        ax.set_title(f"Entries {kind}; others are covered less", fontsize="medium", color=ORANGE)
    ax.set(xlabel="Nominal coverage")
    _label_in_percent(ax)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _hide_frame(ax)
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_residuals(model: BPFA, X: Any, *, ax: Axes | None = None) -> Axes:
    """Show the residuals of all observed entries, in units of the noise, together with the normal density.

    Parameters
    ----------
    model : BPFA
        A fitted model.
    X : array-like, frame, AnnData, or Rows
        As in `BPFA.residuals`, which also explains what a residual is.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    bpfa.BPFA.residuals : Whether what is left looks like noise.
    bpfa.plots.plot_coverage : The coverage of intervals.

    Examples
    --------
    >>> from bpfa import BPFA, draw_data
    >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
    >>> model = BPFA(n_components=4, max_steps=20, random_state=0).fit(X)
    >>> plot_residuals(model, X).get_xlabel()
    'Residual (noise standard deviations)'
    """
    check_is_fitted(model)
    counts, beyond = np.zeros(len(BINS) - 1), 0
    for residual, observed in residual_blocks(model, X):
        counts += np.histogram(np.clip(residual[observed], BINS[0], BINS[-1]), BINS)[0]
        beyond += int((np.abs(residual) > 3).sum())
    n_entries = counts.sum()
    if not n_entries:
        raise ValueError("X: every entry is missing; expected at least one observed entry")
    ax = ax or _axes()
    ax.stairs(counts / (n_entries * np.diff(BINS)), BINS, fill=True, color=BLUE, alpha=0.6, label="model")
    line = np.linspace(BINS[0], BINS[-1], 201)
    ax.plot(line, norm.pdf(line), color=ORANGE, label="normal")
    ax.text(
        0.02,
        0.97,
        f"beyond ±3:\n{beyond / n_entries:.2%}\n(normal: 0.27%)",
        transform=ax.transAxes,
        va="top",
    )
    ax.set(xlabel="Residual (noise standard deviations)", ylabel="Density", xlim=(BINS[0], BINS[-1]))
    ax.set_ylim(0, 1.15 * ax.get_ylim()[1])
    _hide_frame(ax)
    ax.legend(frameon=False, loc="upper right")
    return ax


def _axes(height: float = 3.4, width: float = WIDTH) -> Axes:
    ax: Axes = _pyplot().subplots(figsize=(width, height), layout="constrained")[1]
    return ax


def _every_name_that_fits(ax: Axes, n: int) -> int:
    """Return the step between names along the horizontal axis at which they do not overlap."""
    # In inches, and without the names at the side and the scale of colours, which get their space later.
    across = ax.get_window_extent().width / ax.figure.dpi
    width = max(1.0, across - NAMES_WIDTH / 2)
    return max(1, int(np.ceil(n * 0.75 * NAME_SPACING / width)))


def _pyplot() -> Any:
    return library("matplotlib.pyplot", "plots", purpose="plots need matplotlib")


def _label_in_percent(ax: Axes) -> None:
    ticks = np.linspace(0, 1, 6)
    labels = [f"{tick:.0%}" for tick in ticks]
    ax.set_xticks(ticks, labels)
    ax.set_yticks(ticks, labels)


def _hide_frame(ax: Axes) -> None:
    """Hide the frame of a plot at the top and on the right."""
    ax.spines[["top", "right"]].set_visible(False)
