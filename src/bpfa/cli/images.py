"""The commands `bpfa inpaint` and `bpfa denoise`, which differ only in the function that they call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import bpfa
from bpfa._support.optional import library
from bpfa.cli.cluster import CLUSTER, client_of
from bpfa.cli.declared import WrongOption, takes
from bpfa.cli.messages import Messenger
from bpfa.cli.options import IMAGE, OUTPUT, command_line, fit_settings
from bpfa.cli.outputs import Outputs
from bpfa.images.files import JPEG, Picture, check_target, read_image, read_mask, write_image
from bpfa.images.signals import MOST_CHANNELS, SignalAxes, in_components
from bpfa.report.page import noise_range

__all__ = ["denoise", "inpaint"]

Image = Annotated[
    Path, typer.Argument(metavar="IN", help="Image: .png .jpg .tif .npy .hspy .zspy .dm3 .dm4 .emd .mrc .ser")
]
Restored = Annotated[Path, typer.Argument(metavar="OUT", help="Image to write.")]


def _command(name: str, description: str) -> Callable[..., None]:
    """Return the command that restores an image by the function of this name in the library."""

    @takes(*IMAGE, *CLUSTER, *OUTPUT)
    def command(context: typer.Context, source: Image, target: Restored, **options: Any) -> None:
        # Before typer 0.29 the parameters of the context are not converted, and paths are strings there.
        _restore(context, {"source": source, "target": target, **options}, getattr(bpfa, name))

    command.__name__, command.__doc__ = name, description
    return command


inpaint = _command(
    "inpaint",
    """Fill in the missing pixels of an image.

    A pixel is missing if it is NaN or transparent, has the value --missing, or is marked by --mask. All other
    pixels stay as they are.
    """,
)
denoise = _command(
    "denoise",
    """Remove the noise from an image.

    The noise level is learned. Missing pixels, as defined for bpfa inpaint, are filled in. For counts of
    photons or electrons, see --noise-model.
    """,
)


def _restore(context: typer.Context, given: dict[str, Any], restore: Callable[..., Any]) -> None:
    """Read the image, restore it, and write what was asked for."""
    if given["mask"] is not None and given["missing"] is not None:
        raise WrongOption("--mask and --missing: expected at most one of them")
    if given["truth"] is not None and given["report"] is None:
        raise WrongOption("--truth: expected --report as well, which shows the comparison")
    messenger, outputs = Messenger.of(context), Outputs.of(context)
    targets = {"OUT": given["target"], "--std": given["std"], "--report": given["report"]}
    written = {argument: path for argument, path in targets.items() if path is not None}
    outputs.keep("IN", given["source"])
    for argument in ("mask", "truth", "model"):
        if given[argument] is not None:
            outputs.keep(f"--{argument}", given[argument])
    for argument, path in written.items():
        outputs.claim(argument, path)
    if given["save_model"] is not None:
        outputs.claim_model("--save-model", given["save_model"])
        written["--save-model"] = given["save_model"]
    picture = read_image(given["source"]).with_axes(given["channel_axis"], given["stack_axis"])
    truth = None if given["truth"] is None else _truth(given["truth"], picture)
    check_target(given["target"], picture)
    if given["std"] is not None:
        check_target(given["std"], picture, np.float32)

    missing = _missing(picture, given["mask"], given["missing"])
    if restore.__name__ == "inpaint" and not missing.any():
        raise ValueError(
            f"{picture.path}: no pixel is missing; expected --mask or --missing, or bpfa denoise"
        )
    axes = {"channel_axis": picture.channel_axis, "stack_axis": picture.stack_axis}
    settings = {**fit_settings(context), **axes}
    if given["model"] is not None:
        settings["model"] = bpfa.BPFA.load(given["model"])
    with client_of(context) as client:
        if client is None:
            result = _restored(restore, picture, missing, {**settings, "verbose": messenger.verbose})
        else:
            result = _restored_on_workers(restore, picture, missing, settings)

    command = command_line(context)
    note = f"bpfa {bpfa.__version__}: {command}"
    outputs.add("OUT", given["target"], lambda path: write_image(path, result.image, picture, note))
    if given["std"] is not None:
        std = result.std.astype(np.float32)
        outputs.add("--std", given["std"], lambda path: write_image(path, std, picture, note))
    if given["save_model"] is not None:
        outputs.add("--save-model", given["save_model"], result.model.save)
    if given["report"] is not None:
        from bpfa.report import image_report

        page = image_report(result, picture, command=command, truth=truth)
        outputs.add("--report", given["report"], lambda path: path.write_text(page, encoding="utf-8"))
    outputs.write()
    _tell(messenger, restore.__name__, written, result, settings)


def _restored(
    restore: Callable[..., Any], picture: Picture, missing: NDArray[np.bool_], settings: dict[str, Any]
) -> Any:
    """Restore a picture; a scan with many channels is restored in components, as signals are."""
    axes = picture.values.ndim, picture.channel_axis
    if not picture.is_scan or picture.n_channels <= MOST_CHANNELS or axes != (3, 2):
        return restore(picture.values, missing, **settings)
    own = {name: value for name, value in settings.items() if name not in ("channel_axis", "stack_axis")}
    return in_components(
        restore,
        picture.values,
        missing,
        SignalAxes.of_dimensions(2, 1),
        own,
        keep_observed=restore.__name__ == "inpaint",
    )


def _restored_on_workers(
    restore: Callable[..., Any], picture: Picture, missing: NDArray[np.bool_], settings: dict[str, Any]
) -> Any:
    """Restore the slices of a stack on the workers of the current client, one slice in a chunk."""
    if picture.stack_axis is None:
        raise WrongOption(
            "--scheduler and --workers: for stacks, whose slices are restored side by side; expected "
            "--stack-axis"
        )
    dask = library("dask", "dask")
    dask_array = library("dask.array", "dask")
    axis = range(picture.values.ndim)[picture.stack_axis]
    chunks = tuple(1 if other == axis else -1 for other in range(picture.values.ndim))
    lazy = [dask_array.from_array(array, chunks=chunks) for array in (picture.values, missing)]
    result = restore(*lazy, **settings)
    arrays = dask.compute(result.image, result.std, result.missing, result.from_prior)
    names = ("image", "std", "missing", "from_prior")
    return replace(result, **dict(zip(names, arrays, strict=True)))


def _tell(
    messenger: Messenger, name: str, written: dict[str, Path], result: Any, settings: dict[str, Any]
) -> None:
    """Print a summary of the result."""
    kinds = {"OUT": "image", "--std": "std", "--report": "report", "--save-model": "model"}
    document = {
        "written": {kinds[argument]: path for argument, path in written.items()},
        "missing_share": float(np.mean(result.missing)),
        "from_prior": int(np.sum(result.from_prior)),
        "noise_std": result.noise_std,
        "noise_model": result.noise_model,
        "gain": result.gain,
        "read_noise": result.read_noise,
        "active_features": result.model.n_components_used_,
        "features": len(result.model.components_),
        "steps": result.model.n_steps_,
        "stopped_by": result.model.stopped_by_,
        "stage": result.stage,
        "rounds": result.n_rounds,
    }
    groups = f"{result.n_rounds} rounds of groups · " if result.n_rounds else ""
    missing = f"{document['missing_share']:.1%} missing · " if result.missing.any() else ""
    counts = "" if result.gain is None else f"{result.noise_model}, gain {noise_range(result.gain)} · "
    if result.gain is None and settings.get("noise_model") == "auto":
        counts = "not recognised as counts · "
    messenger.result(
        name,
        document,
        f"{missing}{counts}noise {noise_range(result.noise_std)} · {document['active_features']} of "
        f"{document['features']} features · {document['steps']} steps · {groups}{messenger.seconds:.1f} s",
        *(f"{kinds[argument]:>6}  {path}" for argument, path in written.items()),
    )


def _truth(path: Path, picture: Picture) -> NDArray[Any]:
    """Return the true image, which must have the shape of the image that is restored."""
    truth = read_image(path).values
    if truth.shape != picture.values.shape:
        raise ValueError(
            f"--truth {path}: shape {truth.shape}; expected that of {picture.path}, {picture.values.shape}"
        )
    return truth


def _missing(picture: Picture, mask: Path | None, value: float | None) -> NDArray[np.bool_]:
    """Return which entries of an image are missing."""
    values, path = picture.values, picture.path
    missing = np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "f":
        missing |= np.isnan(values)
    if picture.transparent is not None:
        missing |= _with_channels(picture.transparent, picture)
    if mask is not None:
        missing |= _with_channels(read_mask(mask, picture), picture)
    elif value is not None and not np.isnan(value):
        equal = values == value
        if picture.channel_axis is not None:
            # A pixel is missing only if all of its channels have the value. A pure red pixel, for example, is
            # not missing although its green channel is 0.
            equal = _with_channels(equal.all(axis=picture.channel_axis), picture)
        if path.suffix.lower() in JPEG:
            warnings.warn(
                f"{path}: JPEG blurs values, so few are exactly {value:g}; use --mask", stacklevel=2
            )
        missing |= equal
    return missing


def _with_channels(mask: NDArray[np.bool_], picture: Picture) -> NDArray[np.bool_]:
    """Return a mask of pixels in the shape of the image; a mask without channels applies to all of them."""
    if mask.shape == picture.values.shape or picture.channel_axis is None:
        return mask
    return np.broadcast_to(np.expand_dims(mask, picture.channel_axis), picture.values.shape)
