"""How well hidden entries of tables with more columns than rows are predicted: `python -m benchmarks.wide`.

Every contestant runs in a process of its own. All other methods choose their rank, penalty or number of
neighbours by validation entries that they hide themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks import wide_methods
from benchmarks.baselines import Imputed
from benchmarks.command import (
    earlier_rows,
    parser_with_data,
    peak_megabytes,
    row_of_process,
    score_cells,
    screen_table,
)
from benchmarks.pages import SECTIONS
from benchmarks.wide_tables import FILES, TABLES, load
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table
from experiments.scores import gaussian_scores
from experiments.tables import SOURCES

HEADINGS = ("", "MSE", "log-likelihood", "95 % covers", "seconds", "")


def bpfa_contestant(sparse: str) -> Callable[[Array, int], Imputed]:
    """Return the contestant with this value of `sparse`, and with defaults for everything else."""

    def impute(train: Array, seed: int) -> Imputed:
        from bpfa import BPFA

        threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
        model = BPFA(sparse=sparse, n_jobs=threads, random_state=seed).fit(train)
        mean, std = model.impute(train, return_std=True)
        return Imputed(mean, std, f"{len(model.components_)} features, sparse {model.settings_.sparse}")

    return impute


CONTESTANTS: dict[str, Callable[[Array, int], Imputed]] = {
    "PCA, regularised": wide_methods.pca,
    "softImpute": wide_methods.soft_impute,
    "nearest neighbours": wide_methods.knn,
    "scikit-learn IterativeImputer": wide_methods.iterative_imputer,
    "bpfa": bpfa_contestant("auto"),
    "bpfa, sparse rows": bpfa_contestant("rows"),
    "bpfa, sparse columns": bpfa_contestant("columns"),
}
"""Name -> a function from a standardised table (NaN where missing) and a seed to predictions."""


def main() -> None:
    arguments = parse()
    if arguments.row:
        print(json.dumps(row(*arguments.row, arguments)))
        return
    console = Console(width=150)
    settings = {"seed": arguments.seed, "threads": arguments.threads, "most_columns": arguments.most_columns}
    rows = earlier_rows(arguments.output, settings)
    for name in arguments.tables:
        if name in FILES and (line := SOURCES[FILES[name]].file.missing_from(arguments.data)):
            console.print(line)
            continue
        shown = screen_table(name, HEADINGS)
        for contestant in arguments.contestants:
            result = run(name, contestant, arguments)
            rows[name, contestant] = result
            shown.add_row(*score_cells(result))
            # Written after every contestant, as each can take minutes.
            ordered = [rows[t, c] for t in TABLES for c in CONTESTANTS if (t, c) in rows]
            write_results(arguments.output, {"settings": settings, "rows": ordered})
        console.print(shown)


def parse() -> argparse.Namespace:
    parser = parser_with_data(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds after which a contestant is stopped (600)"
    )
    parser.add_argument("--most-columns", type=int, help="use only so many columns, for a quick run")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=SECTIONS["wide"].results)
    # What the process of a contestant is given: the table and the contestant.
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def run(name: str, contestant: str, arguments: argparse.Namespace) -> dict:
    """Run a contestant in a process of its own; where there are no scores, a note in its row says why."""
    options = ["--seed", str(arguments.seed), "--data", str(arguments.data.resolve())]
    if arguments.most_columns:
        options += ["--most-columns", str(arguments.most_columns)]
    found = row_of_process(
        "benchmarks.wide", [name, contestant], options, threads=arguments.threads, limit=arguments.limit
    )
    note = found["note"].removeprefix("ValueError: ")
    return {"table": name, "contestant": contestant} | found | {"note": note}


def row(name: str, contestant: str, arguments: argparse.Namespace) -> dict:
    """Run a contestant in this process; return its scores, its processor time and its peak memory.

    Processor time does not depend on what else the machine does. It includes imports. The memory includes
    what reading the table takes.
    """
    task = load(name, arguments.data, arguments.seed, arguments.most_columns)
    began = time.process_time()
    imputed = CONTESTANTS[contestant](task.train, arguments.seed)
    seconds = time.process_time() - began
    scores = gaussian_scores(task.truth, imputed.mean[task.hidden], imputed.std[task.hidden])
    if not contestant.startswith("bpfa"):
        # One deviation for all entries says how large errors are, but predicts no interval.
        del scores["coverage"]
    return scores | {"seconds": seconds, "megabytes": peak_megabytes(), "note": imputed.note}


def markdown(results: dict) -> str:
    """Return the tables of the page, one for each table of data."""
    parts = []
    for name in dict.fromkeys(result["table"] for result in results["rows"]):
        rows = [score_cells(result) for result in results["rows"] if result["table"] == name]
        parts += [f"{name[0].upper()}{name[1:]}:", table(HEADINGS, rows)]
    threads, most = results["settings"]["threads"], results["settings"]["most_columns"]
    quick = f" Only the first {most} columns of each table were used." if most else ""
    return "\n\n".join([*parts, f"Number of threads: {threads}.{quick}"])


if __name__ == "__main__":
    main()
