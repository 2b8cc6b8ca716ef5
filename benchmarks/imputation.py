"""How well hidden entries of real matrices are predicted: `python -m benchmarks.imputation`.

Every contestant runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import readme
from benchmarks.baselines import Imputed
from benchmarks.contestants import CONTESTANTS
from benchmarks.matrices import SOURCES, Task, load, missing_file

ROOT = Path(__file__).parents[1]
PACKAGES = ("numpy", "scipy", "scikit-learn", "mofapy2", "pandas", "bpfa")
HEADINGS = ("", "K", "MSE", "log-likelihood", "95 % covers", "seconds", "MB", "")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
        if line := missing_file(dataset, arguments.data):
            console.print(line)
            continue
        table = new_table(f"{dataset}, {SOURCES[dataset].hidden:.0%} of entries hidden")
        for name, components in entries(dataset, arguments):
            result = run(dataset, name, components, arguments)
            rows[key(result)] = result
            table.add_row(*cells(result))
            console.print(f"  {' '.join(cells(result))}", highlight=False)
            # After every contestant, as one may run for long.
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            variances = {name: contestant.variance for name, contestant in CONTESTANTS.items()}
            ordered = [rows[place] for place in sorted(rows)]
            results = {"settings": settings, "variances": variances, "rows": ordered}
            arguments.output.write_text(json.dumps(results, indent=1))
        console.print(table)
    if rows:
        console.print(f"numbers in {arguments.output}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="data folder")
    parser.add_argument("--datasets", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument(
        "--components", type=int, nargs="+", help="K, one or several; by default one for each data set"
    )
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a contestant")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "imputation.json")
    # How a process of its own is told what to do: the data set, the contestant and K.
    parser.add_argument("--row", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def key(result: dict) -> tuple[int, int, int]:
    """The place of a row in the tables."""
    return (
        list(SOURCES).index(result["dataset"]),
        list(CONTESTANTS).index(result["contestant"]),
        result["components"] or 0,
    )


def earlier_rows(path: Path, settings: dict) -> dict[tuple[int, int, int], dict]:
    """What an earlier run with the same settings stored, so that one contestant can run again alone."""
    if not path.exists():
        return {}
    results = json.loads(path.read_text())
    if results["settings"] != settings:
        return {}
    return {key(row): row for row in results["rows"] if row["contestant"] in CONTESTANTS}


def entries(dataset: str, arguments: argparse.Namespace) -> list[tuple[str, int]]:
    """Contestants with their K; those that are not told K run once."""
    several = arguments.components or [SOURCES[dataset].components]
    return [
        (name, components)
        for name in arguments.contestants
        for components in (several if CONTESTANTS[name].takes_components else several[:1])
    ]


def run(dataset: str, name: str, components: int, arguments: argparse.Namespace) -> dict:
    """The row of a contestant, from a process of its own; a note says why there are no scores."""
    command = [sys.executable, "-m", "benchmarks.imputation", "--row", dataset, name, str(components)]
    command += ["--seed", str(arguments.seed), "--data", str(arguments.data.resolve())]
    environment = os.environ | dict.fromkeys(THREADS, str(arguments.threads))
    told = components if CONTESTANTS[name].takes_components else None
    result = {"dataset": dataset, "contestant": name, "components": told}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=arguments.limit
        )
    except subprocess.TimeoutExpired:
        return result | {"note": f"not finished in {arguments.limit:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return result | {"note": lines[-1] if lines else f"ended with status {done.returncode}"}
    return result | json.loads(done.stdout.splitlines()[-1])


def row(dataset: str, name: str, components: str, arguments: argparse.Namespace) -> dict:
    """Run a contestant in this process: scores, seconds with its imports, peak memory with the data."""
    task = load(dataset, arguments.data, arguments.seed)
    began = time.perf_counter()
    imputed = CONTESTANTS[name].impute(task.train, int(components), arguments.seed)
    seconds = time.perf_counter() - began
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return scores(task, imputed) | {"seconds": seconds, "megabytes": megabytes, "note": imputed.note}


def scores(task: Task, imputed: Imputed) -> dict:
    """Over the hidden entries, in units of standardised columns."""
    error, std = task.truth - imputed.mean[task.hidden], imputed.std[task.hidden]
    log_likelihood = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * (error / std) ** 2
    return {
        "mse": float((error**2).mean()),
        "log_likelihood": float(log_likelihood.mean()),
        "coverage": float((np.abs(error) < 1.959964 * std).mean()),
    }


def cells(result: dict) -> list[str]:
    """A row of the table, for the screen and for the page."""
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


def new_table(title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if place in (0, len(HEADINGS) - 1) else "right")
    return table


def markdown(results: dict) -> str:
    """The tables of the page, one for each data set."""
    parts = []
    for dataset in dict.fromkeys(result["dataset"] for result in results["rows"]):
        rows = [cells(result) for result in results["rows"] if result["dataset"] == dataset]
        hidden = results["settings"]["hidden"][dataset]
        parts.append(f"{dataset.capitalize()}, {hidden:.0%} of entries hidden:")
        parts.append(readme.table(list(HEADINGS), rows))
    of_each = "; ".join(f"{name}: {text}" for name, text in results["variances"].items())
    parts.append(f"Predictive variances: {of_each}")
    return "\n\n".join(parts) + "."


def versions() -> dict[str, str]:
    """Of the packages that take part, as far as they are installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


if __name__ == "__main__":
    main()
