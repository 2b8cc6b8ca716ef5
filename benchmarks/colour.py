"""What colours tell about the lightness of a picture: `python -m benchmarks.colour`.

Colour pictures are restored once with their three channels, and once as grey pictures: from the luma of the
same observed pixels, with the same noise. Both results are compared with the luma of the original. The
pictures come with scikit-image and Matplotlib; the middle of each, 256 x 256 pixels, is used.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
from matplotlib import get_data_path
from PIL import Image

from benchmarks.image_tasks import TASKS, Task, middle
from benchmarks.pages import SECTIONS
from bpfa import psnr
from bpfa.images import denoise, inpaint
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table

LUMA = np.array([0.299, 0.587, 0.114])
SIZE = 256
SCIKIT_IMAGE = Path(skimage.data.__file__).parent
PICTURES = {
    **{name: SCIKIT_IMAGE / f"{name}.png" for name in ("astronaut", "chelsea", "coffee", "ihc")},
    **{name: SCIKIT_IMAGE / f"{name}.jpg" for name in ("hubble_deep_field", "retina", "rocket")},
    "grace_hopper": Path(get_data_path()) / "sample_data" / "grace_hopper.jpg",
}
LOOKED_AT = ("astronaut", "chelsea", "coffee", "ihc", "rocket")
"""Pictures on parts of which it was chosen how groups model colours."""
CHOSEN = {name: TASKS[name] for name in ("noise-25", "observed-50-noise-15", "observed-20")}
CHOSEN["observed-50"] = Task(observed=0.5)
HEADINGS = ("", "luma alone, dB", "with colours, dB", "gain, dB")


def picture_of(name: str) -> Array:
    """Return the middle of a colour picture."""
    with Image.open(PICTURES[name]) as file:
        return middle(np.asarray(file.convert("RGB"), float), SIZE)


def damaged(picture: Array, task: Task, seed: int) -> tuple[Array, Array]:
    """Return a picture with noise and NaN where a pixel is missing, and which pixels are missing."""
    rng = np.random.default_rng(seed)
    missing = rng.random(picture.shape[:2]) >= task.observed
    seen = picture + task.noise * rng.standard_normal(picture.shape)
    return np.where(missing[..., None], np.nan, seen), missing


def compared(name: str, task: Task, options: dict[str, Any]) -> tuple[float, float]:
    """Return the PSNR of the luma that is restored alone, and of that of the colour picture."""
    picture = picture_of(name)
    seen, missing = damaged(picture, task, seed=0)
    scored = None if task.noisy else missing
    restore = denoise if task.noisy else inpaint
    alone = restore(seen @ LUMA, random_state=0, **options).image
    together = restore(seen, channel_axis=2, random_state=0, **options).image @ LUMA
    truth = picture @ LUMA
    return psnr(truth, alone, scored), psnr(truth, together, scored)


def rows_of(found: dict[str, list[float]]) -> list[list[str]]:
    """Return the rows of the table of a task: the pictures, and the mean of those that nobody looked at."""
    rows = {f"{name} \\*" if name in LOOKED_AT else name: found[name] for name in found}
    new = [found[name] for name in found if name not in LOOKED_AT]
    if new:
        rows[f"mean of {len(new)} pictures"] = list(np.mean(new, axis=0))
    return [
        [name, f"{alone:.2f}", f"{together:.2f}", f"{together - alone:+.2f}"]
        for name, (alone, together) in rows.items()
    ]


def markdown(results: dict[str, dict[str, list[float]]]) -> str:
    """Return a table for each task."""
    parts = [
        f"**{CHOSEN[name].title}** ({CHOSEN[name].scored})\n\n{table(HEADINGS, rows_of(found))}"
        for name, found in results.items()
    ]
    return "\n\n".join(parts)


def main() -> None:
    """Restore every picture in every task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help='where bpfa computes, for example "cuda"')
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pictures", nargs="+", choices=PICTURES, default=list(PICTURES))
    parser.add_argument("--tasks", nargs="+", choices=CHOSEN, default=list(CHOSEN))
    parser.add_argument("--output", type=Path, default=SECTIONS["colour"].results, help="the results")
    given = parser.parse_args()
    options = {"device": given.device, "n_jobs": given.threads}
    results: dict[str, dict[str, list[float]]] = {}
    for task_name in given.tasks:
        task, results[task_name] = CHOSEN[task_name], {}
        for name in given.pictures:
            alone, together = compared(name, task, options)
            results[task_name][name] = [alone, together]
            print(f"{task.title}  {name}  {alone:.2f} dB  {together:.2f} dB", flush=True)
            write_results(given.output, results)
    print(markdown(results))


if __name__ == "__main__":
    main()
