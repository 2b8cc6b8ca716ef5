"""How well markers are predicted that a panel lacks: `python -m benchmarks.panels`.

The markers of the cytometry are divided at random into 8 that both panels have and 8 that only one of them
has. Half of the cells are measured by one panel, half by the other. All that a panel lacks is predicted. The
other methods predict it from the shared markers, in the cells of the other panel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.baselines import Imputed
from benchmarks.command import parser_with_data, screen_table
from benchmarks.pages import SECTIONS
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table
from experiments.scores import gaussian_scores
from experiments.tables import SOURCES

HEADINGS = ("", "MSE", "log-likelihood", "95 % covers", "CPU seconds")
N_SHARED = 8
NEIGHBOURS = (5, 10, 20, 40, 80)
# The share of the cells of a panel by which a method is judged that has to choose or to measure something.
VALIDATION = 0.2


class Panels(NamedTuple):
    """Cells of two panels."""

    values: Array
    """Cells x markers, complete, with columns of mean 0 and variance 1."""
    hidden: Array
    """True where the panel of a cell lacks the marker."""
    shared: Array
    """Numbers of the markers that both panels have."""

    @property
    def halves(self) -> list[tuple[Array, Array, Array]]:
        """For each panel its cells, the cells of the other panel, and the markers that it lacks."""
        lacks = self.hidden[:, self.hidden.any(axis=0)].argmax(axis=1)
        first = np.flatnonzero(lacks == lacks[0])
        second = np.flatnonzero(lacks != lacks[0])
        return [
            (first, second, np.flatnonzero(self.hidden[first[0]])),
            (second, first, np.flatnonzero(self.hidden[second[0]])),
        ]


def drawn_panels(folder: Path, n_cells: int, seed: int) -> Panels:
    """Return cells and markers of the cytometry in two panels, both chosen by the seed."""
    whole = SOURCES["cytometry"].read(folder)
    rng = np.random.default_rng(seed)
    values = whole[rng.permutation(len(whole))[:n_cells]]
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    markers = rng.permutation(values.shape[1])
    shared, rest = markers[:N_SHARED], markers[N_SHARED:]
    hidden = np.zeros(values.shape, dtype=bool)
    hidden[: n_cells // 2, rest[: len(rest) // 2]] = True
    hidden[n_cells // 2 :, rest[len(rest) // 2 :]] = True
    return Panels(values, hidden, shared)


def by_regression(make: Callable[[int], object], choices: tuple[int, ...] = (0,)) -> Callable[..., Imputed]:
    """Return a contestant that predicts every marker from the shared ones by a regression of scikit-learn.

    Cells that are left out of its training choose its setting, and give the deviation of its errors.
    """

    def impute(panels: Panels, seed: int) -> Imputed:
        mean, std = np.zeros(panels.values.shape), np.ones(panels.values.shape)
        for own, other, lacking in panels.halves:
            shuffled = np.random.default_rng(seed).permutation(other)
            n_left_out = int(VALIDATION * len(other))
            judged, trained = shuffled[:n_left_out], shuffled[n_left_out:]
            for marker in lacking:
                fitted = []
                for choice in choices:
                    model = make(choice).fit(
                        panels.values[np.ix_(trained, panels.shared)], panels.values[trained, marker]
                    )
                    error = panels.values[judged, marker] - model.predict(
                        panels.values[np.ix_(judged, panels.shared)]
                    )
                    fitted.append((error.std(), model))
                std[own, marker], model = min(fitted, key=lambda found: found[0])
                mean[own, marker] = model.predict(panels.values[np.ix_(own, panels.shared)])
        return Imputed(mean, std)

    return impute


def bpfa(panels: Panels, seed: int) -> Imputed:
    """Predict by BPFA with default settings, from two tables joined by the names of their columns."""
    import pandas

    from bpfa import BPFA, open_rows

    names = [f"m{d}" for d in range(panels.values.shape[1])]
    tables = []
    for own, _, lacking in panels.halves:
        frame = pandas.DataFrame(panels.values[own], columns=names, index=own)
        tables.append(frame.drop(columns=[names[d] for d in lacking]))
    rows = open_rows(tables, columns="union")
    filled, std = BPFA(n_jobs=1, random_state=seed, device="cpu").fit(rows).impute(rows, return_std=True)
    return Imputed(filled.sort_index()[names].to_numpy(), std.sort_index()[names].to_numpy())


def contestants() -> dict[str, Callable[[Panels, int], Imputed]]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.neighbors import KNeighborsRegressor

    return {
        "linear regression on shared markers": by_regression(lambda _: LinearRegression()),
        "nearest neighbours on shared markers": by_regression(KNeighborsRegressor, NEIGHBOURS),
        "boosted trees on shared markers": by_regression(lambda _: HistGradientBoostingRegressor()),
        "bpfa": bpfa,
    }


def main() -> None:
    parser = parser_with_data(__doc__)
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--output", type=Path, default=SECTIONS["panels"].results)
    arguments = parser.parse_args()
    console = Console(width=120)
    if line := SOURCES["cytometry"].file.missing_from(arguments.data):
        console.print(line)
        return
    rows = []
    for seed in arguments.seeds:
        panels = drawn_panels(arguments.data, arguments.cells, seed)
        shown = screen_table(f"division {seed}", HEADINGS)
        for name, impute in contestants().items():
            began = time.process_time()
            imputed = impute(panels, seed)
            seconds = time.process_time() - began
            hidden = panels.hidden
            scores = gaussian_scores(panels.values[hidden], imputed.mean[hidden], imputed.std[hidden])
            rows.append({"seed": seed, "contestant": name, "seconds": seconds} | scores)
            shown.add_row(*cells(rows[-1:]))
        console.print(shown)
    settings = {
        "cells": arguments.cells,
        "seeds": arguments.seeds,
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }
    write_results(arguments.output, {"settings": settings, "rows": rows})


def cells(rows: list[dict]) -> list[str]:
    """Return a row of the table: the means over divisions."""
    mean = {
        key: float(np.mean([row[key] for row in rows]))
        for key in ("mse", "log_likelihood", "coverage", "seconds")
    }
    return [
        rows[0]["contestant"],
        f"{mean['mse']:.4f}",
        f"{mean['log_likelihood']:.4f}",
        f"{mean['coverage']:.1%}",
        f"{mean['seconds']:.1f}",
    ]


def markdown(results: dict) -> str:
    """Return the table of the page: means over all divisions."""
    names = dict.fromkeys(row["contestant"] for row in results["rows"])
    rows = [cells([row for row in results["rows"] if row["contestant"] == name]) for name in names]
    settings = results["settings"]
    divisions = f"means over {len(settings['seeds'])} divisions of the markers"
    note = f"{settings['cells']:,} cells, {divisions}, one thread."
    return f"{table(HEADINGS, rows)}\n\n{note}"


if __name__ == "__main__":
    main()
