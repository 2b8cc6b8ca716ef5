"""How long groups of like patches take on top of the picture that the dictionary restores."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from bpfa.images.canvas import Canvas
from bpfa.images.options import RestorationOptions
from bpfa.images.pipeline import fit_patches, image_result, refine_by_groups, restore_from_model
from bpfa.images.plan import plan_restoration
from experiments.pictures import PictureTask, clipped_psnr, hide_pixels, pixels_to_score

PICTURES = {
    "groups, House 256 x 256, 20% observed": PictureTask("house", 0.2, 0.0),
    "groups, Lena 512 x 512, complete + noise 25": PictureTask("lena", 1.0, 25.0),
}
REPETITIONS = 5


def groups(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Measure the second stage of a restoration, after the dictionary has restored the picture."""
    for title, task in PICTURES.items():
        results["work"][title] = group_times(task, arguments.data, arguments.device)


def group_times(task: PictureTask, data: Path, device: str) -> dict[str, Any]:
    """Refine a picture several times; the first time, in which kernels may be compiled, is not counted."""
    truth, seen, missing = hide_pixels(task, data, 0)
    noisy = task.noise > 0
    options = RestorationOptions(device=device, random_state=0)
    canvas = Canvas.of(seen)
    plan = plan_restoration(canvas, options, noisy=noisy)
    model = fit_patches(canvas, plan)
    restored = restore_from_model(canvas, plan, model)
    times = []
    for _ in range(1 + REPETITIONS):
        began = time.perf_counter()
        refined = refine_by_groups(canvas, plan, model, restored)
        times.append(time.perf_counter() - began)
    result = image_result(canvas, plan, model, restored, refined)
    where = pixels_to_score(missing, noisy=noisy)
    before, after = (
        clipped_psnr(truth, picture, where) for picture in (result.dictionary_image, result.image)
    )
    return {
        "seconds": float(np.median(times[1:])),
        "rounds": result.n_rounds,
        "psnr": after,
        "dictionary_psnr": before,
        "note": f"{after:.2f} dB instead of {before:.2f} dB",
    }
