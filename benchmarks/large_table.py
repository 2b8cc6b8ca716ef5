"""Seconds and memory of a large table with missing entries: `python -m benchmarks.large_table [--threads 2]`.

Fits all 172,791 cells of the cytometry, of which 5 % of the entries are hidden, predicts the hidden entries,
and prints and stores how long that takes, how much memory, and how good the predictions are: once with all
defaults, and once without groups of like rows. Every fit runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

from rich.console import Console

from benchmarks.command import parser_with_data, peak_megabytes, row_of_process, screen_table
from benchmarks.pages import SECTIONS
from experiments.cells import write_results
from experiments.markdown import table
from experiments.tables import SOURCES, load

SOURCE = "cytometry"
# The contestants, and what each says of `groups`.
GROUPS: dict[str, bool | str] = {"bpfa, groups=False": False, "bpfa": "auto"}
HEADINGS = (
    "",
    "MSE",
    "log-likelihood",
    "95 % covers",
    "fit, s",
    "impute, s",
    "MiB before",
    "MiB at most",
    "",
)


def main() -> None:
    parser = parser_with_data(__doc__)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--limit", type=float, default=1800.0, help="seconds after which a fit is stopped (1800)"
    )
    parser.add_argument("--output", type=Path, default=SECTIONS["large_table"].results)
    # What the process of a contestant is given.
    parser.add_argument("--row", nargs=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        print(json.dumps(row(arguments.row[0], arguments)))
        return
    console = Console(width=150)
    if line := SOURCES[SOURCE].file.missing_from(arguments.data):
        console.print(line)
        return
    options = ["--seed", str(arguments.seed), "--data", str(arguments.data.resolve())]
    options += ["--threads", str(arguments.threads)]
    rows = []
    for name in GROUPS:
        found = row_of_process(
            "benchmarks.large_table", [name], options, threads=arguments.threads, limit=arguments.limit
        )
        rows.append({"contestant": name} | found)
    results = {"threads": arguments.threads, "rows": rows}
    write_results(arguments.output, results)
    shown = screen_table(sentence(results), HEADINGS)
    for result in rows:
        shown.add_row(*cells(result))
    console.print(shown)


def row(name: str, arguments: argparse.Namespace) -> dict:
    """Fit the table in this process and predict its hidden entries."""
    from bpfa import BPFA, SeenInFitWarning

    task = load(SOURCE, arguments.data, arguments.seed)
    before, began = peak_megabytes(), time.perf_counter()
    model = BPFA(groups=GROUPS[name], n_jobs=arguments.threads, random_state=arguments.seed).fit(task.train)
    fitted = time.perf_counter()
    filled = model.impute(task.train)
    ended, most = time.perf_counter(), peak_megabytes()
    error = filled[task.hidden] - task.truth
    with warnings.catch_warnings():
        # No hidden entry was in the fit, but the other entries of the rows were.
        warnings.simplefilter("ignore", SeenInFitWarning)
        score = model.held_out_score(task.complete(), task.hidden)
        coverage = model.calibration(task.complete(), task.hidden, levels=(0.95,))["coverage"][0]
    return {
        "shape": task.train.shape,
        "mse": float((error**2).mean()),
        "log_likelihood": score.log_likelihood,
        "coverage": float(coverage),
        "fit_seconds": fitted - began,
        "impute_seconds": ended - fitted,
        "megabytes_before": before,
        "megabytes": most,
        "note": "no groups" if model.groups_ is None else model.groups_.in_words(),
    }


def cells(result: dict) -> list[str]:
    """Return a line of the table."""
    if "mse" not in result:
        return [result["contestant"], *[""] * (len(HEADINGS) - 2), result["note"]]
    return [
        result["contestant"],
        f"{result['mse']:.4f}",
        f"{result['log_likelihood']:.4f}",
        f"{result['coverage']:.1%}",
        f"{result['fit_seconds']:.1f}",
        f"{result['impute_seconds']:.1f}",
        f"{result['megabytes_before']:,.0f}",
        f"{result['megabytes']:,.0f}",
        result["note"],
    ]


def sentence(results: dict) -> str:
    """Return what was fitted, in a line."""
    n_rows, n_columns = next(row["shape"] for row in results["rows"] if "shape" in row)
    return (
        f"{n_rows:,} cells x {n_columns} proteins, {SOURCES[SOURCE].hidden:.0%} of the entries hidden, "
        f"number of threads: {results['threads']}."
    )


def markdown(results: dict) -> str:
    """Return the table of the page, and what was fitted."""
    return "\n\n".join([table(HEADINGS, [cells(row) for row in results["rows"]]), sentence(results)])


if __name__ == "__main__":
    main()
