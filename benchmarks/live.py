"""Frames of a live scan, one after another: `python -m benchmarks.live`.

A `FrameRestorer` restores frames of which a tenth, a fifth or half of the pixels are scanned, with another
random mask each: of a still scene, of one that drifts by a pixel a frame, and of one that changes after ten
frames. Scenes are pictures of scikit-image, mirrored at their borders where a frame is larger. For each size
and dose it prints how long a frame takes with a kept dictionary and while learning, and how far the frames
are from a fit from nothing to the same frame, with patches of the same size and the usual number of draws.
The results are stored by device: run it once with `--device cuda` and once with `--device cpu`, which
confines itself to two processors.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pages import SECTIONS
from bpfa import BPFA, inpaint, psnr
from bpfa.backends.registry import backend_of, check_device
from bpfa.images import FrameRestorer, ImageResult, masks
from experiments import Array
from experiments.cells import write_results
from experiments.machine import machine
from experiments.markdown import table

RESULTS = SECTIONS["live"].results
SIZES, DOSES = (256, 512, 1024), (0.1, 0.2, 0.5)
# Frames of each scene, frames that are timed on a GPU and on the CPU, and frames before these.
N_FRAMES, N_TIMED, N_TIMED_ON_CPU, N_BEFORE = 10, 20, 5, 3
# Training steps of the model whose frames are timed, if nothing but times is asked for.
FEW_STEPS = 60
KINDS = "still", "drift", "cut"
SCENES = "camera", "brick"
"""The scene, and the one that follows after a cut."""


class Frame(NamedTuple):
    """What is scanned, and where."""

    truth: Array
    scan: masks.Scan


def scene(name: str, size: int, shift: int = 0) -> Array:
    """Return a window of a picture, this many pixels to the right; pictures are mirrored at their borders."""
    import skimage.data

    picture = getattr(skimage.data, name)().astype(np.float32)
    larger = [(0, max(0, size + 64 - n)) for n in picture.shape]
    picture = np.pad(picture, larger, mode="symmetric")
    top = (picture.shape[0] - size) // 2
    left = (picture.shape[1] - size - N_FRAMES * 2) // 2 if picture.shape[1] >= size + N_FRAMES * 2 else 0
    return np.ascontiguousarray(picture[top : top + size, left + shift : left + shift + size])


def frames(kind: str, size: int, dose: float) -> Iterator[Frame]:
    """Yield the frames of a scene that stays, drifts or changes."""
    n = 2 * N_FRAMES if kind == "cut" else N_FRAMES
    for number in range(n):
        name = SCENES[kind == "cut" and number >= N_FRAMES]
        truth = scene(name, size, number if kind == "drift" else 0)
        yield Frame(truth, masks.random((size, size), dose, seed=number))


def quality(frame: Frame, result: ImageResult) -> dict[str, float]:
    """Return the PSNR of missing pixels in dB, and the share of them that 95 % intervals cover."""
    missing = result.missing
    errors = np.abs(result.image - frame.truth)[missing]
    covered = float((errors < 1.96 * result.std[missing]).mean())
    return {"psnr": psnr(frame.truth, result.image, missing), "covered": covered}


def milliseconds(model: BPFA, size: int, dose: float, options: dict[str, Any], **own: Any) -> list[float]:
    """Return how long each of some frames took, sorted, after a few that warm up."""
    restorer = FrameRestorer(model, **own, **options)
    scanned = list(frames("still", size, dose))
    found = []
    n_timed = N_TIMED_ON_CPU if options["device"] == "cpu" else N_TIMED
    for number in range(n_timed + N_BEFORE):
        frame = scanned[number % len(scanned)]
        began = time.perf_counter()
        restorer.restore(frame.truth, frame.scan.missing)
        found.append(1e3 * (time.perf_counter() - began))
    return sorted(found[N_BEFORE:])


def timed(size: int, dose: float, options: dict[str, Any]) -> dict[str, Any]:
    """Return times of frames of one size and dose."""
    first = next(frames("still", size, dose))
    restorer = FrameRestorer(random_state=0, max_steps=FEW_STEPS, **options)
    model = restorer.restore(first.truth, first.scan).model
    return {
        "kept": milliseconds(model, size, dose, options, learn=0),
        "learning": milliseconds(model, size, dose, options),
    }


def measured(size: int, dose: float, options: dict[str, Any]) -> dict[str, Any]:
    """Return times and qualities of frames of one size and dose."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        restorer = FrameRestorer(random_state=0, **options)
        course = []
        for frame in frames(kind, size, dose):
            result = restorer.restore(frame.truth, frame.scan)
            course.append(quality(frame, result))
            if "kept" not in found and kind == "still":
                model = result.model
                found["kept"] = milliseconds(model, size, dose, options, learn=0)
                found["learning"] = milliseconds(model, size, dose, options)
        patch_size = result.patch_size
        new = inpaint(frame.truth, frame.scan, patch_size=patch_size, refine=None, random_state=0, **options)
        found[kind] = {"frames": course, "new": quality(frame, new), "patch_size": patch_size[0]}
        found[kind]["n_changes"] = restorer.n_changes
    return found


def rows_of(results: dict[str, Any]) -> list[list[str]]:
    """Return a row for each device, size and dose."""
    rows = []
    for device, found in results.items():
        for key, one in found["cells"].items():
            times = [f"{np.median(one[name]):.1f}" for name in ("kept", "learning")]
            if "still" not in one:
                rows.append([device, *key.split(" at "), *times, "", "", "", ""])
                continue
            losses = []
            for kind in KINDS:
                last, new = one[kind]["frames"][-1], one[kind]["new"]
                losses.append(f"{last['psnr']:.2f} ({last['psnr'] - new['psnr']:+.2f})")
            covered = [frame["covered"] for kind in KINDS for frame in one[kind]["frames"]]
            shares = f"{100 * min(covered):.1f}-{100 * max(covered):.1f}"
            rows.append([device, *key.split(" at "), *times, *losses, shares])
    return rows


def markdown(results: dict[str, Any]) -> str:
    """Return the results as a table."""
    machines = "; ".join(f"{device}: {found['machine']}" for device, found in results.items())
    headings = ["device", "pixels", "scanned", "kept, ms", "learning, ms", "still, dB", "drift, dB"]
    headings += ["after a cut, dB", "covered, %"]
    return f"{table(headings, rows_of(results))}\n\n{machines}."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--doses", type=float, nargs="+", default=list(DOSES))
    parser.add_argument("--times", action="store_true", help="measure nothing but times")
    arguments = parser.parse_args()
    device = check_device(arguments.device)
    options: dict[str, Any] = {"device": device}
    if device == "cpu":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        options["n_jobs"] = 2
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    cells = results.get(device, {}).get("cells", {})
    for size in arguments.sizes:
        for dose in arguments.doses:
            measure = timed if arguments.times else measured
            cells[f"{size} x {size} at {100 * dose:.0f} %"] = measure(size, dose, options)
            described = machine() if device == "cpu" else backend_of(device).description().split(";")[0]
            results[device] = {"machine": described, "cells": cells}
            print(*rows_of({device: results[device]})[-1], sep="  ", flush=True)
            write_results(RESULTS, results)


if __name__ == "__main__":
    main()
