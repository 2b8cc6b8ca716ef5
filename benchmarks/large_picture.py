"""The memory that a large picture takes: `python -m benchmarks.large_picture [--side 4096]`.

Denoises a drawn picture of this side and prints the peak memory of the process. The dictionary is trained for
few steps, restores few patches, and is followed by one round of groups, because more of these take more time
but no more memory.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from benchmarks.command import peak_megabytes
from bpfa.images.canvas import Canvas
from bpfa.images.options import RestorationOptions
from bpfa.images.pipeline import fit_patches, image_result, refine_by_groups, restore_from_model
from bpfa.images.plan import plan_restoration
from experiments import Array


def drawn_picture(side: int) -> Array:
    """Return a noisy picture of waves of 8-bit grey levels.

    Examples
    --------
    >>> drawn_picture(8).shape, drawn_picture(8).dtype
    ((8, 8), dtype('uint8'))
    """
    rng = np.random.default_rng(0)
    rows = []
    # Row by row, so that the picture itself is what takes memory.
    for y in range(side):
        wave = np.sin(np.arange(side) / 9 + 3 * np.sin(y / 31)) + np.sin(y / 7)
        rows.append(np.clip(128 + 40 * wave + 20 * rng.standard_normal(side), 0, 255).astype(np.uint8))
    return np.stack(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=4096, help="height and width of the picture (4096)")
    parser.add_argument("--threads", type=int, default=-1)
    arguments = parser.parse_args()
    picture = drawn_picture(arguments.side)
    before, began = peak_megabytes(), time.perf_counter()
    canvas = Canvas.of(picture)
    options = RestorationOptions(random_state=0, max_steps=50, stride=8, n_draws=2, n_jobs=arguments.threads)
    plan = plan_restoration(canvas, options, noisy=True)
    assert plan.groups is not None
    plan = replace(plan, groups=replace(plan.groups, most_rounds=1))
    model = fit_patches(canvas, plan)
    restored = restore_from_model(canvas, plan, model)
    refined = refine_by_groups(canvas, plan, model, restored)
    result = image_result(canvas, plan, model, restored, refined)
    print(
        f"{arguments.side} x {arguments.side} pixels: peak memory {peak_megabytes():,.0f} MiB "
        f"({before:,.0f} MiB before the restoration), {time.perf_counter() - began:.0f} s, "
        f"stage {result.stage!r}"
    )


if __name__ == "__main__":
    main()
