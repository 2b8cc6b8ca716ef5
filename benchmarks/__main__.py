"""Time the local step of every method, and compare it with the specification, SPAMS and scikit-learn.

Prints tables, also of how the time grows with the data, and writes benchmarks/results/kernels.json.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import peers
from benchmarks.command import screen_table
from benchmarks.pages import SECTIONS
from benchmarks.problems import OBSERVED, Problem, drawn_problem, picture_patches, trained_problem
from benchmarks.timing import Timing, race
from bpfa.backends import cpu as kernels
from bpfa.backends import numpy as local
from bpfa.backends.cpu import _kernels
from experiments.cells import write_results
from experiments.machine import processor

METHODS = {
    "gibbs": ("Gibbs", {}),
    "gibbs two-step": ("Gibbs", {"blocked": False}),
    "spike-slab": ("SpikeSlab", {}),
    "mean-field": ("MeanField", {}),
}
# The sweeps of one visit of a row: 3 + 3 for Gibbs, and the default of the variational methods.
SWEEPS = {"gibbs": 6, "gibbs two-step": 6, "spike-slab": 10, "mean-field": 10}
SHAPES = {"K=256 D=64": (256, 64), "K=500 D=40": (500, 40), "K=500 D=450": (500, 450)}
HEADLINE = "K=256 D=64"

FIRST_CALL = """
import time
began = time.perf_counter()
import numpy as np
from bpfa import Batch
from bpfa._support.philox import Stream
from bpfa.backends import cpu
from bpfa.model.view import GlobalView
view = GlobalView(np.eye(8), np.zeros((8, 1)), np.zeros(8), 1.0, 1.0)
batch = Batch(np.ones((100, 8)))
cpu.Gibbs().sums(view, batch, Stream.from_seed(0).rows(batch.ids, 1))
print(time.perf_counter() - began)
"""

MEMORY = """
import sys, threading, time
import numpy as np
from bpfa import Batch
from bpfa._support.philox import Stream
from bpfa.backends import cpu
from bpfa.model.view import GlobalView
n = int(sys.argv[1])
rng = np.random.default_rng(0)
values = np.empty((n, 64), np.float32)
for i in range(0, n, 10_000):
    values[i : i + 10_000] = rng.standard_normal((min(10_000, n - i), 64), dtype=np.float32)
view = GlobalView(rng.normal(size=(256, 64)) / 8, np.zeros((256, 1)), np.full(256, -3.0), 10.0, 1.0)
batch = Batch(values)
draws = Stream.from_seed(0).rows(batch.ids, 1)
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
before = peak = resident()
done = False
def watch():
    global peak
    while not done:
        peak = max(peak, resident())
        time.sleep(0.002)
watcher = threading.Thread(target=watch)
watcher.start()
cpu.Gibbs().sums(view, batch, draws)
done = True
watcher.join()
print(peak - before)
"""


def main() -> None:
    """Run all benchmarks of the kernels."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=16_384, help="rows of the main problems")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each race")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--output", type=Path, default=SECTIONS["methods"].results)
    parser.add_argument(
        "--sparse", action="store_true", help="patches that use fewer than about ten features"
    )
    arguments = parser.parse_args()
    if arguments.sparse:
        arguments.output = arguments.output.with_stem(f"{arguments.output.stem}-sparse")
    console = Console(width=120)
    began = time.perf_counter()
    console.print(
        f"{processor()}, {arguments.threads} threads, kernels for {kernels.instruction_sets()[0]}\n"
    )

    problems = all_problems(arguments.rows, arguments.sparse)
    results = {
        "machine": processor(),
        "threads": arguments.threads,
        "instruction_set": kernels.instruction_sets()[0],
        "methods": time_methods(problems, arguments, console),
        "peers": time_peers(problems[HEADLINE], arguments, console),
        "ceilings": measure_ceilings(problems[HEADLINE], arguments, console),
        "growth": time_growth(arguments, console),
        "starts": time_starts(console),
    }
    results["seconds"] = time.perf_counter() - began
    write_results(arguments.output, results)
    console.print(f"{results['seconds']:.0f} s in all; numbers in {arguments.output}")


def all_problems(n_rows: int, sparse: bool) -> dict[str, dict[float, Problem]]:
    patches = picture_patches(n_rows)
    problems = {HEADLINE: {share: trained_problem(patches, 256, share, sparse=sparse) for share in OBSERVED}}
    for name, (K, D) in SHAPES.items():
        if name != HEADLINE:
            problems[name] = {share: drawn_problem(n_rows // 4, K, D, share) for share in OBSERVED}
    return problems


def sums(method, problem: Problem):
    return lambda: method.sums(problem.view, problem.batch, problem.draws)


def time_methods(problems, arguments, console) -> list[dict]:
    """Time every method for every shape and share of observed entries, and the specification."""
    headings = ("", "observed", "method", "kernel", "NumPy", "ratio", "a sweep", "features")
    table = screen_table("Microseconds a row: median (fastest-slowest)", headings, left=("", "method"))
    results = []
    for shape, shares in problems.items():
        for share, problem in shares.items():
            few = problem.first(64)
            for name, (kind, options) in METHODS.items():
                kernel = getattr(kernels, kind)(**options, n_jobs=arguments.threads)
                times = race(
                    {"kernel": (sums(kernel, problem), len(problem.batch))}, n_rounds=arguments.rounds
                ) | race({"spec": (sums(getattr(local, kind)(**options), few), 64)}, n_rounds=1)
                active = kernel.sums(few.view, few.batch, few.draws).n.sum() / 64
                a_sweep = times["kernel"].median / SWEEPS[name]
                results.append(
                    {
                        "shape": shape,
                        "observed": share,
                        "method": name,
                        "kernel": times["kernel"],
                        "specification": times["spec"].median,
                        "active": active,
                        "a_sweep": a_sweep,
                    }
                )
                table.add_row(
                    shape,
                    f"{share:.0%}",
                    name,
                    str(times["kernel"]),
                    f"{times['spec'].median:.0f}",
                    f"{times['spec'].median / times['kernel'].median:.0f}x",
                    f"{a_sweep:.2f}",
                    f"{active:.1f}",
                )
        table.add_section()
    console.print(table)
    return results


def time_peers(shares: dict[float, Problem], arguments, console) -> dict:
    """Compare Gibbs, with and without missing entries, with dictionary learning on the complete rows."""
    complete, threads = shares[1.0], arguments.threads
    gibbs, n_rows, n_sklearn = kernels.Gibbs(n_jobs=threads), len(complete.batch), 1024
    contestants, active = {}, {}
    for share, problem in shares.items():
        name = f"bpfa gibbs, {share:.0%} observed"
        contestants[name] = (sums(gibbs, problem), n_rows)
        contestants[f"{name}, 1 thread"] = (sums(kernels.Gibbs(n_jobs=1), problem), n_rows)
        active[name] = gibbs.sums(problem.view, problem.batch, problem.draws).n.sum() / n_rows
    matching = peers.matching_penalty(complete, active["bpfa gibbs, 100% observed"])
    spams = {
        "SPAMS trainDL, as sparse as gibbs": matching,
        "SPAMS trainDL, its documented penalty": peers.documented_penalty(complete),
    }
    for name, penalty in spams.items():
        contestants[name] = (peers.spams_learner(complete, penalty, n_rows, threads), n_rows)
        active[name] = peers.atoms_a_row(complete, penalty)
    sklearn = "scikit-learn dictionary learning"
    contestants[sklearn] = (peers.sklearn_learner(complete, matching, n_sklearn), n_sklearn)
    with warnings.catch_warnings():
        # scikit-learn warns that a single pass has not converged.
        warnings.simplefilter("ignore")
        times = race(contestants, n_rounds=arguments.rounds)
    table = screen_table(
        f"{HEADLINE}, patches of a picture, 3 + 3 sweeps, {threads} threads; the other packages on complete "
        "rows. The time of each divided by ours:",
        ("", "us a row", "features a row", *(name.replace("trainDL, ", "") for name in spams), sklearn),
    )
    for name, timing in times.items():
        ratios = [f"{times[peer].median / timing.median:.1f}x" for peer in (*spams, sklearn)]
        table.add_row(name, str(timing), f"{active[name]:.1f}" if name in active else "", *ratios)
    console.print(table)
    return {"penalties": spams, "features_a_row": active, "times": times}


def measure_ceilings(shares: dict[float, Problem], arguments, console) -> dict:
    """Measure how much of the machine's multiply-adds and bandwidth the Gibbs kernel uses."""
    threads = arguments.threads
    fma, copy = _kernels.fma_rate(1.0, threads, ""), _kernels.copy_rate(1.0, threads)
    headings = ("", "multiply-adds a row", "G a second", "share", "GB/s read", "share")
    table = screen_table("Gibbs relative to the limits of the machine, measured in this run", headings)
    table.add_row("ceiling (multiply-add, copy)", "", f"{fma / 1e9:.0f}", "", f"{copy / 1e9:.0f}", "")
    results = {"fma_a_second": fma, "copied_bytes_a_second": copy, "gibbs": {}}
    for share, problem in shares.items():
        gibbs = kernels.Gibbs(n_jobs=threads)
        timing = race({"gibbs": (sums(gibbs, problem), len(problem.batch))}, arguments.rounds)["gibbs"]
        work = multiply_adds(problem.first(1000))
        rate = work / timing.median * 1e6
        row_bytes = problem.batch.values.itemsize * problem.batch.n_columns
        row_bytes += 0 if problem.batch.complete else problem.batch.n_columns
        bandwidth = row_bytes / timing.median * 1e6
        results["gibbs"][share] = {
            "multiply_adds": work,
            "fma_share": rate / fma,
            "copy_share": bandwidth / copy,
        }
        table.add_row(
            f"{share:.0%} observed",
            f"{work:.0f}",
            f"{rate / 1e9:.1f}",
            f"{rate / fma:.0%}",
            f"{bandwidth / 1e9:.3f}",
            f"{bandwidth / copy:.2%}",
        )
    console.print(table)
    return results


def multiply_adds(problem: Problem) -> float:
    """Return the multiply-adds that 3 + 3 sweeps need for a row, counted from the features that change."""
    K, D = problem.view.phi.shape
    gibbs, n = kernels.Gibbs(), len(problem.batch)
    before, changes, kept = np.zeros((n, K)), 0, 0
    for sweep, state in enumerate(gibbs.chain(problem.view, problem.batch, problem.draws, 6), start=1):
        changes += ((before + state.z) > 0).sum() / n
        kept += state.z.sum() / n if sweep > gibbs.burn_in else 0
        before = state.z
    in_sums = 2 * kept * D
    if problem.batch.complete:
        # Correlations with the data, and a column of the Gram matrix for every change.
        return K * D + changes * K + in_sums
    observed = problem.batch.observed.sum() / n
    # Constants; correlations with the residual in every sweep; the residual and its block for every change.
    return (1 + 6) * K * observed + changes * (1 + 16) * observed + in_sums + kept / 3 * D


def time_growth(arguments, console) -> dict:
    """Measure how the time for a row grows with each dimension while the others are fixed."""
    base = {"N": 8192, "K": 256, "D": 64, "observed": 1.0}
    grids = {
        "N": [256, 1024, 4096, 16_384, 65_536],
        "K": [64, 128, 256, 512, 1024],
        "D": [16, 32, 64, 128, 256, 512],
        "observed": [0.1, 0.2, 0.5, 0.8, 1.0],
    }
    title = "Growth, rows drawn from the model, us a row (Gibbs, mean field)"
    table = screen_table(title, ("", "value", "gibbs", "mean-field"))
    results: dict[str, list] = {}
    for dimension, values in grids.items():
        for value in values:
            at = base | {dimension: value}
            problem = drawn_problem(at["N"], at["K"], at["D"], at["observed"])
            contestants = {
                name: (sums(getattr(kernels, METHODS[name][0])(n_jobs=arguments.threads), problem), at["N"])
                for name in ("gibbs", "mean-field")
            }
            times = race(contestants, n_rounds=3)
            results.setdefault(dimension, []).append({"value": value, **times})
            table.add_row(dimension, f"{value:g}", *(str(timing) for timing in times.values()))
        table.add_section()
    fixed = ", ".join(f"{name}={value:g}" for name, value in base.items())
    table.caption = f"unless said otherwise: {fixed}"
    console.print(table)
    return results


def time_starts(console) -> dict:
    """Measure the first call of a fresh process, and the memory that a call uses in addition to its input."""

    def run(program: str, *words: str) -> float:
        command = [sys.executable, "-c", program, *words]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    starts = sorted(run(FIRST_CALL) for _ in range(5))
    first = Timing(starts[2], starts[0], starts[-1])
    memory = {n: run(MEMORY, str(n)) for n in (20_000, 200_000, 1_000_000)}
    console.print(f"First call in a fresh process, import included: {first} s")
    grown = ", ".join(f"{n:,} rows {megabytes:.0f} MB" for n, megabytes in memory.items())
    console.print(f"Memory that a call uses in addition to its input, K=256 D=64: {grown}\n")
    return {"first_call_seconds": first, "megabytes": memory}


if __name__ == "__main__":
    main()
