"""The options that commands share, in groups."""

from __future__ import annotations

import ast
import csv
import io
import re
import shlex
from pathlib import Path
from typing import Any

import typer

from bpfa._support.parameters import declarations
from bpfa.cli.declared import RENAMED, library_options, option
from bpfa.estimator.parameters import Parameters
from bpfa.images.options import RestorationOptions

__all__ = [
    "DEMO",
    "FIT",
    "IMAGE",
    "JOBS",
    "LIBRARY_NAMES",
    "LIVE",
    "OUTPUT",
    "TABLE",
    "command_line",
    "fit_settings",
    "in_terms_of_options",
]

OUTPUT = (
    option("force", bool, False, "--force", "-f", help="Replace files that exist."),
    option("quiet", bool, False, "--quiet", "-q", help="Print nothing but errors."),
    option("as_json", bool, False, "--json", help="Print the result as one JSON object."),
)
"""What a command writes and prints."""

JOBS = library_options(Parameters, "n_jobs")
DEMO = library_options(RestorationOptions, "random_state", "n_jobs")

TABLE = (
    option(
        "columns",
        list[str] | None,
        None,
        metavar="NAMES",
        help="Columns or channels to use, separated by commas; quote a name that contains one: "
        "'\"a,b\",c'. [default: all, or the model's]",
    ),
    option(
        "union",
        bool,
        False,
        "--union",
        help="Use all columns that any of several tables has, matched by name; where a table lacks a column, "
        "its entries are missing.",
    ),
    option(
        "exclude",
        list[str] | None,
        None,
        metavar="NAMES",
        help="Columns or channels to leave out. Channels of time and event length are left out unless "
        "--columns names them.",
    ),
    option(
        "index",
        list[str] | None,
        None,
        metavar="NAMES",
        help="Columns with names of rows, which are not data. [default: the first column if it holds text or "
        "has no name; the index of .parquet]",
    ),
    option("no_index", bool, False, "--no-index", help="No column holds names of rows."),
    option(
        "separator",
        str | None,
        None,
        help="Character between the fields of .csv or .tsv, 'tab', or 'space'. [default: found out]",
    ),
    option(
        "decimal", str | None, None, help="'.' or ',' in the numbers of .csv or .tsv. [default: found out]"
    ),
    option(
        "header",
        bool | None,
        None,
        "--header/--no-header",
        help="Whether the first line of .csv or .tsv holds names of columns. [default: found out]",
    ),
    option("key", str | None, None, help="Name of the array in .npz, .h5 or .zarr."),
    option("layer", str | None, None, help="Layer of .h5ad. [default: X]"),
    option(
        "absent",
        str | None,
        None,
        help="Meaning of the entries that a sparse matrix does not store: 'missing' or 'zero'.",
    ),
    option(
        "cofactor",
        float | None,
        None,
        help="Transform FCS values to arcsinh(x / cofactor); 0 leaves them unchanged. [default: 5]",
    ),
)
"""How a table is read."""

BATCH = (
    option(
        "batch",
        str | None,
        None,
        metavar="COLUMN",
        help="Column of .csv, .tsv or .parquet, or of obs of .h5ad, with the batch of every row.",
    ),
    option(
        "batch_by_file",
        bool,
        False,
        "--batch-by-file",
        help="Every IN is a batch, labelled by the name of its file.",
    ),
)
"""Which batch every row of a table belongs to."""

MODEL_NAMES = ("n_components", "algorithm", "init", "dropout", "max_epochs", "max_steps", "max_time")
RUN_NAMES = ("random_state", "n_jobs", "device")

FIT = (
    *library_options(
        Parameters, *MODEL_NAMES, "sparse", "prefer", "held_out", "patience", "revise", "groups", "group_rows"
    ),
    option(
        "with_rows",
        bool,
        False,
        "--with-rows",
        help="Save the rows that like rows are found among, which are data, in the model.",
    ),
    option("checkpoint", Path | None, None, help="File to save the fit to while it runs."),
    option(
        "checkpoint_every",
        float | None,
        None,
        metavar="MINUTES",
        help="Minutes between two saves of the checkpoint. [x>=0] [default: 5]",
    ),
    option("resume", bool, False, "--resume", help="Continue from the checkpoint."),
    *library_options(Parameters, *RUN_NAMES),
)
"""How a model is fitted to a table."""

IMAGE = (
    option("mask", Path | None, None, help="Image that is not 0 where a pixel of IN is missing."),
    option(
        "missing",
        float | None,
        None,
        help="Value that marks missing pixels. NaN and transparent pixels are always missing.",
    ),
    option(
        "std",
        Path | None,
        None,
        help="Write the uncertainty of each pixel, in image units: .npy, .tif or .hspy.",
    ),
    option("report", Path | None, None, help="Write a report on the result, one .html file."),
    option(
        "truth",
        Path | None,
        None,
        help="True image, if it is known: the report then shows PSNR and the coverage of intervals.",
    ),
    option("model", Path | None, None, help="Kept model, by which the image is restored without training."),
    option("save_model", Path | None, None, help="Write the model of the patches, to be kept for --model."),
    *library_options(
        RestorationOptions,
        "update",
        "forgetting",
        "patch_size",
        "stride",
        "channel_axis",
        "stack_axis",
        "refine",
        "noise_model",
        "gain",
        "read_noise",
        *MODEL_NAMES,
        *RUN_NAMES,
    ),
)
"""How an image is read and restored."""

LIVE = (
    option("mask", Path | None, None, help="Image that is not 0 where a pixel of every frame is missing."),
    option("missing", float | None, None, help="Value that marks missing pixels. NaN is always missing."),
    option("task", str, "inpaint", help="inpaint leaves observed pixels as they are, denoise does not."),
    option("simulate", bool, False, "--simulate", help="Scan SOURCE, a picture, as a microscope would."),
    option("scan", str, "random", help="Simulated scan: random, line-hop, lines, spiral or blue-noise."),
    option("dose", float, 0.2, help="Share of the pixels that a simulated scan visits. [0<x<=1]"),
    option("drift", float, 0.0, help="Pixels by which a simulated scene moves from frame to frame."),
    option(
        "frames",
        int | None,
        None,
        help="Number of frames after which to stop. [x>=1] [default: 50 simulated ones, else all]",
    ),
    option("rate", float | None, None, help="Frames a second in which a stack, movie or simulation comes."),
    option("skip", bool, False, "--skip", help="Skip frames that come while an earlier one is restored."),
    option("idle", float, 10.0, help="Seconds without a new file after which a folder has ended."),
    option("learn", int, 8, help="Training steps with each frame; 0 leaves the dictionary as it is. [x>=0]"),
    option("forget", float, 0.1, help="Least size of these steps. [0<=x<=1]"),
    option("std", Path | None, None, help="Write the uncertainty as a stack as well: .tif or .npy."),
    option("model", Path | None, None, help="Kept model to begin with."),
    option("save_model", Path | None, None, help="Write the last model, to be kept for --model."),
    option("serve", bool, False, "--serve", help="Show the frames on a page, for this computer only."),
    option("open", bool, False, "--open", help="Open this page in the browser."),
    option("port", int, 0, help="Port of the page. [default: any that is free]"),
    option("linger", float, 0.0, help="Seconds for which the page stays after the last frame."),
    *library_options(
        RestorationOptions,
        "patch_size",
        "stride",
        "stack_axis",
        "noise_model",
        "gain",
        "read_noise",
        "n_components",
        "max_steps",
        *RUN_NAMES,
    ),
)
"""How frames are read, restored and shown."""

LIBRARY_NAMES = {
    RENAMED.get(name, name): name
    for name in (declarations(Parameters) | declarations(RestorationOptions))
    # Where the library takes a model, the command line takes a file.
    if RENAMED.get(name, name) in {shared.name for shared in (*FIT, *IMAGE)} and name != "model"
}
"""The library's names for the options that are parameters of the library."""


def fit_settings(context: typer.Context) -> dict[str, Any]:
    """Return the options of a fit by the library's names for them."""
    return {name: context.params[own] for own, name in LIBRARY_NAMES.items() if own in context.params}


def command_line(context: typer.Context) -> str:
    """Return the command that repeats this one and replaces the files that it has written."""
    arguments = ["bpfa", *context.obj]
    if not {"--force", "-f"} & set(arguments):
        arguments.append("--force")
    return shlex.join(arguments)


def in_terms_of_options(text: str) -> str:
    r"""Return a message of the library with the names of command-line options instead of parameters.

    Parameters of the library are recognised at the beginning of a message, where they are followed by their
    value or by a colon. Those that say how a table is read are recognised anywhere if they have a value.

    Examples
    --------
    >>> in_terms_of_options("n_components=0: expected an integer >= 1")
    '--components 0: expected an integer >= 1'
    >>> in_terms_of_options("revise=True: nothing is held out to judge a change by; expected held_out > 0")
    '--revise: nothing is held out to judge a change by; expected --held-out > 0'
    >>> in_terms_of_options("gain=None: not learned; expected a larger image, or gain=1 and read_noise=0")
    '--gain: not learned; expected a larger image, or --gain 1 and --read-noise 0'
    >>> in_terms_of_options("layer: not an option of .npy files; expected no options")
    '--layer: not an option of .npy files; expected no options'
    >>> in_terms_of_options("t.csv: column 'a' is not numbers; expected numbers, or exclude=['a', 'b,c']")
    't.csv: column \'a\' is not numbers; expected numbers, or --exclude \'a,"b,c"\''
    """
    begin = re.match(r"(\w+)([=:])", text)
    if begin is None or begin[1] not in FLAGS:
        return _with_options_of_tables(text)
    name, sign, rest = begin[1], begin[2], text[begin.end() :]
    if sign == ":":
        if rest.startswith(" not an option of"):
            what, expected, others = rest.partition("; expected ")
            rest = what + expected + re.sub(r"\w+", lambda word: FLAGS.get(word[0], word[0]), others)
        return f"{FLAGS[name]}:{_with_options_of_tables(rest)}"
    # Without a value, only names that contain an underscore can be told from ordinary words.
    for other, flag in FLAGS.items():
        rest = re.sub(rf"\b{other}=(?=\d)", f"{flag} ", rest)
        if "_" in other:
            rest = re.sub(rf"\b{other}\b", flag, rest)
    value, colon, what = rest.partition(":")
    # A flag is either given or not, and has no value to show; and None means that an option was not given.
    shown = "" if value in ("True", "None") else f" {value}"
    return FLAGS[name] + shown + colon + _with_options_of_tables(what)


FLAGS = {name: f"--{own.replace('_', '-')}" for own, name in LIBRARY_NAMES.items()}
FLAGS |= {shared.name: f"--{shared.name.replace('_', '-')}" for shared in (*TABLE, *BATCH)}
FLAGS |= {"channels": "--columns", "to_batch": "--to-batch"}
QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
OF_TABLES = re.compile(
    r"\b(columns|channels|index|exclude|separator|decimal|header|absent|key|layer)="
    rf"(\[(?:{QUOTED}|[^\]'\"])*\]|{QUOTED}|True|False|\.\.\.)"
)
OPENED = re.compile(r"(?:bpfa\.)?open_rows\(\w+, ([^()]*)\)")


def _with_options_of_tables(text: str) -> str:
    """Return a message with options of a command in place of the arguments that say how a table is read."""
    text = text.replace('columns="union"', "--union")
    return OF_TABLES.sub(_option, OPENED.sub(r"\1", text))


def _option(argument: re.Match[str]) -> str:
    """Return an argument of Python, with its value, as an option of a command."""
    flag, value = FLAGS[argument[1]], argument[2]
    if value in ("True", "False"):
        return flag if value == "True" else f"--no-{flag.removeprefix('--')}"
    if value == "...":
        return f"{flag} ..."
    given = ast.literal_eval(value)
    names = io.StringIO()
    csv.writer(names, lineterminator="").writerow(given if isinstance(given, list) else [given])
    text = names.getvalue() if isinstance(given, list) else given
    quoted = shlex.quote(text)
    return f"{flag} {quoted if quoted != text else repr(text)}"
