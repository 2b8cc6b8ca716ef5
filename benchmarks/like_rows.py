"""How well hidden entries are predicted where rows have kinds: `python -m benchmarks.like_rows`.

Every contestant runs in a process of its own. All other methods choose their rank, penalty or number of
neighbours by validation entries that they hide themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from rich.console import Console

from benchmarks.command import (
    earlier_rows,
    parser_with_data,
    row_of_process,
    score_cells,
    screen_table,
)
from benchmarks.like_rows_methods import CONTESTANTS
from benchmarks.like_rows_tables import TABLES, Kinds, best_scores, load
from benchmarks.pages import SECTIONS
from experiments.cells import write_results
from experiments.markdown import table
from experiments.tables import SOURCES

# Predictions by the distribution that a table was drawn from.
TRUTH = "the truth"
ROWS = (*CONTESTANTS, TRUTH)
HEADINGS = ("", "MSE", "log-likelihood", "95 % covers", "CPU seconds", "")


def main() -> None:
    arguments = parse()
    if arguments.row:
        print(json.dumps(row(*arguments.row, arguments)))
        return
    console = Console(width=150)
    settings = {"seed": arguments.seed, "threads": arguments.threads, "rows": arguments.rows}
    rows = earlier_rows(arguments.output, settings)
    for name in arguments.tables:
        source = TABLES[name].source
        if source is not None and (line := SOURCES[source].file.missing_from(arguments.data)):
            console.print(line)
            continue
        shown = screen_table(name, HEADINGS)
        for contestant in arguments.contestants:
            if contestant == TRUTH and not isinstance(TABLES[name].read, Kinds):
                continue
            result = run(name, contestant, arguments)
            rows[name, contestant] = result
            shown.add_row(*score_cells(result))
            # Written after every contestant, as each can take minutes.
            ordered = [rows[t, c] for t in TABLES for c in ROWS if (t, c) in rows]
            write_results(arguments.output, {"settings": settings, "rows": ordered})
        console.print(shown)


def parse() -> argparse.Namespace:
    parser = parser_with_data(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--contestants", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds after which a contestant is stopped (600)"
    )
    parser.add_argument("--rows", type=int, default=20_000, help="use at most so many rows (20,000)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=SECTIONS["like_rows"].results)
    # What the process of a contestant is given: the table and the contestant.
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def run(name: str, contestant: str, arguments: argparse.Namespace) -> dict:
    """Run a contestant in a process of its own; where there are no scores, a note in its row says why."""
    options = ["--seed", str(arguments.seed), "--data", str(arguments.data.resolve())]
    options += ["--rows", str(arguments.rows)]
    found = row_of_process(
        "benchmarks.like_rows", [name, contestant], options, threads=arguments.threads, limit=arguments.limit
    )
    note = found["note"].removeprefix("ValueError: ")
    return {"table": name, "contestant": contestant} | found | {"note": note}


def row(name: str, contestant: str, arguments: argparse.Namespace) -> dict:
    """Run a contestant in this process; return its scores and the seconds of processors it takes."""
    began = time.process_time()
    if contestant == TRUTH:
        scores = best_scores(name, arguments.data, arguments.seed, arguments.rows)
        return scores | {"seconds": time.process_time() - began}
    task = load(name, arguments.data, arguments.seed, arguments.rows)
    began = time.process_time()
    scores = CONTESTANTS[contestant](task, arguments.seed)
    return scores | {"seconds": time.process_time() - began}


def markdown(results: dict) -> str:
    """Return the tables of the page, one for each table of data."""
    parts = []
    for name in dict.fromkeys(result["table"] for result in results["rows"]):
        rows = [score_cells(result) for result in results["rows"] if result["table"] == name]
        parts += [f"{name[0].upper()}{name[1:]}:", table(HEADINGS, rows)]
    n_rows = results["settings"]["rows"]
    sizes = ", ".join(
        f"{name} {min(n_rows, TABLES[name].most_rows):,}"
        for name in dict.fromkeys(result["table"] for result in results["rows"])
    )
    return "\n\n".join([*parts, f"Most rows of a table: {sizes}."])


if __name__ == "__main__":
    main()
