"""How well pictures are restored, compared with interpolation: `python -m benchmarks.images`.

Standard grey pictures with 20 % of the pixels observed, scored over the *missing* pixels; and with 50 % of
the pixels observed and noise of 15 grey levels, scored over *all* pixels. The table shows the PSNR in dB; the
JSON file has it over missing, observed and all pixels.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from skimage.restoration import inpaint_biharmonic

from benchmarks.command import parser_with_data, screen_table
from benchmarks.pages import SECTIONS
from bpfa.images import denoise, inpaint
from experiments.cells import write_results
from experiments.markdown import table
from experiments.pictures import HiddenPicture, PictureTask, hide_pixels, interpolated, psnrs
from experiments.scores import coverage

PICTURES = ("house", "peppers", "lena", "barbara", "boat")
HEADINGS = (
    "",
    "bpfa",
    "95 % covers",
    "noise",
    "seconds",
    "quick",
    "s",
    "cubic",
    "s",
    "linear",
    "biharmonic",
    "s",
)
# Settings that come within 0.2 dB of the defaults.
QUICK = {"max_steps": 250, "n_draws": 4}
TASKS = [PictureTask(name, *kind) for kind in ((0.2, 0.0), (0.5, 15.0)) for name in PICTURES]


def main() -> None:
    arguments = parse()
    console = Console(width=150)
    results: dict[str, Any] = {
        "settings": {
            "seed": arguments.seed,
            "threads": arguments.threads,
            "quick": QUICK,
            "python": platform.python_version(),
        },
        "rows": [],
    }
    shown = screen_table("PSNR in dB: over missing pixels, or over all where there is noise", HEADINGS)
    for task in TASKS:
        if task.picture not in arguments.pictures or task.observed not in arguments.observed:
            continue
        if line := task.file.missing_from(arguments.data):
            console.print(line)
            continue
        result = row(task, arguments)
        results["rows"].append(result)
        shown.add_row(*cells(result))
        console.print(*cells(result), highlight=False)
        # Written after every picture, as each can take minutes.
        write_results(arguments.output, results)
    console.print(shown)
    console.print(f"numbers in {arguments.output}")


def parse() -> argparse.Namespace:
    parser = parser_with_data(__doc__)
    parser.add_argument("--pictures", nargs="+", choices=PICTURES, default=list(PICTURES))
    parser.add_argument("--observed", type=float, nargs="+", choices=(0.2, 0.5), default=[0.2, 0.5])
    parser.add_argument(
        "--without-biharmonic", action="store_true", help="leave out a method that takes minutes per picture"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=SECTIONS["images"].results)
    return parser.parse_args()


def row(task: PictureTask, arguments: argparse.Namespace) -> dict[str, Any]:
    """Restore the picture of a task by every contestant, and score the results."""
    picture = hide_pixels(task, arguments.data, arguments.seed)
    result: dict[str, Any] = task._asdict()
    for name, work in contestants(task, picture, arguments).items():
        began = time.perf_counter()
        answer = work()
        seconds = time.perf_counter() - began
        by_bpfa = not isinstance(answer, np.ndarray)
        image = answer.image if by_bpfa else answer
        found = psnrs(picture.truth, image, picture.missing)
        result[name] = {f"psnr_{kind}": value for kind, value in found.items()} | {"seconds": seconds}
        if by_bpfa:
            error = (picture.truth - answer.image)[picture.missing]
            result[name] |= {
                "coverage": coverage(error, answer.std[picture.missing]),
                "noise_std": answer.noise_std,
                "steps": answer.model.n_steps_,
                "training_seconds": float(answer.history["seconds"][-1]),
                "features": answer.model.n_components_used_,
            }
    return result


def contestants(
    task: PictureTask, picture: HiddenPicture, arguments: argparse.Namespace
) -> dict[str, Callable[[], Any]]:
    """Return name -> a function that restores the picture."""
    restored = denoise if task.noise else inpaint
    _, seen, missing = picture
    given = {"random_state": arguments.seed, "n_jobs": arguments.threads}
    found: dict[str, Callable[[], Any]] = {
        "bpfa": lambda: restored(seen, **given),
        "quick": lambda: restored(seen, **given, **QUICK),
        "cubic": lambda: interpolated(seen, missing, "cubic"),
        "linear": lambda: interpolated(seen, missing, "linear"),
    }
    if not arguments.without_biharmonic:
        found["biharmonic"] = lambda: inpaint_biharmonic(np.nan_to_num(seen) / 255, missing) * 255
    return found


def cells(result: dict[str, Any]) -> list[str]:
    """Return a row of the table, for the screen and for the page."""
    task = PictureTask(result["picture"], result["observed"], result["noise"])
    over = "psnr_all" if task.noise else "psnr_missing"

    def score(name: str) -> str:
        return f"{result[name][over]:.2f}" if name in result else ""

    def seconds(name: str) -> str:
        return f"{result[name]['seconds']:.0f}" if name in result else ""

    ours = result["bpfa"]
    return [
        task.title,
        *(score("bpfa"), f"{ours['coverage']:.1%}", f"{ours['noise_std']:.1f}", seconds("bpfa")),
        *(score("quick"), seconds("quick")),
        *(score("cubic"), seconds("cubic")),
        score("linear"),
        *(score("biharmonic"), seconds("biharmonic")),
    ]


def markdown(results: dict[str, Any]) -> str:
    """Return the table of the page."""
    return table(HEADINGS, [cells(result) for result in results["rows"]])


if __name__ == "__main__":
    main()
