"""Times on the device, and the limits of the card."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from bpfa.backends.cuda.runtime import cupy_module

FMA_SOURCE = """
extern "C" __global__ void multiply_add(float* out, int n) {
  float x[8];
  for (int i = 0; i < 8; ++i) x[i] = threadIdx.x + i;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < 8; ++i) x[i] = fmaf(x[i], 0.999f, 0.5f);
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += x[i];
  if (sum == -1) out[0] = sum;
}
"""


def median_seconds(work: Callable[[], object], n_rounds: int = 9) -> float:
    """Return the median time of some work on the device, after two rounds that are not counted."""
    cupy = cupy_module()
    times = []
    for round_ in range(n_rounds + 2):
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        began.record()
        work()
        ended.record()
        ended.synchronize()
        if round_ >= 2:
            times.append(cupy.cuda.get_elapsed_time(began, ended) / 1e3)
    return float(np.median(times))


def ceilings(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure how fast the card copies memory and multiplies and adds."""
    cupy = cupy_module()
    source = cupy.zeros(2**29, cupy.float32)
    target = cupy.empty_like(source)
    copied = median_seconds(lambda: cupy.copyto(target, source))
    function = cupy.RawKernel(FMA_SOURCE, "multiply_add")
    n, blocks, threads = 20_000, 132 * 16, 256
    out = cupy.zeros(1, cupy.float32)
    run = median_seconds(lambda: function((blocks,), (threads,), (out, np.int32(n))))
    results["ceilings"] = {
        "copied_bytes_a_second": 2 * source.nbytes / copied,
        "multiply_adds_a_second": 8.0 * n * blocks * threads / run,
    }
    print(
        f"copy {results['ceilings']['copied_bytes_a_second'] / 1e12:.2f} TB/s, "
        f"{results['ceilings']['multiply_adds_a_second'] / 1e12:.1f} T float32 multiply-adds/s"
    )
