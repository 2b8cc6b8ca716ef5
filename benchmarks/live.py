"""Frames of a live scan, one after another: `python -m benchmarks.live`.

A `FrameRestorer` restores frames of which a tenth, a fifth or half of the pixels are scanned, with another
random mask each: ten of a still scene, then ten of another scene after a cut, and ten of a scene that drifts
by a pixel a frame. Scenes are pictures of scikit-image, mirrored at their borders where a frame is larger.
For each size and dose it prints how long a frame takes with a kept dictionary and while learning, and how far
the frames are from a fit from nothing to the same frame, with patches of the same size and the usual number
of draws.

The results are stored by device: run it once with `--device cuda` and once with `--device cpu`, which
confines itself to two processors. What is measured is stored at once, and so is the model of the first frame
of every row, so that a run that was stopped goes on: `--minutes` stops it by itself, `--only times` and
`--only scores` measure one half of all rows, and `--again` measures anew what is stored already.
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
KINDS = "still", "drift", "cut"
SCENES = "camera", "brick"
"""The scene, and the one that follows after a cut."""
PARTS = "times", "scores"


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
    """Yield the frames of a scene that stays, of one that drifts, or of the other one after a cut."""
    for number in range(N_FRAMES):
        truth = scene(SCENES[kind == "cut"], size, number if kind == "drift" else 0)
        yield Frame(truth, masks.random((size, size), dose, seed=number + N_FRAMES * (kind == "cut")))


def quality(frame: Frame, result: ImageResult) -> dict[str, float]:
    """Return the PSNR of missing pixels in dB, and the share of them that 95 % intervals cover."""
    missing = result.missing
    errors = np.abs(result.image - frame.truth)[missing]
    covered = float((errors < 1.96 * result.std[missing]).mean())
    return {"psnr": psnr(frame.truth, result.image, missing), "covered": covered}


class Row:
    """The measurements of frames of one size and dose.

    All of them begin with the model of the first frame, which is fitted once and kept in a file.
    """

    def __init__(self, size: int, dose: float, options: dict[str, Any], *, again: bool) -> None:
        self.size, self.dose, self.options = size, dose, options
        self.path = RESULTS.parent / "live" / f"{options['device']}-{size}-{round(100 * dose)}.bpfa"
        if again:
            self.path.unlink(missing_ok=True)

    def model(self) -> BPFA:
        """Return the model of the first frame of a still scene."""
        if not self.path.exists():
            first = next(frames("still", self.size, self.dose))
            result = FrameRestorer(random_state=0, **self.options).restore(first.truth, first.scan)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            result.model.save(self.path)
        return BPFA.load(self.path)

    def times(self) -> dict[str, list[float]]:
        """Return how many milliseconds some frames took, sorted."""
        return {"kept": self._milliseconds(learn=0), "learning": self._milliseconds()}

    def _milliseconds(self, **own: Any) -> list[float]:
        restorer = FrameRestorer(self.model(), **own, **self.options)
        scanned = list(frames("still", self.size, self.dose))
        found = []
        n_timed = N_TIMED_ON_CPU if self.options["device"] == "cpu" else N_TIMED
        for number in range(n_timed + N_BEFORE):
            frame = scanned[number % len(scanned)]
            began = time.perf_counter()
            restorer.restore(frame.truth, frame.scan.missing)
            found.append(1e3 * (time.perf_counter() - began))
        return sorted(found[N_BEFORE:])

    def scores(self) -> dict[str, Any]:
        """Return the qualities of all frames, and of fits from nothing to the last frame of each scene."""
        found: dict[str, Any] = {}
        restorer = FrameRestorer(self.model(), **self.options)
        for kind in KINDS:
            # The cut comes after the still scene; the drift begins where that began.
            own = FrameRestorer(self.model(), **self.options) if kind == "drift" else restorer
            course = []
            for frame in frames(kind, self.size, self.dose):
                result = own.restore(frame.truth, frame.scan)
                course.append(quality(frame, result))
            new = inpaint(
                frame.truth,
                frame.scan,
                patch_size=result.patch_size,
                refine=None,
                random_state=0,
                **self.options,
            )
            found[kind] = {"frames": course, "new": quality(frame, new), "n_changes": own.n_changes}
        return found


def rows_of(results: dict[str, Any]) -> list[list[str]]:
    """Return a row for each device, size and dose."""
    rows = []
    for device, found in results.items():
        for size in SIZES:
            for dose in DOSES:
                one = found["rows"].get(name_of(size, dose), {})
                if one:
                    rows.append([device, *name_of(size, dose).split(" at "), *_times(one), *_scores(one)])
    return rows


def _times(row: dict[str, Any]) -> list[str]:
    times = row.get("times", {})
    return [f"{np.median(times[name]):.1f}" if times else "" for name in ("kept", "learning")]


def _scores(row: dict[str, Any]) -> list[str]:
    scores = row.get("scores")
    if scores is None:
        return [""] * (len(KINDS) + 1)
    found = []
    for kind in KINDS:
        last, new = scores[kind]["frames"][-1], scores[kind]["new"]
        found.append(f"{last['psnr']:.2f} ({last['psnr'] - new['psnr']:+.2f})")
    covered = [frame["covered"] for kind in KINDS for frame in scores[kind]["frames"]]
    return [*found, f"{100 * min(covered):.1f}-{100 * max(covered):.1f}"]


def name_of(size: int, dose: float) -> str:
    """Return the name of a row."""
    return f"{size} x {size} at {100 * dose:.0f} %"


def markdown(results: dict[str, Any]) -> str:
    """Return the results as a table."""
    machines = "; ".join(f"{device}: {found['machine']}" for device, found in results.items())
    headings = ["device", "pixels", "scanned", "kept, ms", "learning, ms", "still, dB", "drift, dB"]
    headings += ["after a cut, dB", "covered, %"]
    return f"{table(headings, rows_of(results))}\n\n{machines}."


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--doses", type=float, nargs="+", default=DOSES, choices=DOSES)
    parser.add_argument("--only", choices=PARTS, help="measure nothing else")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin nothing new after that time")
    parser.add_argument("--again", action="store_true", help="measure anew what is stored already")
    return parser.parse_args()


def main() -> None:
    given, began = arguments(), time.monotonic()
    device = check_device(given.device)
    options: dict[str, Any] = {"device": device}
    if device == "cpu":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        options["n_jobs"] = 2
    described = machine() if device == "cpu" else backend_of(device).description().split(";")[0]
    parts = PARTS if given.only is None else (given.only,)
    for size in given.sizes:
        for dose in given.doses:
            name, row = name_of(size, dose), Row(size, dose, options, again=given.again)
            for part in parts:
                if part in stored_rows(device).get(name, {}) and not given.again:
                    continue
                if time.monotonic() - began > 60 * given.minutes:
                    print("The time is up; the same command goes on here.")
                    return
                found = store(device, described, name, part, getattr(row, part)())
                print(device, name, *_times(found), *_scores(found), sep="  ", flush=True)


def stored_rows(device: str) -> dict[str, dict[str, Any]]:
    """Return what is stored of a device."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    found: dict[str, dict[str, Any]] = results.get(device, {}).get("rows", {})
    return found


def store(device: str, described: str, name: str, part: str, found: Any) -> dict[str, Any]:
    """Add a part of a row to the results, and return the row; another run may have added to them since."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows = stored_rows(device)
    row = rows.setdefault(name, {}) | {part: found}
    results[device] = {"machine": described, "rows": rows | {name: row}}
    write_results(RESULTS, results)
    return row


if __name__ == "__main__":
    main()
