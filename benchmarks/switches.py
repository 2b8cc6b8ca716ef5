"""Whether groups predict better if their rows may use some features only: `python -m benchmarks.switches`.

Groups of like rows that have the features of the model (docs/math.md section 23) learn a variance for each of
them, or decide by switches which of them they use. BPFA is fitted without such groups, with variances alone,
and with both, to tables with many columns of which a tenth of the entries is hidden. Of the drawn tables, one
has kinds of rows that use five of twenty features each, and one has kinds that use all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console

from benchmarks import like_rows_tables
from benchmarks.command import parser_with_data, screen_table
from benchmarks.pages import SECTIONS
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table
from experiments.tables import SOURCES, TableTask, hide

HEADINGS = ["", "MSE", "log-likelihood", "rows of groups with switches"]
SEEDS = (1,)


def drawn(n_used: int, folder: Path, seed: int) -> TableTask:
    """Return a drawn table with eight kinds of rows, each of which uses some of twenty features."""
    rng = np.random.default_rng([n_used, seed])
    n_rows, n_columns, n_features, n_kinds = 2000, 80, 20, 8
    phi = rng.normal(size=(n_features, n_columns)) / np.sqrt(2)
    used = np.array([rng.permutation(n_features) < n_used for _ in range(n_kinds)])
    kind, means = rng.integers(n_kinds, size=n_rows), rng.normal(size=(n_kinds, n_columns))
    weights = rng.normal(size=(n_rows, n_features)) * used[kind]
    values = means[kind] + weights @ phi + 0.5 * rng.normal(size=(n_rows, n_columns))
    return hide(values, 0.1, seed)


def read(name: str, folder: Path, seed: int) -> TableTask:
    """Return one of the tables of benchmarks.like_rows, with another mask than there."""
    return like_rows_tables.load(name, folder, seed, 3000)


TABLES: dict[str, tuple[Callable[[Path, int], TableTask], str | None]] = {
    name: (partial(read, name), like_rows_tables.TABLES[name].source)
    for name in ("genes of tumours, 200 samples", "genes of cell lines, 200 samples")
}
TABLES |= {
    "drawn, eight kinds use 5 of 20 features": (partial(drawn, 5), None),
    "drawn, eight kinds use all of 20 features": (partial(drawn, 20), None),
}
"""Name -> a function from the data folder and a seed to the table, and its source."""


def without_features(candidates: Any) -> Array:
    """Return the places of the groups and kinds that have a covariance of the columns."""
    first = len(candidates.members)
    places = np.arange(len(candidates))
    return places[(places < first) | (places >= first + len(candidates.feature_members))]


def without_switches(candidates: Any) -> Array:
    """Return the places of all groups and kinds without switches."""
    switched = np.flatnonzero(candidates.feature_switched) + len(candidates.members)
    return np.setdiff1d(np.arange(len(candidates)), switched)


def everything(candidates: Any) -> Array:
    """Return the places of all groups and kinds."""
    return np.arange(len(candidates))


CHOICES = {
    "without groups that have features": without_features,
    "features with variances": without_switches,
    "features with variances, or with switches": everything,
}


def scores(task: TableTask, chosen: Callable[[Any], Array], seed: int) -> dict[str, Any]:
    """Fit BPFA with some of the groups as candidates, and score the hidden entries."""
    from bpfa import BPFA, SeenInFitWarning
    from bpfa.selection.group_choice import candidate_groups

    def candidates(n_kept: int, n_columns: int) -> Any:
        found = candidate_groups(n_kept, n_columns)
        if found is None:
            return None
        places = chosen(found)
        return found.chosen(places, np.zeros(len(places)))

    with mock.patch("bpfa.estimator.judging.candidate_groups", candidates):
        model = BPFA(n_jobs=1, random_state=seed).fit(task.train)
    error = model.impute(task.train)[task.hidden] - task.truth
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeenInFitWarning)
        score = model.held_out_score(task.complete(), task.hidden)
    groups = model.groups_
    sizes = () if groups is None else zip(groups.feature_members, groups.feature_switched, strict=True)
    switched = sorted(size for size, switched in sizes if switched)
    return {
        "mse": float((error**2).mean()),
        "log_likelihood": score.log_likelihood,
        "switched": ", ".join(map(str, switched)),
    }


def main() -> None:
    parser = parser_with_data(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    arguments = parser.parse_args()
    console, rows = Console(width=120), []
    for name in arguments.tables:
        load, source = TABLES[name]
        if source is not None and (line := SOURCES[source].file.missing_from(arguments.data)):
            console.print(line)
            continue
        shown = screen_table(name, HEADINGS)
        for seed in arguments.seeds:
            task = load(arguments.data, seed)
            for choice, chosen in CHOICES.items():
                rows.append({"table": name, "seed": seed, "choice": choice, **scores(task, chosen, seed)})
                shown.add_row(*cells(rows[-1:]))
                write_results(SECTIONS["switches"].results, {"rows": rows})
        console.print(shown)


def cells(rows: list[dict[str, Any]]) -> list[str]:
    """Return a row of the table: the means over seeds."""
    return [
        rows[0]["choice"],
        f"{np.mean([row['mse'] for row in rows]):.4f}",
        f"{np.mean([row['log_likelihood'] for row in rows]):.4f}",
        "; ".join(row["switched"] for row in rows if row["switched"]),
    ]


def markdown(results: dict[str, Any]) -> str:
    """Return the tables of the page, one for each table of data."""
    parts = []
    for name in dict.fromkeys(row["table"] for row in results["rows"]):
        of_table = [row for row in results["rows"] if row["table"] == name]
        lines = [cells([row for row in of_table if row["choice"] == choice]) for choice in CHOICES]
        parts += [f"{name[0].upper()}{name[1:]}:", table(HEADINGS, lines)]
    n_seeds = len({row["seed"] for row in results["rows"]})
    return "\n\n".join([*parts, f"Means over {n_seeds} masks." if n_seeds > 1 else "One mask each."])


if __name__ == "__main__":
    main()
