"""How the settings of groups were chosen, and what they give on other pictures: PSNR and coverage.

`python -m benchmarks.group_settings` restores pictures that come with scikit-image, scikit-learn and
matplotlib, with one setting of `bpfa.images.groups.plan` changed at a time; the settings were chosen by such
tables. With `--steps` it changes the number of training steps of the dictionary instead. With `--standard
FOLDER` it restores the standard pictures of a data folder, with the settings that were chosen. The dictionary
of a task is learned once and serves all settings.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib import get_data_path
from skimage import color, data, io, transform
from sklearn.datasets import load_sample_image

from benchmarks.image_tasks import middle
from bpfa import psnr
from bpfa.images.canvas import Canvas
from bpfa.images.options import RestorationOptions
from bpfa.images.pipeline import fit_patches, refine_by_groups, restore_from_model
from bpfa.images.plan import plan_restoration
from experiments import Array
from experiments.pictures import read_picture

STANDARD = ("house", "peppers", "barbara", "boat", "lena")
# Share of the observed pixels, and deviation of the noise.
TASKS = ((0.2, 0.0), (0.1, 0.0), (0.5, 15.0), (1.0, 15.0), (1.0, 25.0), (1.0, 50.0))
CHANGES = (
    {},
    {"distance_weight": 4e-4},
    {"n_members": 30},
    {"n_members": 60},
    {"reach": 25},
    {"n_iterations": 2},
    {"n_iterations": 4},
    {"floor_share": 0.002},
    {"floor_share": 0.01},
    {"size": (6, 6), "next_sizes": ()},
    {"size": (8, 8), "next_sizes": ()},
    {"ahead": 0.0},
    {"ahead": 0.8},
)


def bundled_pictures() -> dict[str, Array]:
    """Return grey pictures of at most 256 x 256 pixels that come with Python packages."""
    halves = {"camera": data.camera(), "astronaut": 255 * color.rgb2gray(data.astronaut())}
    others = {
        "china": load_sample_image("china.jpg"),
        "flower": halved(load_sample_image("flower.jpg")[:426]),
        "rocket": data.rocket(),
        "motorcycle": halved(io.imread(Path(data.__file__).parent / "motorcycle_left.png")[:500, :740]),
        "hopper": halved(io.imread(get_data_path() + "/sample_data/grace_hopper.jpg")[:606, :512]),
    }
    cut = {"brick": data.brick(), "grass": data.grass(), "coins": data.coins()}
    # Flat pictures, for how wide intervals are.
    cut |= {"cell": data.cell(), "clock_motion": data.clock()}
    return {
        **{
            name: np.rint(transform.downscale_local_mean(image.astype(float), (2, 2)))
            for name, image in halves.items()
        },
        **{name: middle(np.rint(255 * color.rgb2gray(image)), 256) for name, image in others.items()},
        **{name: image[20:276, 60:316].astype(float) for name, image in cut.items()},
    }


def halved(picture: Array) -> Array:
    """Return a colour picture at half its size, with the values of its type."""
    return np.rint(transform.downscale_local_mean(picture.astype(float), (2, 2, 1))).astype(np.uint8)


def compare(
    name: str,
    truth: Array,
    observed: float,
    noise: float,
    changes: tuple[dict, ...],
    steps: int | None,
    device: str,
) -> None:
    """Print a line for the dictionary, and one for each setting of the groups."""
    rng = np.random.default_rng(0)
    missing = rng.random(truth.shape) >= observed
    seen = np.where(missing, np.nan, truth + noise * rng.standard_normal(truth.shape))
    scored = missing if noise == 0 else np.ones_like(missing)
    canvas = Canvas.of(seen)
    options = RestorationOptions(random_state=0, max_steps=steps, device=device)
    plan = plan_restoration(canvas, options, noisy=noise > 0)
    start = time.perf_counter()
    model = fit_patches(canvas, plan)
    dictionary = restore_from_model(canvas, plan, model)
    seconds = time.perf_counter() - start

    def tell(what: str, restored, seconds: float) -> None:
        image = np.clip(canvas.in_picture_shape(restored.mean * canvas.scale + canvas.mean), 0, 255)
        std = canvas.deviation(restored.std)
        covered = (np.abs(image - truth) < 1.96 * std)[scored].mean()
        task, decibels = f"{name:10} {observed:4.0%} + {noise:2.0f}", psnr(truth, image, scored)
        print(
            f"{task} {what:28} {decibels:6.2f} dB {covered:6.1%} {seconds:6.1f} s",
            flush=True,
        )

    tell(f"dictionary, {model.n_steps_} steps", dictionary, seconds)
    for change in changes:
        changed = replace(plan, groups=replace(plan.groups, **change))
        start = time.perf_counter()
        refined = refine_by_groups(canvas, changed, model, dictionary)
        what = ", ".join(f"{key} {value}" for key, value in change.items()) or "groups"
        tell(what, refined.restored, time.perf_counter() - start)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--standard", type=Path, metavar="FOLDER", help="folder with images/house.png, ...")
    parser.add_argument("--tasks", type=int, nargs="*", default=range(len(TASKS)), help="which of the tasks")
    parser.add_argument("--pictures", nargs="*", help="which of the pictures")
    parser.add_argument(
        "--steps", type=int, nargs="*", help="numbers of training steps to compare, instead of settings"
    )
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    changes = ({},) if given.steps or given.standard else CHANGES
    if given.standard is None:
        pictures = bundled_pictures()
    else:
        pictures = {name: read_picture(name, given.standard) for name in STANDARD}
    for task in given.tasks:
        for name in given.pictures or pictures:
            for steps in given.steps or (None,):
                compare(name, pictures[name], *TASKS[task], changes, steps, given.device)


if __name__ == "__main__":
    main()
