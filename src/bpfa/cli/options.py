"""The options that commands share."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from bpfa.inference.algorithms import ALGORITHMS
from bpfa.inference.training import INITIALISERS

__all__ = ["command_line", "fit_settings"]

# What is written and said.
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]

# The model and its fit.
Components = Annotated[int | None, typer.Option(min=1, help="Largest number of features. [by the data]")]
AlgorithmName = Annotated[str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.")]
MaxEpochs = Annotated[float | None, typer.Option(help="Passes over the data. [by the data]")]
MaxSteps = Annotated[int | None, typer.Option(min=1, help="Training steps.")]
MaxTime = Annotated[float | None, typer.Option(help="Seconds of training.")]
Init = Annotated[
    str | None, typer.Option(help=f"Where features start: {', '.join(INITIALISERS)}. [by the data]")
]
Dropout = Annotated[
    float | None,
    typer.Option(help="Share of a row's entries that its chain does not see, in a step. [by the data]"),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Threads. [all]")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, or numpy, the slow specification.")]

# Images.
Report = Annotated[Path | None, typer.Option(help="Write a report to look at, one .html file.")]
Std = Annotated[
    Path | None, typer.Option(help="Write how uncertain each pixel is, in image units: .npy, .tif or .hspy.")
]
Mask = Annotated[Path | None, typer.Option(help="Image that is not 0 where a pixel is missing.")]
Missing = Annotated[
    float | None, typer.Option(help="Pixels of this value are missing; 'nan' too. [NaN and transparent]")
]
Patch = Annotated[
    int | None,
    typer.Option(min=1, help="Height and width of a patch. [by the image]"),
]
Stride = Annotated[int | None, typer.Option(min=1, help="Pixels from one patch to the next. [by the patch]")]
ChannelAxis = Annotated[int | None, typer.Option(help="Axis of colours or spectra. [by the file]")]
StackAxis = Annotated[int | None, typer.Option(help="Axis of slices that share features. [by the file]")]

# Tables.
Columns = Annotated[
    str | None,
    typer.Option(help="Columns or channels to use, with commas between. [all, or those of the model]"),
]
Key = Annotated[str | None, typer.Option(help="Name of the array in .npz, .h5 or .zarr.")]
Layer = Annotated[str | None, typer.Option(help="Layer of .h5ad. [X]")]
Absent = Annotated[str | None, typer.Option(help="What a sparse matrix does not store: 'missing' or 'zero'.")]
Cofactor = Annotated[
    float | None, typer.Option(help="FCS values become arcsinh(x / cofactor); 0 leaves them as they are. [5]")
]


# What the library calls the options of a fit.
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
    """Return the options of a fit as the library calls them."""
    return {
        name: context.params[option] for option, name in LIBRARY_NAMES.items() if option in context.params
    }


def command_line(context: typer.Context) -> str:
    """Return the command that runs this one again, over what it has written."""
    arguments = ["bpfa", *context.obj]
    if not {"--force", "-f"} & set(arguments):
        arguments.append("--force")
    return shlex.join(arguments)
