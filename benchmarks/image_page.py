"""The text and the tables of `benchmarks.images` on the page of accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.image_contestants import CONTESTANTS
from benchmarks.image_tasks import CHOSEN_ON, TASKS
from experiments.cells import Record
from experiments.markdown import table

TEXT = """\
Pictures are in grey levels from 0 to 255. PSNR, in dB, and coverage are taken over the pixels that the
title of a task names, SSIM over the whole picture. The columns "80 %", "95 %" and "99 %" show how many of
these pixels have a true value within the interval of that probability. The noisy values are neither clipped
nor rounded.

Wavelets, TV, NLM and BM3D are methods for complete pictures with Gaussian noise. Where pixels are missing,
linear interpolation fills them in first. Where the noise is Poisson noise, these methods work on square
roots of the counts (Anscombe's transform), for which all four are told the gain. bpfa is told that they are
counts (`noise_model="poisson"`), and nothing else.

The settings of groups were chosen on parts or small versions of the pictures marked with an asterisk, which
are therefore left out of the means, and on five others that are not in the tables
(`benchmarks.group_settings`). Defaults of the dictionary were chosen on parts of
House, Peppers and Barbara, with other pixels missing (`benchmarks.image_defaults`).

bpfa ran on one NVIDIA H200 (`--device cuda`), which up to sixteen pictures shared; one alone takes less. The
others ran on one thread each, sixteen at a time. Seconds include the compilation of kernels where they were
first needed; all of them are rough."""
SUMMARY = ("", "PSNR", "SSIM", "80 %", "95 %", "99 %", "seconds", "is told")


def markdown(records: Sequence[Record]) -> str:
    """Return the text of the section: for each task the means over all pictures, and the PSNR by picture."""
    parts = [TEXT]
    for name, task in TASKS.items():
        found = [record for record in records if record["settings"]["task"] == name]
        if found:
            parts.append(f"**{task.title}** ({task.scored})")
            parts += _task_tables(found)
    return "\n\n".join(parts)


def _task_tables(records: Sequence[Record]) -> list[str]:
    """Return the tables of one task."""
    by_place = {(r["settings"]["picture"], r["settings"]["contestant"]): r["result"] for r in records}
    pictures = list(dict.fromkeys(picture for picture, _ in by_place))
    names = [name for name in CONTESTANTS if any(name == contestant for _, contestant in by_place)]
    # Means are comparable only over pictures that all contestants have restored.
    common = [
        picture
        for picture in pictures
        if picture not in CHOSEN_ON and all((picture, name) in by_place for name in names)
    ]
    tables = []
    if common:
        rows = [_mean_row(name, [by_place[picture, name] for picture in common]) for name in names]
        of = f"{len(common)} picture" + ("s" if len(common) > 1 else "")
        tables.append(table((f"mean of {of}", *SUMMARY[1:]), rows))
    ours = [name for name in names if name.startswith("bpfa")]
    rows = [
        [
            f"{picture} \\*" if picture in CHOSEN_ON else picture,
            *(_number(by_place.get((picture, name)), "psnr") for name in names),
            *(_share(by_place.get((picture, name)), "0.95") for name in ours),
        ]
        for picture in pictures
    ]
    headings = ("PSNR", *names, *(f"95 %, {name.removeprefix('bpfa ')}" for name in ours))
    return [*tables, table(headings, rows)]


def _mean_row(name: str, results: Sequence[dict]) -> list[str]:
    shares = [
        f"{np.mean([result['coverage'][level] for result in results]):.1%}"
        if "coverage" in results[0]
        else ""
        for level in ("0.8", "0.95", "0.99")
    ]
    psnr, ssim, seconds = (
        float(np.mean([result[key] for result in results])) for key in ("psnr", "ssim", "seconds")
    )
    devices = sorted({result.get("device", "cpu") for result in results} - {"cpu"})
    took = " on ".join([f"{seconds:.1f}", *devices])
    return [name, f"{psnr:.2f}", f"{ssim:.4f}", *shares, took, results[0]["told"]]


def _number(result: dict | None, key: str) -> str:
    return "" if result is None else f"{result[key]:.2f}"


def _share(result: dict | None, level: str) -> str:
    return "" if result is None else f"{result['coverage'][level]:.1%}"
