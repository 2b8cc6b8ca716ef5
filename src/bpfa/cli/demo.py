"""bpfa demo: a photograph from a fifth of its pixels, beside what else can be done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import bpfa
from bpfa._support.optional import library
from bpfa.cli.messages import Messenger
from bpfa.cli.options import Force, Jobs, Json, Quiet, Seed, command_line
from bpfa.cli.outputs import Outputs
from bpfa.images.files import Picture, write_image

__all__ = ["demo"]

MISSING = 0.8
# Fewer than by default, so that all is done within a minute; more would not show.
STEPS = 200


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to write.")] = Path("bpfa-demo"),
    seed: Seed = 0,
    jobs: Jobs = None,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fill in a photograph, within a minute.

    Drops 80 % of its pixels, fills them in, and compares with biharmonic and cubic interpolation.
    """
    from bpfa.images import inpaint
    from bpfa.report import image_report
    from bpfa.report.pictures import colour_map

    messenger, outputs = Messenger(quiet=quiet, as_json=as_json), Outputs(force=force)
    folder.mkdir(parents=True, exist_ok=True)
    names = ("before.png", "after.png", "uncertainty.png", "report.html")
    before, after, uncertainty, report = paths = [folder / name for name in names]
    for path in paths:
        outputs.claim("FOLDER", path)
    truth = library("skimage.data", "demo").camera()
    missing = np.random.default_rng(seed).random(truth.shape) < MISSING
    seen = np.where(missing, 0, truth).astype(np.uint8)

    messenger.note(
        f"{MISSING:.0%} of {truth.shape[0]} x {truth.shape[1]} pixels are dropped, and filled in by:"
    )
    result = inpaint(
        seen, missing, max_steps=STEPS, random_state=seed, n_jobs=jobs, verbose=messenger.verbose
    )
    restored = {"bpfa": result.image}
    for name, method in (("biharmonic", biharmonic), ("cubic", cubic)):
        with messenger.bar(name, None):
            restored[name] = method(seen, missing)
    scores = {name: psnrs(truth, image, missing) for name, image in restored.items()}

    picture = Picture(Path("camera.png"), seen)
    spread = float(np.percentile(result.std, 99.8))
    page = image_report(result, picture, command=command_line(context))
    coloured = Picture(uncertainty, colour_map(result.std, spread), channel_axis=2)
    outputs.add("FOLDER", before, lambda path: write_image(path, seen, picture, ""))
    outputs.add("FOLDER", after, lambda path: write_image(path, result.image, picture, ""))
    outputs.add("FOLDER", uncertainty, lambda path: write_image(path, coloured.values, coloured, ""))
    outputs.add("FOLDER", report, lambda path: path.write_text(page, encoding="utf-8"))
    outputs.write()
    document = {
        "written": {path.stem: path for path in paths},
        "psnr": scores,
        "missing_share": float(missing.mean()),
        "noise_std": result.noise_std,
        "active_features": result.model.n_components_used_,
        "features": len(result.model.components_),
        "steps": result.model.n_steps_,
    }
    messenger.result("demo", document, comparison(scores), *(str(path) for path in paths))


def biharmonic(seen: NDArray[np.uint8], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Fill in by scikit-image's biharmonic equation."""
    inpaint = library("skimage.restoration", "demo").inpaint_biharmonic
    return to_bytes(255 * inpaint(seen / 255.0, missing))


def cubic(seen: NDArray[np.uint8], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Fill in by SciPy's cubic interpolation between the known pixels, and the nearest outside of them."""
    from scipy.interpolate import griddata

    known, wanted = np.argwhere(~missing), np.argwhere(missing)
    values = [griddata(known, seen[~missing], wanted, method=method) for method in ("cubic", "nearest")]
    filled = seen.astype(np.float64)
    filled[missing] = np.where(np.isnan(values[0]), values[1], values[0])
    return to_bytes(filled)


def to_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Return values as a picture of 8 bits, as all methods must."""
    rounded: NDArray[np.uint8] = np.clip(values.round(), 0, 255).astype(np.uint8)
    return rounded


def psnrs(truth: NDArray[Any], image: NDArray[Any], missing: NDArray[np.bool_]) -> dict[str, float]:
    """Return the PSNR over all, the missing and the observed pixels; infinity where all are right."""
    chosen = {"all": None, "missing": missing, "observed": ~missing}
    return {name: bpfa.psnr(truth, image, where) for name, where in chosen.items()}


def comparison(scores: dict[str, dict[str, float]]) -> Table:
    """Return a table of the scores for people."""
    table = Table("PSNR, dB", *next(iter(scores.values())))
    for name, score in scores.items():
        table.add_row(name, *(f"{value:.2f}" if np.isfinite(value) else "exact" for value in score.values()))
    return table
