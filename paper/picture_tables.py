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
from paper.chains import Judged, study_table
from paper.experiment import Claim, Verdict, by_wins, verdict
from paper.figures import Lines, draw_lines
from paper.matrix_tables import studies
from paper.methods import GIBBS_KINDS, INTRA_LOCAL, LABELS, MEAN_FIELD_KINDS, METHODS
from paper.picture_ladders import STUDIED
from paper.pictures import PICTURES
from paper.readings import (
    JUDGED_BY,
    READINGS,
    Found,
    Judge,
    Reached,
    found_in,
    judged_twice,
    listed_means,
    mean_gap,
    merged,
    readings_table,
    wins,
)
from paper.summary import MOMENTS, apart, how_many

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


def others(results: Results) -> Results:
    """Return the results of our defaults and of interpolation."""
    return {key: result for key, result in results.items() if key[1] in ("defaults", "cubic")}


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


def closest_kind(results: Results, paper: Psnrs, name: str, method: str) -> str:
    """Return over which pixels our PSNR is the closest to the paper's."""
    found, said = results[name, method], paper[method][name]
    return min(KINDS, key=lambda kind: abs(found[kind] - said))


def closest(results: Results, paper: Psnrs, methods: Iterable[str]) -> dict[str, int]:
    """Return how often each of the three PSNRs is the closest to the paper's."""
    counts = Counter(
        closest_kind(results, paper, name, method) for name in pictures_of(results) for method in methods
    )
    return {kind: counts[kind] for kind in KINDS}


def in_words(counts: dict[str, int]) -> str:
    """Return in words how often each of the three PSNRs is the closest.

    Examples
    --------
    >>> in_words({"all": 1, "observed": 2})
    'over all pixels in 1, over observed pixels in 2'
    """
    return ", ".join(f"over {kind} pixels in {count}" for kind, count in counts.items())


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values."""
    return float(np.mean(list(values)))


def claims_of(reached: Reached, paper: Psnrs, over: str, task: str) -> list[Claim]:
    """Judge what the paper says about both tasks, by the PSNR over missing or over all pixels."""
    if not reached["best"]:
        return []
    said = ", ".join(
        f"{LABELS[method]} {mean(paper[method][name] for name in PICTURES):.1f}" for method in METHODS
    )

    def dependence(found: Found) -> tuple[str, Verdict]:
        won, total = wins(found, INTRA_LOCAL)
        gap = mean_gap(found, GIBBS_KINDS, MEAN_FIELD_KINDS)
        evidence = f"{listed_means(found, 1)} dB; the Gibbs kinds win {won} of {total}, by {gap:+.2f} dB"
        return evidence, by_wins(won, total, enough=gap >= SIGNIFICANT)

    def structured(found: Found) -> tuple[str, Verdict]:
        won, total = wins(found, [("gibbs-ssvi", "mimno-svi")])
        gap = mean_gap(found, ["gibbs-ssvi"], ["mimno-svi"])
        return f"in {won} of {total} runs, by {gap:+.2f} dB", verdict(won >= 0.8 * total, gap > 0)

    def unstructured(found: Found) -> tuple[str, Verdict]:
        won, total = wins(found, [("mimno-svi", "mf-ssvi")])
        gap = mean_gap(found, ["mimno-svi"], ["mf-ssvi"])
        return f"in {won} of {total} runs, by {gap:+.2f} dB", by_wins(won, total)

    def titsias(found: Found) -> tuple[str, Verdict]:
        gap = mean_gap(found, ["titsias-ssvi"], ["mf-ssvi"])
        return f"{gap:+.2f} dB", verdict(gap < 1.5)

    texts: list[tuple[str, Judge]] = [
        (
            "Mimno-SVI and Gibbs-SSVI consistently and significantly outperform the mean-field kinds (means "
            f"of the table: {said})",
            dependence,
        ),
        ("Gibbs-SSVI modestly outperforms Mimno-SVI (on 4 of 5 pictures)", structured),
        ("Mimno-SVI, unstructured, predicts better than MF-SSVI, structured", unstructured),
        ("Titsias-SSVI does not significantly outperform MF-SSVI (1.1 dB in the paper's table)", titsias),
    ]
    return [judged_twice(f"{task} ({over} pixels): {text}", reached, judge) for text, judge in texts]


def level_claims(records: list[Record], results: Results, paper: Psnrs, task: str) -> list[Claim]:
    """Judge the PSNRs themselves, by the best method over missing pixels."""
    found = {reading: mean_results(records, reading) for reading in READINGS}
    pictures = pictures_of(found["best"])
    if not pictures:
        return []
    others = "".join(
        f"; {LABELS[method]} has {mean(results[name, method]['missing'] for name in pictures):.1f} dB over "
        "missing pixels on average"
        for method in ("cubic", "defaults")
        if all((name, method) in results for name in pictures)
    )
    gaps = [
        mean(
            max(found[reading][name, method]["missing"] for method in METHODS) - paper["gibbs-ssvi"][name]
            for name in pictures
        )
        for reading in READINGS
    ]
    top = max(max(row.values()) for row in paper.values())
    return [
        Claim(
            f"{task}: the PSNRs of the table, up to {top:.1f} dB",
            f"over missing pixels, the best method is {gaps[0]:+.1f} dB from the paper's Gibbs-SSVI at its "
            f"best, {gaps[1]:+.1f} dB at its end; the closest of our three PSNRs to the paper's is, for the "
            f"Gibbs kinds, that {in_words(closest(found['best'], paper, GIBBS_KINDS))} cells; for the "
            f"mean-field kinds, that {in_words(closest(found['best'], paper, MEAN_FIELD_KINDS))}{others}",
            verdict(abs(gaps[0]) < 2.0),
            verdict(abs(gaps[1]) < 2.0),
        )
    ]


def ladders_of(records: list[Record], picture: str) -> list[Record]:
    """Return the records of a picture that was judged at a ladder of steps."""
    return [
        record
        for record in records
        if "ladder" in record["settings"] and record["settings"]["picture"] == picture
    ]


def mean_results(records: list[Record], reading: str) -> Results:
    """Return the PSNRs of every picture and method in one reading, as means over the seeds."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for record in records:
        if "ladder" in (settings := record["settings"]):
            scores = record["result"]["readings"][reading][JUDGED_BY]
            found.setdefault((settings["picture"], settings["method"]), []).append(scores)
    return {key: {kind: mean(one[kind] for one in of_key) for kind in KINDS} for key, of_key in found.items()}


def readings_of(records: list[Record], over: str, judged: Judged) -> str:
    """Return the tables of both readings, one for each picture, and the study of chains."""
    parts = [
        f"{name.capitalize()}, PSNR over {over} pixels, {seeds_of(of_picture)}:\n\n"
        + readings_table(of_picture, over, 2)
        for name in PICTURES
        if (of_picture := ladders_of(records, name))
    ]
    if study := studies(records):
        parts.append(
            f"How long the chains have to be, {STUDIED.capitalize()}, seed 0, by the PSNR over {over} "
            f"pixels:\n\n{study_table(study, judged, 2)}"
        )
    return "\n\n".join(parts)


def seeds_of(records: list[Record]) -> str:
    """Return in words with how many seeds the methods have been run."""
    counts = Counter(record["settings"]["method"] for record in records).values()
    return " to ".join(str(count) for count in sorted({min(counts), max(counts)})) + " seeds by method"


def reached(records: list[Record], results: Results, over: str, task: str) -> Reached:
    """Return what every method reached on every picture, including our defaults and interpolation."""
    parts = []
    for name in PICTURES:
        title = f"{task} of {name.capitalize()} (dB)"
        others = {
            method: results[name, method][over]
            for method in ("defaults", "cubic")
            if (name, method) in results
        }
        found = found_in(ladders_of(records, name), title, over)
        parts.append(
            {
                reading: {key: {**scores, **others} for key, scores in of_reading.items()}
                for reading, of_reading in found.items()
            }
        )
    return merged(parts)


def summary(reached: Reached, records: list[Record], paper: Psnrs, task: str) -> list[str]:
    """Return a line about the gap between the kinds in both readings, and about which pixels were counted."""
    if not reached["best"]:
        return []
    best, end = (mean_gap(reached[reading], GIBBS_KINDS, MEAN_FIELD_KINDS) for reading in READINGS)
    said = mean(
        mean(paper[method][name] for method in GIBBS_KINDS)
        - mean(paper[method][name] for method in MEAN_FIELD_KINDS)
        for name in PICTURES
    )
    word = "reproduces" if min(best, end) > said / 2 else "does not reproduce"
    texts = [apart(gap, "dB", 1) for gap in (best, end)]
    where = (
        f"{texts[0]}, {MOMENTS['best']} and {MOMENTS['end']}"
        if texts[0] == texts[1]
        else f"{texts[0]} {MOMENTS['best']}, and {texts[1]} {MOMENTS['end']}"
    )
    return [
        f"**{task}: the paper's lead of {said:.0f} dB for the Gibbs kinds {word}.** They are {where}. "
        f"{closest_in_words(mean_results(records, 'best'), paper)}"
    ]


def closest_in_words(results: Results, paper: Psnrs) -> str:
    """Return a sentence about how often the paper's numbers are closest to ours over observed pixels."""
    gibbs, mean_field = (closest(results, paper, kinds) for kinds in (GIBBS_KINDS, MEAN_FIELD_KINDS))
    shares = [counts["observed"] / sum(counts.values()) for counts in (gibbs, mean_field)]
    texts = [how_many(counts["observed"], sum(counts.values())) for counts in (gibbs, mean_field)]
    different = ", as if other pixels had been scored" if shares[0] > 0.5 > shares[1] else ""
    return (
        f"{texts[0].capitalize()} of the paper's numbers for the Gibbs kinds, and {texts[1]} for the "
        f"mean-field kinds, are closest to ours over *observed* pixels{different}."
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
