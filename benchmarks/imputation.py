"""How well hidden entries of real matrices are predicted: `python -m benchmarks.imputation`.

Every contestant runs in a process of its own, so that the peak memory of each can be measured.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import time
from pathlib import Path

from rich.console import Console

from benchmarks.baselines import Imputed
from benchmarks.command import parser_with_data, row_of_process, screen_table
from benchmarks.contestants import CONTESTANTS
from benchmarks.pages import SECTIONS
from experiments.cells import write_results
from experiments.markdown import table
from experiments.scores import gaussian_scores
from experiments.tables import SOURCES, TableTask, load

PACKAGES = ("numpy", "scipy", "scikit-learn", "mofapy2", "pandas", "bpfa")
HEADINGS = ("", "K", "MSE", "log-likelihood", "95 % covers", "seconds", "MB", "")


def main() -> None:
    arguments = parse()
    if arguments.row:
        print(json.dumps(row(*arguments.row, arguments)))
        return
    console = Console(width=150)
    settings = {
        "seed": arguments.seed,
        "threads": arguments.threads,
        "python": platform.python_version(),
        "versions": versions(),
        "hidden": {name: source.hidden for name, source in SOURCES.items()},
    }
    rows = earlier_rows(arguments.output, settings)
    for dataset in arguments.datasets:
        if line := SOURCES[dataset].file.missing_from(arguments.data):
            console.print(line)
            continue
        title = f"{dataset}, {SOURCES[dataset].hidden:.0%} of entries hidden"
        shown = screen_table(title, HEADINGS)
        for name, components in entries(dataset, arguments):
            result = run(dataset, name, components, arguments)
            rows[key(result)] = result
            shown.add_row(*cells(result))
            console.print(f"  {' '.join(cells(result))}", highlight=False)
            # Written after every contestant, as each can take minutes.
            variances = {name: contestant.variance for name, contestant in CONTESTANTS.items()}
            ordered = [rows[place] for place in sorted(rows)]
            results = {"settings": settings, "variances": variances, "rows": ordered}
            write_results(arguments.output, results)
        console.print(shown)
    if rows:
        console.print(f"numbers in {arguments.output}")


def parse() -> argparse.Namespace:
    parser = parser_with_data(__doc__)
    parser.add_argument("--datasets", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument(
        "--components",
        type=int,
        nargs="+",
        help="one or several values of K (default: one for each data set)",
    )
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds after which a contestant is stopped (300)"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=SECTIONS["imputation"].results)
    # What the process of a contestant is given: the data set, the contestant and K.
    parser.add_argument("--row", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def key(result: dict) -> tuple[int, int, int]:
    """Return the place of a row in the tables."""
    return (
        list(SOURCES).index(result["dataset"]),
        list(CONTESTANTS).index(result["contestant"]),
        result["components"] or 0,
    )


def earlier_rows(path: Path, settings: dict) -> dict[tuple[int, int, int], dict]:
    """Return the rows of an earlier run with the same settings, so that one contestant can be run again."""
    if not path.exists():
        return {}
    results = json.loads(path.read_text())
    if results["settings"] != settings:
        return {}
    return {key(row): row for row in results["rows"] if row["contestant"] in CONTESTANTS}


def entries(dataset: str, arguments: argparse.Namespace) -> list[tuple[str, int]]:
    """Return the contestants with their values of K; those that choose K themselves run once."""
    several = arguments.components or [SOURCES[dataset].components]
    return [
        (name, components)
        for name in arguments.contestants
        for components in (several if CONTESTANTS[name].takes_components else several[:1])
    ]


def run(dataset: str, name: str, components: int, arguments: argparse.Namespace) -> dict:
    """Run a contestant in a process of its own; where there are no scores, a note in its row says why."""
    options = ["--seed", str(arguments.seed), "--data", str(arguments.data.resolve())]
    told = components if CONTESTANTS[name].takes_components else None
    found = row_of_process(
        "benchmarks.imputation",
        [dataset, name, str(components)],
        options,
        threads=arguments.threads,
        limit=arguments.limit,
    )
    return {"dataset": dataset, "contestant": name, "components": told} | found


def row(dataset: str, name: str, components: str, arguments: argparse.Namespace) -> dict:
    """Run a contestant in this process; return its scores, its seconds including imports, and peak memory."""
    task = load(dataset, arguments.data, arguments.seed)
    began = time.perf_counter()
    imputed = CONTESTANTS[name].impute(task.train, int(components), arguments.seed)
    seconds = time.perf_counter() - began
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return scores(task, imputed) | {"seconds": seconds, "megabytes": megabytes, "note": imputed.note}


def scores(task: TableTask, imputed: Imputed) -> dict[str, float]:
    """Return the scores over the hidden entries, in units of standardised columns."""
    return gaussian_scores(task.truth, imputed.mean[task.hidden], imputed.std[task.hidden])


def cells(result: dict) -> list[str]:
    """Return a row of the table, for the screen and for the page."""
    components = "" if result["components"] is None else str(result["components"])
    if "mse" not in result:
        return [result["contestant"], components, "", "", "", "", "", result["note"]]
    return [
        result["contestant"],
        components,
        f"{result['mse']:.4f}",
        f"{result['log_likelihood']:.4f}",
        f"{result['coverage']:.1%}",
        f"{result['seconds']:.1f}",
        f"{result['megabytes']:.0f}",
        result["note"],
    ]


def markdown(results: dict) -> str:
    """Return the tables of the page, one for each data set."""
    parts = []
    for dataset in dict.fromkeys(result["dataset"] for result in results["rows"]):
        rows = [cells(result) for result in results["rows"] if result["dataset"] == dataset]
        hidden = results["settings"]["hidden"][dataset]
        parts.append(f"{dataset.capitalize()}, {hidden:.0%} of entries hidden:")
        parts.append(table(HEADINGS, rows))
    of_each = "; ".join(f"{name}: {text}" for name, text in results["variances"].items())
    parts.append(f"Predictive variances: {of_each}")
    return "\n\n".join(parts) + "."


def versions() -> dict[str, str]:
    """Return the versions of the packages that take part."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


if __name__ == "__main__":
    main()
