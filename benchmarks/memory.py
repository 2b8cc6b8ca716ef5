"""A fit to a file much larger than the memory that it uses: `python -m benchmarks.memory [--gigabytes 4]`.

Makes the file (a NumPy array of float32, drawn from the model block by block), fits it in a process of its
own, and prints and stores the peak memory of that process and the number of rows per second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import peak_megabytes
from benchmarks.pages import SECTIONS
from bpfa import BPFA, draw_data, open_rows
from experiments.cells import write_results

RESULTS = SECTIONS["memory"].results
N_COLUMNS, BLOCK_ROWS = 64, 2**17


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=4.0, help="size of the file (4)")
    parser.add_argument("--folder", type=Path, help="where the file is made (default: a temporary folder)")
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        print(json.dumps(fit(arguments.fit)))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "rows.npy"
        size = make(path, arguments.gigabytes)
        print(f"made {path}: {size / 2**30:.2f} GiB", flush=True)
        command = [sys.executable, "-m", "benchmarks.memory", "--fit", str(path)]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result["file_megabytes"] = size / 2**20
    print(
        f"{result['file_megabytes']:,.0f} MiB of file, peak memory {result['peak_megabytes']:.0f} MiB; "
        f"column moments {result['moments_seconds']:.1f} s, one epoch of {result['steps']:,} steps "
        f"{result['seconds']:.1f} s, {result['rows_per_second']:,.0f} rows/s"
    )
    write_results(RESULTS, result)


def make(path: Path, gigabytes: float) -> int:
    """Write a file of about this size and return its exact size in bytes."""
    n_blocks = max(1, round(gigabytes * 2**30 / (4 * N_COLUMNS * BLOCK_ROWS)))
    block = draw_data(BLOCK_ROWS, N_COLUMNS, 20, g_o=25.0, g_w=1.0, seed=0).y.astype(np.float32)
    header = {"descr": "<f4", "fortran_order": False, "shape": (n_blocks * BLOCK_ROWS, N_COLUMNS)}
    rng = np.random.default_rng(1)
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        for _ in range(n_blocks):
            # The same block in another order and with other signs, so that no row is a copy of another.
            block = rng.permutation(block) * rng.choice(np.float32([-1, 1]), size=(BLOCK_ROWS, 1))
            block.tofile(file)
    return path.stat().st_size


def fit(path: Path) -> dict[str, float]:
    """Fit one epoch and return the time and the memory that it took."""
    began = time.perf_counter()
    first: list[float] = []

    def note(progress: object, history: object) -> None:
        if not first:
            first.append(time.perf_counter())

    rows = open_rows(path)
    model = BPFA(n_components=32, batch_size=4096, max_epochs=1, random_state=0)
    model.fit(rows, callbacks=[note])
    ended = time.perf_counter()
    return {
        "rows": rows.n_rows,
        "columns": rows.n_columns,
        "steps": model.n_steps_,
        "moments_seconds": first[0] - began,
        "seconds": ended - first[0],
        "rows_per_second": rows.n_rows / (ended - first[0]),
        "noise_std": model.posterior_.noise_std,
        "peak_megabytes": peak_megabytes(),
    }


def markdown(results: dict[str, Any]) -> str:
    """Return the text of the page."""
    return (
        f"A file of {results['file_megabytes']:,.0f} MiB ({results['rows']:,} rows of {results['columns']} "
        f"columns): the memory of the fit peaks at {results['peak_megabytes']:.0f} MiB. One pass for the "
        f"moments of the columns takes {results['moments_seconds']:.0f} s, and an epoch of "
        f"{results['steps']:,} steps {results['seconds']:.0f} s, which is "
        f"{results['rows_per_second']:,.0f} rows per second."
    )


if __name__ == "__main__":
    main()
