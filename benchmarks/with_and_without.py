"""Whether groups of like rows ever do harm: `python -m benchmarks.with_and_without`.

Hides entries of tables on which no setting of groups was chosen, with several masks, and compares the
predictions of `groups="auto"`, the default, with those of `groups=False`. The fit is the same in all else.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.command import screen_table
from benchmarks.pages import SECTIONS
from benchmarks.with_and_without_tables import TABLES
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table
from experiments.tables import TableTask

HEADINGS = ("", "size", "groups in", "MSE without", "with", "change", "log-lik without", "with", "change")
# A difference of so many standard errors is more than chance.
STANDARD_ERRORS = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument(
        "--masks", type=int, default=10, help="how many masks hide entries of each table (10)"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=SECTIONS["with_and_without"].results)
    arguments = parser.parse_args()
    console, shown = Console(width=150), screen_table("", HEADINGS)
    # Tables that are not asked for this time are kept.
    kept = json.loads(arguments.output.read_text())["rows"] if arguments.output.exists() else []
    rows = [row for row in kept if row["table"] not in arguments.tables]
    for name in arguments.tables:
        began = time.perf_counter()
        masks = [compare(TABLES[name](mask), mask, arguments.threads) for mask in range(arguments.masks)]
        found = {"table": name, "shape": TABLES[name](0).train.shape, "masks": masks}
        rows.append(found)
        console.print(*cells(found), f"{time.perf_counter() - began:.0f} s", sep=" | ")
        # Written after every table, as all of them take many minutes.
        rows.sort(key=lambda row: list(TABLES).index(row["table"]))
        write_results(arguments.output, {"rows": rows})
    for row in rows:
        shown.add_row(*cells(row))
    console.print(shown, summary(rows))


def compare(task: TableTask, seed: int, n_jobs: int) -> dict[str, dict[str, float]]:
    """Return the scores of hidden entries with and without groups."""
    return {"without": scores(task, seed, n_jobs, False), "with": scores(task, seed, n_jobs, "auto")}


def scores(task: TableTask, seed: int, n_jobs: int, groups: bool | str) -> dict[str, float]:
    """Fit a table, and return the scores of its hidden entries, and whether the model uses groups."""
    from bpfa import BPFA, SeenInFitWarning

    logging.getLogger("bpfa").setLevel(logging.ERROR)
    model = BPFA(groups=groups, n_jobs=n_jobs, random_state=seed).fit(task.train)
    error = model.impute(task.train)[task.hidden] - task.truth
    with warnings.catch_warnings():
        # No hidden entry was in the fit, but the other entries of the rows were.
        warnings.simplefilter("ignore", SeenInFitWarning)
        score = model.held_out_score(task.complete(), task.hidden)
    return {
        "mse": float((error**2).mean()),
        "log_likelihood": score.log_likelihood,
        "groups": float(model.groups_ is not None),
    }


def values(row: dict, which: str, score: str) -> Array:
    """Return a score under every mask."""
    return np.array([mask[which][score] for mask in row["masks"]])


def difference(row: dict, score: str) -> tuple[float, float]:
    """Return by how much groups change a score, and the standard error of that, over the masks."""
    change = values(row, "with", score) - values(row, "without", score)
    return float(change.mean()), float(change.std(ddof=1) / np.sqrt(len(change)))


def cells(row: dict) -> list[str]:
    """Return a line of the table."""
    without, with_groups = (values(row, which, "mse").mean() for which in ("without", "with"))
    change, error = difference(row, "mse")
    gain, error_of_gain = difference(row, "log_likelihood")
    n_rows, n_columns = row["shape"]
    return [
        row["table"],
        f"{n_rows:,} x {n_columns}",
        f"{values(row, 'with', 'groups').sum():.0f} of {len(row['masks'])}",
        f"{without:.4f}",
        f"{with_groups:.4f}",
        f"{100 * change / without:+.1f} % (± {100 * error / without:.1f})",
        f"{values(row, 'without', 'log_likelihood').mean():.3f}",
        f"{values(row, 'with', 'log_likelihood').mean():.3f}",
        f"{gain:+.3f} (± {error_of_gain:.3f})",
    ]


def summary(rows: list[dict]) -> str:
    """Return in how many tables groups do harm beyond chance, in a sentence."""
    error, likelihood = (
        [(sign * change, spread) for change, spread in (difference(row, score) for row in rows)]
        for sign, score in ((-1, "mse"), (1, "log_likelihood"))
    )
    worse, better = (
        [
            sum(sign * gain > STANDARD_ERRORS * spread > 0 for gain, spread in gains)
            for gains in (error, likelihood)
        ]
        for sign in (-1, 1)
    )
    return (
        f"By more than {STANDARD_ERRORS:.0f} standard errors, groups make the squared error larger in "
        f"{worse[0]} and smaller in {better[0]} of {len(rows)} tables, and the log-likelihood lower in "
        f"{worse[1]} and higher in {better[1]}."
    )


def markdown(results: dict) -> str:
    """Return the table of the page, and what it says."""
    return "\n\n".join([table(HEADINGS, [cells(row) for row in results["rows"]]), summary(results["rows"])])


if __name__ == "__main__":
    main()
