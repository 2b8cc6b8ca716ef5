"""How well pictures are restored, beside interpolation: `python -m benchmarks.images`.

Standard grey pictures, with 20 % of the pixels observed, scored over the *missing* pixels; and with 50 %
observed and noise of 15 grey levels, scored over *all* pixels. PSNR in dB; all kinds of it are in the JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np
from imageio.v3 import imread
from rich.console import Console
from rich.table import Table
from scipy.interpolate import griddata
from skimage.restoration import inpaint_biharmonic

import bpfa
from benchmarks import readme
from bpfa.images import denoise, inpaint

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
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
# What suffices for a picture within 0.2 dB.
QUICK = {"max_steps": 250, "n_draws": 4}


class Task(NamedTuple):
    """A picture, the share of its pixels that is observed, and the noise on them."""

    picture: str
    observed: float
    noise: float

    @property
    def title(self) -> str:
        """As in the table."""
        noise = f" + noise {self.noise:g}" if self.noise else ""
        return f"{self.picture.capitalize()}, {self.observed:.0%}{noise}"


TASKS = [Task(name, *kind) for kind in ((0.2, 0.0), (0.5, 15.0)) for name in PICTURES]


def main() -> None:
    arguments = parse()
    console = Console(width=150)
    results: dict = {
        "settings": {
            "seed": arguments.seed,
            "threads": arguments.threads,
            "quick": QUICK,
            "python": platform.python_version(),
        },
        "rows": [],
    }
    table = Table(
        title="PSNR in dB: over missing pixels, or over all where there is noise", title_justify="left"
    )
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading else "left")
    for task in TASKS:
        if task.picture not in arguments.pictures or task.observed not in arguments.observed:
            continue
        if not (file := arguments.data / "images" / f"{task.picture}.png").exists():
            console.print(f"{file} is not there: the standard picture, from the BM3D authors' image set")
            continue
        result = row(task, arguments)
        results["rows"].append(result)
        table.add_row(*cells(result))
        console.print(*cells(result), highlight=False)
        # After every picture, as one may run for long.
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    console.print(table)
    console.print(f"numbers in {arguments.output}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="data folder")
    parser.add_argument("--pictures", nargs="+", choices=PICTURES, default=list(PICTURES))
    parser.add_argument("--observed", type=float, nargs="+", choices=(0.2, 0.5), default=[0.2, 0.5])
    parser.add_argument("--without-biharmonic", action="store_true", help="which takes minutes a picture")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results" / "images.json")
    return parser.parse_args()


def hidden(task: Task, data: Path, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The picture, what is seen of it, and what is missing."""
    truth = imread(data / "images" / f"{task.picture}.png").astype(float)
    rng = np.random.default_rng(seed)
    missing = rng.random(truth.shape) >= task.observed
    seen = truth + task.noise * rng.standard_normal(truth.shape)
    return truth, np.where(missing, np.nan, seen), missing


def observed_psnr(truth: np.ndarray, restored: np.ndarray, where: np.ndarray) -> float:
    """PSNR of a picture of 8 bits."""
    return bpfa.psnr(truth, np.clip(restored, 0, 255), where)


def row(task: Task, arguments: argparse.Namespace) -> dict:
    truth, seen, missing = hidden(task, arguments.data, arguments.seed)
    restored = denoise if task.noise else inpaint
    ways: dict[str, Callable] = {
        "bpfa": lambda: restored(seen, random_state=arguments.seed, n_jobs=arguments.threads),
        "quick": lambda: restored(seen, random_state=arguments.seed, n_jobs=arguments.threads, **QUICK),
        "cubic": lambda: interpolated(seen, missing, "cubic"),
        "linear": lambda: interpolated(seen, missing, "linear"),
    }
    if not arguments.without_biharmonic:
        ways["biharmonic"] = lambda: inpaint_biharmonic(np.nan_to_num(seen) / 255, missing) * 255
    result: dict = {"picture": task.picture, "observed": task.observed, "noise": task.noise}
    for name, way in ways.items():
        began = time.perf_counter()
        answer = way()
        seconds = time.perf_counter() - began
        image = answer if isinstance(answer, np.ndarray) else answer.image
        everywhere = np.ones_like(missing)
        scored = {"missing": missing, "all": everywhere, "observed": ~missing}
        # Interpolation leaves observed pixels as they are; JSON has no infinity.
        psnrs = {over: observed_psnr(truth, image, where) for over, where in scored.items()}
        result[name] = {f"psnr_{over}": psnr if isfinite(psnr) else None for over, psnr in psnrs.items()}
        result[name]["seconds"] = seconds
        if not isinstance(answer, np.ndarray):
            inside = np.abs(truth - answer.image) < 1.959964 * answer.std
            result[name] |= {
                "coverage": float(inside[missing].mean()),
                "noise_std": answer.noise_std,
                "steps": answer.model.n_steps_,
                "training_seconds": float(answer.history["seconds"][-1]),
                "features": answer.model.n_components_used_,
            }
    return result


def interpolated(seen: np.ndarray, missing: np.ndarray, kind: str) -> np.ndarray:
    """SciPy's interpolation of scattered points, the nearest one outside of their hull."""
    points, places = np.argwhere(~missing), np.argwhere(missing)
    values = griddata(points, seen[~missing], places, method=kind)
    nearest = griddata(points, seen[~missing], places, method="nearest")
    filled = seen.copy()
    filled[missing] = np.where(np.isnan(values), nearest, values)
    return filled


def cells(result: dict) -> list[str]:
    """A row of the table, for the screen and for the page."""
    task = Task(result["picture"], result["observed"], result["noise"])
    over = "psnr_all" if task.noise else "psnr_missing"
    ours = result["bpfa"]
    line = [task.title, f"{ours[over]:.2f}", f"{ours['coverage']:.1%}", f"{ours['noise_std']:.1f}"]
    line += [f"{ours['seconds']:.0f}", f"{result['quick'][over]:.2f}", f"{result['quick']['seconds']:.0f}"]
    line += [
        f"{result['cubic'][over]:.2f}",
        f"{result['cubic']['seconds']:.0f}",
        f"{result['linear'][over]:.2f}",
    ]
    if "biharmonic" not in result:
        return [*line, "", ""]
    return [*line, f"{result['biharmonic'][over]:.2f}", f"{result['biharmonic']['seconds']:.0f}"]


def markdown(results: dict) -> str:
    """The table of the page."""
    return readme.table(list(HEADINGS), [cells(result) for result in results["rows"]])


if __name__ == "__main__":
    main()
