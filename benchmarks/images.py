"""How well pictures are restored, compared with what people use instead: `python -m benchmarks.images`.

Every contestant restores every picture in every task. Each result is stored as soon as it is there, so that
a run that was stopped goes on where it was; `--fresh` runs stored ones again. The PSNR and the coverage of
intervals are taken over the missing pixels where there is no noise, and over all pixels where there is; the
JSON file has the PSNR over missing, observed and all pixels. Trials on crops (`--size`) or with another
number of training steps (`--steps`) have files of their own, which do not get onto the page.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from skimage.metrics import structural_similarity
from threadpoolctl import threadpool_limits

from benchmarks.command import parser_with_data
from benchmarks.image_contestants import CONTESTANTS, Effort, Restored
from benchmarks.image_page import markdown
from benchmarks.image_tasks import PICTURES, TASKS, DamagedPicture, damaged_picture, picture_file
from benchmarks.pages import SECTIONS
from experiments.cells import Cell, Context, Store
from experiments.pictures import psnrs
from experiments.runs import run_and_report
from experiments.scores import coverage

LEVELS = (0.8, 0.95, 0.99)
"""The intervals whose coverage is measured."""


def main() -> None:
    arguments = parse()
    console = Console(highlight=False, soft_wrap=True)
    output = arguments.output or results_file(arguments.size, arguments.steps)
    store = Store(output)
    # Records of pictures, tasks and contestants that are not asked for this time are kept.
    store.plan([cell.name for cell in cells(PICTURES, TASKS, CONTESTANTS, arguments)])
    failed = run_and_report(
        "images",
        cells(arguments.pictures, arguments.tasks, available(arguments.contestants, console), arguments),
        run,
        store,
        Context(arguments.data.resolve(), output.parent),
        console,
        jobs=1,
        force=arguments.fresh,
    )
    console.print(markdown(list(store.records.values())), markup=False)
    console.print(f"numbers in {output}")
    if failed:
        raise SystemExit(f"{failed} cells failed")


def parse() -> argparse.Namespace:
    parser = parser_with_data(__doc__)
    parser.add_argument("--pictures", nargs="+", choices=PICTURES, default=list(PICTURES))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--size", type=int, help="side of the square that is cut out of each picture")
    parser.add_argument("--steps", type=int, help="training steps of bpfa (default: its own)")
    parser.add_argument("--fresh", action="store_true", help="run again what is already stored")
    parser.add_argument("--device", default="cpu", help='where bpfa computes, for example "cuda"')
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="the file of the results")
    return parser.parse_args()


def results_file(size: int | None, steps: int | None) -> Path:
    """Return the file of the results; only that of whole pictures and default steps gets onto the page.

    Examples
    --------
    >>> results_file(96, None).name, results_file(None, 50).name
    ('pictures-size96.json', 'pictures-steps50.json')
    """
    whole = SECTIONS["images"].results
    trial = {"size": size, "steps": steps}
    named = [f"-{name}{value}" for name, value in trial.items() if value is not None]
    return whole.with_stem("".join([whole.stem, *named]))


def available(names: list[str], console: Console) -> list[str]:
    """Return the contestants whose packages are installed, and print one line for each of the others."""
    for name in names:
        if reason := CONTESTANTS[name].unavailable:
            console.print(f"left out: {name}, because {reason}", markup=False)
    return [name for name in names if not CONTESTANTS[name].unavailable]


def cells(pictures: Any, tasks: Any, contestants: Any, arguments: argparse.Namespace) -> list[Cell]:
    """Return one cell for each contestant, task and picture."""
    given = {name: getattr(arguments, name) for name in ("size", "steps", "device", "threads", "seed")}
    return [
        Cell(
            f"{task}/{picture}/{name}",
            {"task": task, "picture": picture, "contestant": name, **given},
            expected=60.0,
            needs=picture_file(picture),
        )
        for task in tasks
        for picture in pictures
        for name in contestants
        if CONTESTANTS[name].takes(TASKS[task])
    ]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Restore a picture by one contestant, and score the result."""
    task, threads = TASKS[settings["task"]], settings["threads"]
    picture = damaged_picture(
        settings["picture"], task, context.data, seed=settings["seed"], size=settings["size"]
    )
    contestant = CONTESTANTS[settings["contestant"]]
    with threadpool_limits(threads):
        began = time.perf_counter()
        effort = Effort(threads, settings["seed"], settings["steps"], settings["device"])
        answer = contestant.restore(picture, effort)
        seconds = time.perf_counter() - began
    found = {**scores(picture, answer), "seconds": seconds, "told": contestant.told}
    return found if isinstance(answer, np.ndarray) else found | {"device": settings["device"]}


def scores(picture: DamagedPicture, answer: Restored) -> dict[str, Any]:
    """Return PSNR and SSIM, and for bpfa the coverage of its intervals and the noise that it found."""
    image = answer if isinstance(answer, np.ndarray) else answer.image
    found = psnrs(picture.truth, image, picture.missing)
    result: dict[str, Any] = {f"psnr_{kind}": value for kind, value in found.items()}
    result["psnr"] = found["all" if picture.task.noisy else "missing"]
    # The settings of the paper that introduced SSIM (Wang et al., 2004).
    result["ssim"] = float(
        structural_similarity(
            picture.truth,
            np.clip(image, 0, 255),
            data_range=255,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
    )
    if isinstance(answer, np.ndarray):
        return result
    error = (picture.truth - answer.image)[picture.scored]
    return result | {
        "coverage": {f"{level:g}": coverage(error, answer.std[picture.scored], level) for level in LEVELS},
        "noise_std": float(answer.noise_std),
        "steps": answer.model.n_steps_,
        "features": answer.model.n_components_used_,
        "stage": answer.stage,
        "rounds": answer.n_rounds,
        "group_weight": answer.group_weight,
    }


if __name__ == "__main__":
    main()
