"""The tables of the page that are made from the results of `python -m benchmarks`."""

from __future__ import annotations

from typing import Any

from benchmarks.timing import Timing
from experiments.markdown import table


def peers(results: dict[str, Any]) -> str:
    """Return the comparison with other packages."""
    times = {name: Timing(*timing) for name, timing in results["peers"]["times"].items()}
    features = results["peers"]["features_a_row"]
    others = [name for name in times if not name.startswith("bpfa")]
    rows = [
        [name, str(timing), f"{features[name]:.1f}" if name in features else ""]
        + [
            f"{times[other].median / timing.median:.1f}x" if name.startswith("bpfa") else ""
            for other in others
        ]
        for name, timing in times.items()
    ]
    return table(["", "us a row", "features a row", *(f"{other} takes" for other in others)], rows)


def methods(results: dict[str, Any]) -> str:
    """Return the times of all local methods."""
    rows = [
        [
            f"{row['shape']}, {row['observed']:.0%} observed, {row['method']}",
            str(Timing(*row["kernel"])),
            f"{row['a_sweep']:.2f}",
            f"{row['specification']:.0f}",
            f"{row['specification'] / row['kernel'][0]:.0f}x",
        ]
        for row in results["methods"]
    ]
    return table(["", "us a row", "us a sweep", "NumPy, us a row", "ratio"], rows)


def sparse(results: dict[str, Any]) -> str:
    """Return both of the tables above for rows that use fewer features."""
    of_patches = [row for row in results["methods"] if row["shape"] == "K=256 D=64"]
    return f"{peers(results)}\n\n{methods({'methods': of_patches})}"


def ceilings(results: dict[str, Any]) -> str:
    """Return how much of the machine's speed the Gibbs kernel uses, and what a first call takes."""
    measured, starts = results["ceilings"], results["starts"]
    rows = [
        [
            f"Gibbs, {float(share):.0%} observed",
            f"{row['multiply_adds']:.0f}",
            f"{row['fma_share']:.0%}",
            f"{row['copy_share']:.2%}",
        ]
        for share, row in measured["gibbs"].items()
    ]
    memory = ", ".join(f"{float(mb):.0f} MB for {int(n):,} rows" for n, mb in starts["megabytes"].items())
    return (
        f"Measured in the same run: {measured['fma_a_second'] / 1e9:.0f} G float32 multiply-adds and "
        f"{measured['copied_bytes_a_second'] / 1e9:.0f} GB copied (read and written) a second.\n\n"
        + table(["", "multiply-adds a row", "share of the peak", "share of the bandwidth"], rows)
        + f"\n\nFirst call in a fresh process, import included: {Timing(*starts['first_call_seconds'])} s. "
        f"Memory that a call uses in addition to its input (K = 256, D = 64): {memory}."
    )


def growth(results: dict[str, Any]) -> str:
    """Return how the time for a row grows with each dimension."""
    rows = [
        [f"{name} = {row['value']:g}", str(Timing(*row["gibbs"])), str(Timing(*row["mean-field"]))]
        for name, rows_of_dimension in results["growth"].items()
        for row in rows_of_dimension
    ]
    return (
        "Rows drawn from the model; N = 8192, K = 256, D = 64 and complete data, unless said otherwise.\n\n"
        + table(["", "Gibbs, us a row", "mean field, us a row"], rows)
    )
