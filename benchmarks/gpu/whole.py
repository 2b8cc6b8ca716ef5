"""The times of whole tasks: restoring a picture, learning from a table, and the first call of a process."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

import bpfa
from benchmarks.gpu.page import shown
from bpfa import Schedule
from bpfa.backends.cuda.runtime import cupy_module
from experiments import Array
from experiments.pictures import PictureTask, clipped_psnr, hide_pixels, pixels_to_score

FIRST_CALL = """
import time
began = time.perf_counter()
import numpy as np
import bpfa
y = np.random.default_rng(0).normal(size=(2000, 16))
y[0, 0] = np.nan
bpfa.BPFA(32, features="factorised", max_steps=10, device="cuda", random_state=0).fit(y)
print(time.perf_counter() - began)
"""
PICTURES = {
    "Boat 512 x 512, 20% observed": PictureTask("boat", 0.2, 0.0),
    "House 256 x 256, 50% observed + noise 15": PictureTask("house", 0.5, 15.0),
}
# Numbers of steps and draws, from the fastest to those of the final result.
LADDER = ((60, 2), (100, 2), (100, 4), (150, 4), (200, 4), (300, 4), (400, 4), (300, 8), (500, 8))
FINAL = (1000, 8)
# The rows, columns, share of hidden entries and batch size of each table.
TABLES = {
    "532,000 x 40, K = 500, 5% hidden, 100 epochs": (532_000, 40, 0.05, 16_384),
    "15,000 x 450, K = 500, 10% hidden, 100 epochs": (15_000, 450, 0.1, 1500),
}


def pictures(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure how soon a restoration is within 0.2 dB of the final one."""
    for title, task in PICTURES.items():
        results["work"][title] = picture_times(task, arguments.data, arguments.device)


def picture_times(task: PictureTask, data: Path, device: str) -> dict[str, Any]:
    """Restore a picture with ever more steps and draws."""
    truth, seen, missing = hide_pixels(task, data, 0)
    restore = bpfa.denoise if task.noise else bpfa.inpaint
    where = pixels_to_score(missing, noisy=task.noise > 0)

    def restored(steps: int, draws: int) -> tuple[Array, float]:
        began = time.perf_counter()
        result = restore(seen, max_steps=steps, n_draws=draws, device=device, random_state=0)
        return result.image, time.perf_counter() - began

    def rung(steps: int, draws: int, n_rounds: int) -> dict[str, Any]:
        found = [restored(steps, draws) for _ in range(n_rounds)]
        seconds = float(np.median([taken for _, taken in found]))
        psnr = clipped_psnr(truth, found[0][0], where)
        return {"steps": steps, "draws": draws, "seconds": seconds, "psnr": psnr}

    # The first call, which is not counted.
    restored(20, 2)
    final = rung(*FINAL, 1)
    ladder = [*(rung(steps, draws, 3) for steps, draws in LADDER), final]
    good = [found for found in ladder if found["psnr"] >= final["psnr"] - 0.2]
    best = min(good, key=lambda found: found["seconds"])
    return {
        "seconds": best["seconds"],
        "final_psnr": final["psnr"],
        "final_seconds": final["seconds"],
        "reached_by": best,
        "ladder": ladder,
        "note": f"{best['psnr']:.2f} dB after {best['steps']} steps and {best['draws']} draws; "
        f"{final['psnr']:.2f} dB after 1000 and 8, in {shown(final['seconds'])}",
    }


def tables(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure 100 epochs on tables.

    We have no public matrices of these shapes, so the rows are drawn from the model, with about ten features
    each.
    """
    for title, (n_rows, n_columns, hidden, batch_size) in TABLES.items():
        data = drawn_table(n_rows, n_columns, hidden)
        per_epoch = -(-n_rows // batch_size)
        for n_epochs in (2, 100):
            began = time.perf_counter()
            steps = bpfa.train(
                data,
                500,
                n_steps=n_epochs * per_epoch,
                batch_size=batch_size,
                schedule=Schedule(),
                weight_precision="active",
                seed=0,
                device=arguments.device,
            )
            # Only the last posterior is kept, as each takes memory of the card.
            noise = deque(steps, maxlen=1).pop().posterior.noise_std
            seconds = time.perf_counter() - began
        results["work"][title] = {
            "seconds": seconds,
            "batch_size": batch_size,
            "microseconds_a_step": seconds / 100 / per_epoch * 1e6,
            "note": f"batches of {batch_size}, noise {noise:.3f}",
        }


def drawn_table(n_rows: int, n_columns: int, hidden: float) -> Any:
    """Return a table on the device, drawn from the model, with NaN at a share of its entries."""
    cupy = cupy_module()
    rng = cupy.random.default_rng(0)
    phi = rng.standard_normal((500, n_columns), dtype=cupy.float32) / n_columns**0.5
    data = cupy.empty((n_rows, n_columns), cupy.float32)
    for first in range(0, n_rows, 50_000):
        n = min(50_000, n_rows - first)
        x = rng.standard_normal((n, 500), dtype=cupy.float32)
        x *= rng.random((n, 500), dtype=cupy.float32) < 10 / 500
        data[first : first + n] = x @ phi + 0.1 * rng.standard_normal((n, n_columns), dtype=cupy.float32)
    data /= data.std()
    data[rng.random(data.shape, dtype=cupy.float32) < hidden] = cupy.nan
    return data


def first_call(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure the first call in a fresh process, import included."""
    times = []
    for _ in range(3):
        process = subprocess.run(
            [sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=True
        )
        times.append(float(process.stdout))
    results["work"]["first call in a fresh process, kernels cached"] = {
        "seconds": float(np.median(times[1:])),
        "note": f"the very first, which may compile: {times[0]:.2f} s",
    }
