"""Frames of a live scan, one after another: `python -m benchmarks.live`.

A `FrameRestorer` restores frames of which a tenth, a fifth or half of the pixels are scanned, with another
random mask each: ten of a still scene, then ten of another scene after a cut, and ten of a scene that drifts
by a pixel a frame. Scenes are pictures of scikit-image, mirrored at their borders where a frame is larger.
For each size and dose it prints how long a frame takes with a kept dictionary and while learning, the PSNR
after each frame, and that of a fit from nothing to the last frame, with patches of the same size and the
usual number of draws.

A GPU and the CPU have a file of results and a section of the page each: run it once with `--device cuda` and
once with `--device cpu`, which confines itself to two processors. What is measured is stored at once, and so
is the model of the first frame of every row, so that a run that was stopped goes on: `--minutes` stops it by
itself, `--only times`, `--only scores` and `--only fits` measure a part of all rows, and `--again` measures
anew what is stored already. Where frames are slow, `--frames` has fewer of each scene.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pages import SECTIONS
from bpfa import BPFA, inpaint, psnr
from bpfa.backends.registry import backend_of, check_device
from bpfa.images import FrameRestorer, ImageResult, masks
from bpfa.images.kept import PictureForm
from experiments import Array
from experiments.cells import write_results
from experiments.machine import machine
from experiments.markdown import table

SIZES, DOSES = (256, 512, 1024), (0.1, 0.2, 0.5)
# Frames of each scene; frames that are timed, and frames before these, on a GPU and on the CPU.
N_FRAMES = 10
TIMED = {"cuda": (20, 3), "cpu": (3, 1)}
KINDS = "still", "drift", "cut"
SCENES = "camera", "brick"
"""The scene, and the one that follows after a cut."""
PARTS = "times", "scores", "fits"


def results_of(device: str) -> Path:
    """Return the file of the results of a device."""
    return SECTIONS[f"live_{device}"].results


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


def frames(kind: str, size: int, dose: float, n_frames: int = N_FRAMES) -> Iterator[Frame]:
    """Yield the frames of a scene that stays, of one that drifts, or of the other one after a cut."""
    for number in range(n_frames):
        truth = scene(SCENES[kind == "cut"], size, number if kind == "drift" else 0)
        yield Frame(truth, masks.random((size, size), dose, seed=number + N_FRAMES * (kind == "cut")))


class Quality(NamedTuple):
    """How good a frame is."""

    psnr: float
    """PSNR of its missing pixels, in dB."""
    covered: float
    """The share of them that 95 % intervals cover."""


def quality(frame: Frame, result: ImageResult) -> Quality:
    """Return how good a restored frame is."""
    missing = result.missing
    errors = np.abs(result.image - frame.truth)[missing]
    covered = float((errors < 1.96 * result.std[missing]).mean())
    return Quality(psnr(frame.truth, result.image, missing), covered)


class Row:
    """The measurements of frames of one size and dose.

    All of them begin with the model of the first frame, which is fitted once and kept in a file.
    """

    def __init__(
        self,
        size: int,
        dose: float,
        options: dict[str, Any],
        *,
        n_frames: int = N_FRAMES,
        again: bool = False,
    ) -> None:
        self.size, self.dose, self.options, self.n_frames = size, dose, options, n_frames
        folder = results_of(options["device"]).parent / "live"
        self.path = folder / f"{options['device']}-{size}-{round(100 * dose)}.bpfa"
        if again:
            self.path.unlink(missing_ok=True)

    def model(self) -> BPFA:
        """Return the model of the first frame of a still scene."""
        if not self.path.exists():
            first = next(self._frames("still"))
            result = FrameRestorer(random_state=0, **self.options).restore(first.truth, first.scan)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            result.model.save(self.path)
        return BPFA.load(self.path)

    def times(self) -> dict[str, list[float]]:
        """Return how many milliseconds some frames took, sorted."""
        return {"kept": self._milliseconds(learn=0), "learning": self._milliseconds()}

    def _milliseconds(self, **own: Any) -> list[float]:
        restorer = FrameRestorer(self.model(), **own, **self.options)
        scanned = list(self._frames("still"))
        found = []
        n_timed, n_before = TIMED[self.options["device"]]
        for number in range(n_timed + n_before):
            frame = scanned[number % len(scanned)]
            began = time.perf_counter()
            restorer.restore(frame.truth, frame.scan.missing)
            found.append(1e3 * (time.perf_counter() - began))
        return sorted(found[n_before:])

    def scores(self) -> dict[str, Any]:
        """Return the qualities of all frames of all scenes."""
        found: dict[str, Any] = {}
        restorer = FrameRestorer(self.model(), **self.options)
        for kind in KINDS:
            # The cut comes after the still scene; the drift begins where that began.
            own = FrameRestorer(self.model(), **self.options) if kind == "drift" else restorer
            course = [
                quality(frame, own.restore(frame.truth, frame.scan))._asdict() for frame in self._frames(kind)
            ]
            found[kind] = {"frames": course, "n_changes": own.n_changes}
        return found

    def fits(self) -> dict[str, Any]:
        """Return the qualities of fits from nothing to the last frame of each scene, and its number."""
        found: dict[str, Any] = {}
        patch_size = PictureForm.of_model(self.model()).patch_size
        for kind in KINDS:
            *_, frame = self._frames(kind)
            new = inpaint(
                frame.truth, frame.scan, patch_size=patch_size, refine=None, random_state=0, **self.options
            )
            found[kind] = {"frame": self.n_frames, **quality(frame, new)._asdict()}
        return found

    def _frames(self, kind: str) -> Iterator[Frame]:
        return frames(kind, self.size, self.dose, self.n_frames)


def times_of(results: dict[str, Any]) -> list[list[str]]:
    """Return a row of a table for each size and dose whose frames were timed."""
    rows = []
    for name, row in _measured(results, "times"):
        kept, learning = (float(np.median(row["times"][how])) for how in ("kept", "learning"))
        rates = f"{1e3 / kept:.3g}", f"{1e3 / learning:.3g}"
        rows.append([*name.split(" at "), f"{kept:.1f}", rates[0], f"{learning:.1f}", rates[1]])
    return rows


def scores_of(results: dict[str, Any]) -> list[list[str]]:
    """Return a row of a table for each size, dose and scene: PSNR after each frame, and the coverage."""
    rows = []
    for name, row in _measured(results, "scores"):
        for kind in KINDS:
            course = row["scores"][kind]["frames"]
            found = [f"{frame['psnr']:.2f}" for frame in course] + [""] * (N_FRAMES - len(course))
            new = row.get("fits", {}).get(kind)
            # A fit to another frame than the last one has other pixels to predict.
            comparable = new is not None and new["frame"] == len(course)
            covered = [100 * frame["covered"] for frame in course]
            rows.append(
                [
                    *name.split(" at "),
                    kind,
                    *found,
                    f"{course[-1]['psnr'] - new['psnr']:+.2f}" if comparable else "",
                    f"{min(covered):.1f}-{max(covered):.1f}",
                ]
            )
    return rows


def _measured(results: dict[str, Any], part: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and results of the rows of which a part was measured, in their order."""
    for name in (name_of(size, dose) for size in SIZES for dose in DOSES):
        row = results["rows"].get(name, {})
        if part in row:
            yield name, row


def name_of(size: int, dose: float) -> str:
    """Return the name of a row."""
    return f"{size} x {size} at {100 * dose:.0f} %"


def markdown(results: dict[str, Any]) -> str:
    """Return the results of a device as two tables."""
    times = ["pixels", "scanned", "kept, ms", "a second", "learning, ms", "a second"]
    scores = ["pixels", "scanned", "scene", *(f"{n + 1}" for n in range(N_FRAMES)), "against a fit, dB"]
    tables = table(times, times_of(results)), table([*scores, "covered, %"], scores_of(results))
    return "\n\n".join((*tables, f"{results['machine']}."))


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--doses", type=float, nargs="+", default=DOSES, choices=DOSES)
    parser.add_argument("--only", choices=PARTS, help="measure nothing else")
    parser.add_argument(
        "--frames", type=int, default=N_FRAMES, choices=range(1, N_FRAMES + 1), help="of each scene"
    )
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin nothing new after that time")
    parser.add_argument("--again", action="store_true", help="measure anew what is stored already")
    return parser.parse_args()


def main() -> None:
    """Measure what is asked for and not yet stored."""
    given, began = arguments(), time.monotonic()
    device = check_device(given.device)
    options: dict[str, Any] = {"device": device}
    parts = PARTS if given.only is None else (given.only,)
    if device == "cpu":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        options["n_jobs"] = len(os.sched_getaffinity(0))
        if "times" in parts and options["n_jobs"] < 2:
            raise SystemExit("one processor; expected two for times (--only scores and fits can do with one)")
    described = machine() if device == "cpu" else backend_of(device).description().split(";")[0]
    for size in given.sizes:
        for dose in given.doses:
            name = name_of(size, dose)
            row = Row(size, dose, options, n_frames=given.frames, again=given.again)
            for part in parts:
                if part in stored(device)["rows"].get(name, {}) and not given.again:
                    continue
                if time.monotonic() - began > 60 * given.minutes:
                    print("The time is up; the same command goes on here.")
                    return
                store(device, described, name, part, getattr(row, part)())
                print(device, name, part, f"{time.monotonic() - began:.0f} s", sep="  ", flush=True)
    print(markdown(stored(device)))


def stored(device: str) -> dict[str, Any]:
    """Return what is stored of a device."""
    path = results_of(device)
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    return found


def store(device: str, described: str, name: str, part: str, found: Any) -> None:
    """Add a part of a row to the results; another run may have added to them since."""
    rows = stored(device)["rows"]
    rows[name] = rows.get(name, {}) | {part: found}
    write_results(results_of(device), {"machine": described, "rows": rows})


if __name__ == "__main__":
    main()
