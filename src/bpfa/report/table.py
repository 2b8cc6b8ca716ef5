"""What a report says about the columns of a table: noise, predictions and missing entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data import sequential
from bpfa.estimator.hidden_entries import HELD_OUT, SEEN
from bpfa.estimator.inputs import rows_like_those_of_the_fit
from bpfa.report.charts import coverage_chart, histogram

__all__ = ["Bar", "Holes", "Noise", "Predictions", "hole_section", "noise_section", "prediction_section"]

# Columns that are listed one by one; of more, those at one end are listed.
MOST_BARS = 16
# The fewest hidden entries of a column from which the variance explained of it is shown.
LEAST_ENTRIES = 30
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# The map of missing entries has at most so many cells across and down.
MAP_COLUMNS, MAP_ROWS = 60, 40


class Bar(NamedTuple):
    """A line of a list: a name, a bar of this share of the width, and a number in words."""

    name: str
    share: float
    text: str


class Noise(NamedTuple):
    """The noise of the columns."""

    words: str
    n_columns: int
    chart: Markup | None
    """A histogram, if there are too many columns to list."""
    title: str
    columns: list[Bar]


class Predictions(NamedTuple):
    """How well a model predicts hidden entries."""

    entries: str
    """What these entries are to the fit."""
    words: str
    warning: bool
    chart: Markup
    columns_title: str
    columns: list[Bar]
    facts: dict[str, str]


class Holes(NamedTuple):
    """Where entries are missing."""

    words: str
    map: Markup
    title: str
    columns: list[Bar]


def noise_section(model: Any, columns: list[str]) -> Noise:
    """Return the share of the noise in the variation of every column."""
    share = model.noise_std_ / model.scale_
    known = np.isfinite(share)
    words = (
        "The standard deviation of the noise as a share of the standard deviation of the column. At 100%, "
        "the features explain nothing of a column."
    )
    if not known.all():
        words += f" Nothing was observed of {int((~known).sum())} further columns."
    many = int(known.sum()) > MOST_BARS
    label = "noise / standard deviation of the column"
    chart = histogram(share[known], title="Noise of the columns", x_label=label) if many else None
    title = f"The {MOST_BARS} noisiest columns" if many else "Every column"
    return Noise(words, int(known.sum()), chart, title, _bars(share, known, columns))


def prediction_section(model: Any, X: Any, truth: Any = None, batch: Any = None) -> Predictions:
    """Return how well a model predicts entries hidden from it: those that only the truth has, if given."""
    hidden = None
    if truth is not None:
        X, hidden = truth, _observed(model, truth) & ~_observed(model, X)
    calibration = model.calibration(X, hidden, levels=LEVELS, batch=batch)
    label, n_entries = calibration["entries"][0], int(calibration["n_entries"][0])
    share = model.variance_explained(X, hidden, batch=batch)["variance_explained"][1]
    by_column = model.variance_explained(X, hidden, per_column=True, batch=batch).query("entries == @label")
    explained = by_column["variance_explained"].to_numpy()
    enough = np.isfinite(explained) & (by_column["n_entries"].to_numpy() >= LEAST_ENTRIES)
    title = "Variance explained"
    if int(enough.sum()) > MOST_BARS:
        title += f", the {MOST_BARS} columns where it is largest"
    covered = calibration["coverage"].iloc[-1]
    return Predictions(
        entries=f"entries {label}",
        words=_words_on_predictions(label, n_entries, share, covered),
        warning=label != HELD_OUT,
        chart=coverage_chart(calibration["level"].to_numpy(), calibration["coverage"].to_numpy()),
        columns_title=title,
        columns=_bars(explained, enough, by_column["column"].astype(str).tolist()),
        facts={
            f"Variance explained, {label}": f"{share:.1%}",
            f"95% intervals cover, {label}": f"{covered:.1%}",
        },
    )


def _observed(model: Any, X: Any) -> NDArray[np.bool_]:
    """Return which entries of some data are observed."""
    return np.concatenate([batch.observed for batch in sequential(rows_like_those_of_the_fit(model, X))])


def _words_on_predictions(label: str, n_entries: int, share: float, covered: float) -> str:
    figures = (
        f"The model explains {share:.1%} of the variance of {n_entries:,} entries that were hidden from it "
        f"when it predicted them, and its 95% intervals cover {covered:.1%} of them."
    )
    if label == HELD_OUT:
        return (
            f"{figures} The fit has not seen these entries. Where the curve follows the dashed line, the "
            "intervals are right."
        )
    known = "has learned" if label == SEEN else "may have learned"
    return (
        f"{figures} But the fit {known} from these entries, so that both numbers are too good: entries that "
        "are really missing are predicted less well. Other rows, or a fit with held_out > 0, show how well."
    )


def hole_section(model: Any, X: Any, columns: list[str]) -> Holes:
    """Return where the entries of some data are missing."""
    rows = rows_like_those_of_the_fit(model, X)
    n_down, n_across = min(MAP_ROWS, rows.n_rows), min(MAP_COLUMNS, rows.n_columns)
    column_cell = np.arange(rows.n_columns) * n_across // rows.n_columns
    missing_in_column, whole_rows = np.zeros(rows.n_columns), 0
    cells, sizes = np.zeros((n_down, n_across)), np.zeros((n_down, n_across))
    columns_in_cell = np.bincount(column_cell, minlength=n_across)
    for batch in sequential(rows):
        missing = ~batch.observed
        missing_in_column += missing.sum(axis=0)
        whole_rows += int((~missing.any(axis=1)).sum())
        row_cell = batch.ids * n_down // rows.n_rows
        across = np.stack([missing[:, column_cell == cell].sum(axis=1) for cell in range(n_across)], axis=1)
        np.add.at(cells, row_cell, across)
        np.add.at(sizes, row_cell, columns_in_cell)
    n_missing = int(missing_in_column.sum())
    share = missing_in_column / rows.n_rows
    if not n_missing:
        return Holes(f"None of {rows.n_rows:,} x {rows.n_columns:,} entries is missing.", Markup(), "", [])
    holed = share > 0
    words = (
        f"{n_missing:,} of {rows.n_rows * rows.n_columns:,} entries are missing "
        f"({n_missing / (rows.n_rows * rows.n_columns):.1%}), in {int(holed.sum()):,} of {rows.n_columns:,} "
        f"columns. {whole_rows:,} of {rows.n_rows:,} rows are complete."
    )
    many = int(holed.sum()) > MOST_BARS
    title = f"The {MOST_BARS} columns with most missing" if many else "Share missing, by column"
    return Holes(words, _hole_map(cells / sizes), title, _bars(share, holed, columns))


def _hole_map(share: Array) -> Markup:
    """Return a map of the shares that are missing, cell by cell, the darker the more."""
    n_down, n_across = share.shape
    cells = [
        f'<rect x="{x}" y="{y}" width="1" height="1" fill-opacity="{share[y, x]:.2f}"/>'
        for y, x in np.argwhere(share >= 0.005)
    ]
    label = f"Map of missing entries: between {share.min():.0%} and {share.max():.0%} of a part of the table"
    return Markup(
        f'<svg class="holes" viewBox="0 0 {n_across} {n_down}" preserveAspectRatio="none" '
        f'shape-rendering="crispEdges" role="img" '
        f'aria-label="{label}">{"".join(cells)}</svg>'
    )


def _bars(values: Array, chosen: NDArray[np.bool_], names: list[str]) -> list[Bar]:
    """Return the largest of the chosen values, or all in the order of the data if there are few of them."""
    places = np.flatnonzero(chosen)
    if len(places) > MOST_BARS:
        places = places[np.argsort(-values[places], kind="stable")[:MOST_BARS]]
    longest = max(1.0, float(values[places].max(initial=0.0)))
    return [Bar(names[d], float(np.clip(values[d] / longest, 0, 1)), f"{values[d]:.1%}") for d in places]
