"""The paper's table of PSNRs next to ours, its figures, and its claims about both tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from imageio.v3 import imread
from matplotlib.figure import FigureBase

from experiments.cells import Record
from experiments.figures import STYLE, WIDTH, legend, save
from experiments.markdown import table
from paper.experiment import Claim, by_wins, verdict
from paper.figures import Lines, draw_lines
from paper.methods import GIBBS_KINDS, LABELS, MEAN_FIELD_KINDS, METHODS
from paper.pictures import PICTURES

KINDS = ("all", "missing", "observed")
# In dB. The paper calls a difference of 13 dB in its table significant, and one of 1.8 dB modest.
SIGNIFICANT = 1.0
Results = dict[tuple[str, str], dict[str, Any]]
"""(picture, method) -> result."""
Psnrs = dict[str, dict[str, float]]
"""Method -> picture -> PSNR, as the paper gives it."""


def select(records: list[Record], init: str) -> Results:
    """Return the results with one start and the usual form, and those of our defaults and interpolation."""
    return {
        (settings["picture"], settings["method"]): record["result"]
        for record in records
        if (settings := record["settings"]).get("init", init) == init
        and not {"schedule", "blocked", "ladder"} & settings.keys()
    }


def pictures_of(results: Results) -> list[str]:
    """Return the pictures on which all five methods have been run."""
    return [name for name in PICTURES if all((name, method) in results for method in METHODS)]


def triple(result: dict[str, Any]) -> str:
    """Return the three PSNRs of a cell as text."""
    return " / ".join("exact" if result[kind] is None else f"{result[kind]:.1f}" for kind in KINDS)


def psnr_table(results: Results, paper: Psnrs) -> str:
    """Return the paper's table: a row for each method and a column for each picture."""
    headings = [""] + [heading for name in PICTURES for heading in (name.capitalize(), "paper")]
    rows = []
    for method in (*METHODS, "defaults", "cubic"):
        row = [LABELS[method]]
        for name in PICTURES:
            row.append(triple(results[name, method]) if (name, method) in results else "")
            row.append(f"{paper[method][name]:.1f}" if method in METHODS else "")
        rows.append(row)
    return table(headings, rows)


def speed_table(results: Results, paper: dict[str, float]) -> str:
    """Return a table of the times for a batch, for pictures of the same size."""
    large = [name for name in pictures_of(results) if name in ("boat", "barbara", "lena")]
    rows = [
        [
            LABELS[method],
            f"{1000 * mean(results[name, method]['step_seconds'] for name in large):.1f}",
            f"{1000 * paper[method]:.0f}",
            f"{mean(results[name, method]['training_seconds'] for name in large):.1f}",
        ]
        for method in METHODS
    ]
    return table(["", "ms a batch", "paper", "s of training"], rows)


def reached(results: Results, over: str, task: str) -> dict[str, dict[str, float]]:
    """Return what every method reached on every picture, including our defaults and interpolation."""
    return {
        f"{task} of {name.capitalize()} (dB)": {
            method: results[name, method][over]
            for method in (*METHODS, "defaults", "cubic")
            if (name, method) in results
        }
        for name in pictures_of(results)
    }


def closest(results: Results, paper: Psnrs, methods: Iterable[str]) -> str:
    """Return in words how often each of the three PSNRs is the closest to the paper's."""
    counts = Counter(
        min(KINDS, key=lambda kind: abs(found[kind] - said))
        for name in pictures_of(results)
        for found, said in ((results[name, method], paper[method][name]) for method in methods)
    )
    return ", ".join(f"over {kind} pixels in {counts[kind]}" for kind in KINDS)


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values."""
    return float(np.mean(list(values)))


def claims_of(results: Results, paper: Psnrs, over: str, task: str) -> list[Claim]:
    """Judge what the paper says about both tasks, by the PSNR over missing or over all pixels."""
    pictures = pictures_of(results)
    if not pictures:
        return []
    average = {method: mean(results[name, method][over] for name in pictures) for method in METHODS}
    listed = ", ".join(f"{LABELS[method]} {average[method]:.1f}" for method in METHODS)
    said = ", ".join(
        f"{LABELS[method]} {mean(paper[method][name] for name in PICTURES):.1f}" for method in METHODS
    )
    n = len(pictures)

    def better(one: str, other: str) -> int:
        return sum(results[name, one][over] > results[name, other][over] for name in pictures)

    pairs = [(one, other) for one in GIBBS_KINDS for other in MEAN_FIELD_KINDS]
    wins = sum(better(one, other) for one, other in pairs)
    gibbs, mimno = better("gibbs-ssvi", "mimno-svi"), better("mimno-svi", "mf-ssvi")
    gap = mean(average[method] for method in GIBBS_KINDS) - mean(
        average[method] for method in MEAN_FIELD_KINDS
    )
    titsias = average["titsias-ssvi"] - average["mf-ssvi"]
    return [
        Claim(
            f"{task}: Mimno-SVI and Gibbs-SSVI consistently and significantly outperform the mean-field "
            f"kinds (means of the table: {said})",
            f"mean PSNR over {over} pixels, Gibbs start: {listed}; the Gibbs kinds win {wins} of "
            f"{n * len(pairs)} comparisons, by {gap:+.2f} dB on average",
            by_wins(wins, n * len(pairs), enough=gap >= SIGNIFICANT),
        ),
        Claim(
            f"{task}: Gibbs-SSVI modestly outperforms Mimno-SVI (on 4 of 5 pictures)",
            f"on {gibbs} of {n}, by {average['gibbs-ssvi'] - average['mimno-svi']:+.2f} dB on average",
            verdict(gibbs >= 0.8 * n, average["gibbs-ssvi"] > average["mimno-svi"]),
        ),
        Claim(
            f"{task}: Mimno-SVI, unstructured, predicts better than MF-SSVI, structured",
            f"on {mimno} of {n}, by {average['mimno-svi'] - average['mf-ssvi']:+.2f} dB on average",
            by_wins(mimno, n),
        ),
        Claim(
            f"{task}: Titsias-SSVI does not significantly outperform MF-SSVI (1.1 dB in the paper's table)",
            f"{titsias:+.2f} dB on average",
            verdict(titsias < 1.5),
        ),
        level_claim(results, paper, task),
    ]


def level_claim(results: Results, paper: Psnrs, task: str) -> Claim:
    """Judge the PSNRs themselves, by the best method over missing pixels."""
    pictures = pictures_of(results)
    others = "".join(
        f"; {LABELS[method]} has {mean(results[name, method]['missing'] for name in pictures):.1f} dB over "
        "missing pixels on average"
        for method in ("cubic", "defaults")
        if all((name, method) in results for name in pictures)
    )
    best = mean(
        max(results[name, method]["missing"] for method in METHODS) - paper["gibbs-ssvi"][name]
        for name in pictures
    )
    return Claim(
        f"{task}: the PSNRs of the table, up to {max(max(row.values()) for row in paper.values()):.1f} dB",
        f"over missing pixels, the best method is {best:+.1f} dB from the paper's Gibbs-SSVI; the closest of "
        "our three PSNRs to the paper's is, for the Gibbs kinds, that "
        f"{closest(results, paper, GIBBS_KINDS)} cells; for the mean-field kinds, that "
        f"{closest(results, paper, MEAN_FIELD_KINDS)}{others}",
        verdict(abs(best) < 2.0),
    )


# A difference in sharpness that a reader would see.
VISIBLE = 0.05


def blur_claim(results: Results, task: str) -> list[Claim]:
    """Judge the reason that the paper gives for the difference: blurred pictures."""
    pictures = pictures_of(results)
    if not pictures:
        return []
    sharp = {method: mean(results[name, method]["sharpness"] for name in pictures) for method in METHODS}
    wins = sum(sharp[one] > sharp[other] for one in GIBBS_KINDS for other in MEAN_FIELD_KINDS)
    by = mean(sharp[method] for method in GIBBS_KINDS) - mean(sharp[method] for method in MEAN_FIELD_KINDS)
    listed = ", ".join(f"{LABELS[method]} {sharp[method]:.2f}" for method in METHODS)
    return [
        Claim(
            f"{task}: pictures by the mean-field kinds look blurred, those by the Gibbs kinds have more "
            "detail",
            f"mean difference of neighbouring pixels, as a share of the original's: {listed}; the Gibbs "
            f"kinds have {by:+.2f}, and a difference of {VISIBLE} counts as visible",
            by_wins(wins, len(GIBBS_KINDS) * len(MEAN_FIELD_KINDS), enough=by >= VISIBLE),
        )
    ]


def caption(what: str) -> str:
    """Return the caption of a figure made by `draw_figure`."""
    return (
        f"{what}: PSNR over time for both starts, and a part of the picture. The points are restored from "
        "every fourth patch along each axis and with fewer draws, so that they lie below those of the table"
    )


def draw_figure(panels: dict[str, Lines], picture: str, over: str, figures: Path) -> bool:
    """Draw curves for both starts and four pictures, as in the paper; return False if anything is missing."""
    names = {f"{picture}-truth": "original", f"{picture}-seen": "what is seen"}
    names |= {f"{picture}-{method}": LABELS[method] for method in ("gibbs-ssvi", "mf-ssvi")}
    files = {title: figures / "pictures" / f"{name}.jpg" for name, title in names.items()}
    if not all(panels.values()) or not all(file.exists() for file in files.values()):
        return False
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(WIDTH, 9.6), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=[6.2, 3.4])
        draw_panels(above, panels, over)
        for axes, (title, file) in zip(below.subplots(2, 2).flat, files.items(), strict=True):
            axes.imshow(imread(file), cmap="gray", vmin=0, vmax=255)
            axes.set_title(title, fontsize=10)
            axes.set_axis_off()
        save(figure, figures / picture, ["png"])
        # The SVG is without the pictures, which would only make the file large.
        curves = plt.figure(figsize=(WIDTH, 6.4), layout="constrained")
        draw_panels(curves, panels, over)
        save(curves, figures / picture, ["svg"])
    return True


def draw_panels(figure: FigureBase, panels: dict[str, Lines], over: str) -> None:
    """Draw the curves of both starts on the same scales."""
    all_axes = figure.subplots(2, 1, sharex=True, sharey=True)
    for axes, (title, lines) in zip(all_axes, panels.items(), strict=True):
        draw_lines(axes, lines)
        axes.set(title=title, ylabel=f"PSNR, {over} pixels (dB)", xscale="log")
    all_axes[-1].set_xlabel("training time, start included (s), log scale")
    legend(figure, all_axes[0])


def curves_of(records: list[Record], picture: str, init: str) -> Lines:
    """Return the curves of a picture with one start."""
    return {
        method: result["curve"]
        for method in METHODS
        if "curve" in (result := select(records, init).get((picture, method), {}))
    }
