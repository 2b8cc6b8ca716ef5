"""The options that commands share.

Most options of a fit are parameters of the library. `DESCRIPTIONS` holds the help for those, by the library's
name for the parameter, and `LIBRARY_NAMES` translates the names.
"""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from bpfa.images.options import RestorationOptions
from bpfa.inference.algorithms import ALGORITHMS
from bpfa.inference.training import INITIALISERS

__all__ = ["command_line", "fit_settings"]

DECLARED = {declared.name: declared.metadata for declared in fields(RestorationOptions)}
# One line about each parameter of the library that is an option here, by the library's name for it.
DESCRIPTIONS: dict[str, str] = {
    **{name: about["description"] for name, about in DECLARED.items()},
    "held_out": "Share of the entries that are hidden from the fit and scored.",
    "patience": "Stop after this many held-out scores without improvement, and keep the best model.",
    "revise": "Drop, merge and add features where that improves the held-out scores.",
}


def _parameter(name: str, *flags: str, more: str = "", **settings: Any) -> Any:
    """Return the option for a parameter of the library, with its description and its lower limit.

    Parameters
    ----------
    name : str
        The library's name for the parameter.
    *flags : str
        Names of the option, where they do not follow from the command's signature.
    more : str
        What the help says after the description: choices, or a default that is not a single value.
    **settings
        Further arguments of `typer.Option`.
    """
    low = DECLARED[name]["low"] if name in DECLARED else None
    limits = {} if low is None else {"min": low}
    return typer.Option(*flags, help=f"{DESCRIPTIONS[name]} {more}".rstrip(), **limits | settings)


# What a command writes and prints.
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]

# The model and its fit.
Components = Annotated[int | None, _parameter("n_components", more="[default: from the data]")]
AlgorithmName = Annotated[str, _parameter("algorithm", more=f"One of {', '.join(ALGORITHMS)}.")]
MaxEpochs = Annotated[float | None, _parameter("max_epochs", more="[default: from the data]")]
MaxSteps = Annotated[int | None, _parameter("max_steps")]
MaxTime = Annotated[float | None, _parameter("max_time")]
Init = Annotated[
    str | None, _parameter("init", more=f"One of {', '.join(INITIALISERS)}. [default: from the data]")
]
Dropout = Annotated[float | None, _parameter("dropout", more="[default: from the data]")]
HeldOut = Annotated[float, _parameter("held_out")]
Patience = Annotated[int | None, _parameter("patience", min=1)]
Revise = Annotated[bool, _parameter("revise", "--revise")]
Seed = Annotated[int, _parameter("random_state", min=0)]
Jobs = Annotated[int | None, _parameter("n_jobs", "--jobs", "-j", min=1, more="[default: all]")]
Device = Annotated[
    str, _parameter("device", more="One of auto, cpu, cuda, cuda:1, or numpy (slow, for reference).")
]

# Images.
Report = Annotated[Path | None, typer.Option(help="Write a report on the result, one .html file.")]
Std = Annotated[
    Path | None,
    typer.Option(help="Write the uncertainty of each pixel, in image units: .npy, .tif or .hspy."),
]
Mask = Annotated[Path | None, typer.Option(help="Image that is not 0 where a pixel of IN is missing.")]
Missing = Annotated[
    float | None,
    typer.Option(help="Value that marks missing pixels. NaN and transparent pixels are always missing."),
]
Patch = Annotated[int | None, _parameter("patch_size", more="[default: from the image]")]
Stride = Annotated[int | None, _parameter("stride", more="[default: from the patch size]")]
ChannelAxis = Annotated[int | None, _parameter("channel_axis", more="[default: from the file]")]
StackAxis = Annotated[int | None, _parameter("stack_axis", more="[default: from the file]")]

# Tables.
Columns = Annotated[
    str | None,
    typer.Option(help="Columns or channels to use, separated by commas. [default: all, or the model's]"),
]
Key = Annotated[str | None, typer.Option(help="Name of the array in .npz, .h5 or .zarr.")]
Layer = Annotated[str | None, typer.Option(help="Layer of .h5ad. [default: X]")]
Absent = Annotated[
    str | None,
    typer.Option(help="What the entries are that a sparse matrix does not store: 'missing' or 'zero'."),
]
Cofactor = Annotated[
    float | None,
    typer.Option(help="Transform FCS values to arcsinh(x / cofactor); 0 leaves them unchanged. [default: 5]"),
]


# The library's names for the options of a fit.
LIBRARY_NAMES = {
    "components": "n_components",
    "algorithm": "algorithm",
    "max_epochs": "max_epochs",
    "max_steps": "max_steps",
    "max_time": "max_time",
    "seed": "random_state",
    "jobs": "n_jobs",
    "device": "device",
    "patch": "patch_size",
    "stride": "stride",
    "held_out": "held_out",
    "patience": "patience",
    "revise": "revise",
    "init": "init",
    "dropout": "dropout",
}


def fit_settings(context: typer.Context) -> dict[str, Any]:
    """Return the options of a fit by the library's names for them."""
    return {
        name: context.params[option] for option, name in LIBRARY_NAMES.items() if option in context.params
    }


def command_line(context: typer.Context) -> str:
    """Return the command that repeats this one and replaces the files that it has written."""
    arguments = ["bpfa", *context.obj]
    if not {"--force", "-f"} & set(arguments):
        arguments.append("--force")
    return shlex.join(arguments)
