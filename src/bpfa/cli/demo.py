"""bpfa demo: restores a photograph, or a table, of which most is missing, and compares with other methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

import bpfa
from bpfa._support.optional import library
from bpfa.cli.declared import option, takes
from bpfa.cli.demo_table import TABLE_FILES, table_demo
from bpfa.cli.messages import Messenger
from bpfa.cli.options import DEMO, OUTPUT, command_line
from bpfa.cli.outputs import Outputs
from bpfa.images.files import Picture, write_image

__all__ = ["demo"]

MISSING = 0.8
# Fewer than by default, so that the demo takes little more than a minute on two cores; more would make no
# visible difference.
STEPS = 200
NEEDED = "the demo needs scikit-image"

PICTURE_FILES = ("before.png", "after.png", "uncertainty.png", "report.html")
WHAT = (
    option("table", bool, False, "--table", help="Fill in a table instead of a photograph, in some seconds."),
    option("opened", bool, False, "--open", help="Open the report in the browser."),
)

Folder = Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Folder to write to.")]


@takes(*WHAT, *DEMO, *OUTPUT)
def demo(
    context: typer.Context,
    folder: Folder = Path("bpfa-demo"),
    *,
    table: bool,
    opened: bool,
    seed: int,
    jobs: int | None,
    **options: Any,
) -> None:
    """Restore a photograph, in little more than a minute on two cores.

    Removes 80% of its pixels, fills them in, and compares with biharmonic and cubic interpolation. With
    --table, removes 40% of the entries of a table instead, fills them in, and compares with regressions and
    with like rows. Nothing is opened unless --open is given.
    """
    outputs = Outputs.of(context)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"FOLDER {folder}: a file; expected a folder, or a name that is free")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in (TABLE_FILES if table else PICTURE_FILES)]
    for path in paths:
        (outputs.claim_model if path.suffix == ".bpfa" else outputs.claim)("FOLDER", path)
    (table_demo if table else picture_demo)(context, outputs, paths, seed=seed, jobs=jobs)
    if opened:
        typer.launch(str(paths[-1].resolve()))


def picture_demo(
    context: typer.Context, outputs: Outputs, paths: list[Path], *, seed: int, jobs: int | None
) -> None:
    """Write the pictures and the report of the demo, and print how good each method is."""
    from bpfa.images import inpaint
    from bpfa.report import image_report
    from bpfa.report.pictures import colour_map

    messenger = Messenger.of(context)
    before, after, uncertainty, report = paths
    truth = library("skimage.data", "demo", purpose=NEEDED).camera()
    missing = np.random.default_rng(seed).random(truth.shape) < MISSING
    seen = np.where(missing, 0, truth).astype(np.uint8)

    size, verbose = f"{truth.shape[0]} x {truth.shape[1]}", messenger.verbose
    messenger.note(f"{MISSING:.0%} of {size} pixels are removed, and filled in by:")
    result = inpaint(seen, missing, max_steps=STEPS, random_state=seed, n_jobs=jobs, verbose=verbose)
    restored = {"bpfa": result.image}
    if result.dictionary_image is not None:
        restored["bpfa, dictionary only"] = result.dictionary_image
    for name, method in (("biharmonic", biharmonic), ("cubic", cubic)):
        with messenger.bar(name, None):
            restored[name] = method(seen, missing)
    scores = {name: psnrs(truth, image, missing) for name, image in restored.items()}

    picture = Picture(Path("camera.png"), seen)
    page = image_report(result, picture, command=command_line(context), truth=truth)
    largest = float(np.percentile(result.std, 99.8))
    coloured = Picture(uncertainty, colour_map(result.std, largest), channel_axis=2)
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
    """Fill in the missing pixels by biharmonic interpolation, with scikit-image."""
    inpaint = library("skimage.restoration", "demo", purpose=NEEDED).inpaint_biharmonic
    return to_bytes(255 * inpaint(seen / 255.0, missing))


def cubic(seen: NDArray[np.uint8], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Fill in by cubic interpolation between the known pixels, and by the nearest one outside of them."""
    from scipy.interpolate import griddata

    known, wanted = np.argwhere(~missing), np.argwhere(missing)
    values = [griddata(known, seen[~missing], wanted, method=method) for method in ("cubic", "nearest")]
    filled = seen.astype(np.float64)
    filled[missing] = np.where(np.isnan(values[0]), values[1], values[0])
    return to_bytes(filled)


def to_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Round values to 8 bits, as is done for every method."""
    rounded: NDArray[np.uint8] = np.clip(values.round(), 0, 255).astype(np.uint8)
    return rounded


def psnrs(truth: NDArray[Any], image: NDArray[Any], missing: NDArray[np.bool_]) -> dict[str, float]:
    """Return the PSNR over all, the missing and the observed pixels; infinity where all are exact."""
    chosen = {"all": None, "missing": missing, "observed": ~missing}
    return {name: bpfa.psnr(truth, image, where) for name, where in chosen.items()}


def comparison(scores: dict[str, dict[str, float]]) -> Table:
    """Return a table of the scores for people to read."""
    table = Table("PSNR, dB", *next(iter(scores.values())))
    for name, score in scores.items():
        table.add_row(name, *(f"{value:.2f}" if np.isfinite(value) else "exact" for value in score.values()))
    return table
