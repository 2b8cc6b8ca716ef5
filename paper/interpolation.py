"""Table 1, left entries, and the Boat figure: pictures of which 20 % of the pixels are observed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.cells import Cell, Record
from experiments.markdown import table
from experiments.pictures import PictureTask
from paper.chains import lengths_in_words
from paper.experiment import Claim, Experiment, Options, Section, verdict
from paper.figures import image_link
from paper.methods import GIBBS_KINDS, LABELS, MEAN_FIELD_KINDS, METHODS
from paper.picture_ladders import cells_of, run
from paper.picture_tables import (
    Results,
    blur_claim,
    caption,
    claims_of,
    curves_of,
    draw_figure,
    level_claims,
    mean,
    mean_results,
    others,
    pictures_of,
    psnr_table,
    reached,
    readings_of,
    select,
    speed_table,
    summary,
    triple,
)
from paper.pictures import PICTURES, SLOW, STARTS, cell

OBSERVED = 0.2
PAPER = {
    "mf-svi": dict(zip(PICTURES, (21.1, 21.8, 24.1, 25.3, 25.9), strict=True)),
    "mf-ssvi": dict(zip(PICTURES, (22.3, 22.2, 24.7, 26.7, 25.8), strict=True)),
    "titsias-ssvi": dict(zip(PICTURES, (23.2, 22.1, 26.3, 26.7, 27.9), strict=True)),
    "mimno-svi": dict(zip(PICTURES, (32.4, 36.2, 39.4, 42.8, 43.7), strict=True)),
    "gibbs-ssvi": dict(zip(PICTURES, (34.3, 38.2, 43.3, 40.5, 47.4), strict=True)),
}
PAPER_SECONDS = dict(zip(METHODS, (0.12, 0.12, 0.13, 0.46, 0.48), strict=True))
PAPER_GAIN = {"mean-field kinds": 4.8, "Gibbs kinds": 1.0}
FIGURE = "boat"


def cells(options: Options) -> list[Cell]:
    found = []
    for picture in PICTURES if options.scale != "tiny" else (FIGURE,):
        task, drawn = PictureTask(picture, OBSERVED, 0.0), picture == FIGURE
        for init in ("gibbs", "random", *(STARTS if drawn else ())):
            for method in METHODS:
                curve = drawn and init not in STARTS
                show = curve and init == "gibbs" and method in ("gibbs-ssvi", "mf-ssvi")
                found.append(cell(options, task, method, init, curve=curve, show=show))
        if drawn:
            found += [cell(options, task, "mf-svi", init, schedule=SLOW) for init in ("gibbs", "random")]
            found += [cell(options, task, method, blocked=False) for method in GIBBS_KINDS]
        found += [cell(options, task, method) for method in ("defaults", "cubic")]
    return found + cells_of(options, OBSERVED, 0.0, FIGURE)


def section(records: list[Record], figures: Path) -> Section:
    results = {init: select(records, init) for init in ("gibbs", "random", *STARTS)}
    settings: dict[str, Any] = next(record["settings"] for record in records if "steps" in record["settings"])
    parts = [
        f"20 % of the pixels are observed; 8 x 8 patches, K = 250, {settings['steps']:,} batches of 250 "
        "patches, started from a Gibbs run on 1000 patches (30 sweeps). The first table shows the PSNR in dB "
        "over all / missing / observed pixels of the average over overlapping patches, at the best step and "
        "by long chains, as means over the seeds; the paper gives one PSNR and does not say over which "
        "pixels. Half of the missing pixels choose the step, by a restoration with short chains and fewer "
        "draws, and all scores are over the other half. Our defaults and interpolation leave observed pixels "
        f"unchanged, so that they are exact there. {lengths_in_words('interpolation')}",
        psnr_table(mean_results(records, "best") | others(results["gibbs"]), PAPER),
        readings_of(records, "missing", "interpolation"),
        gain_table(results),
        two_steps(records),
        speed_table(results["gibbs"], PAPER_SECONDS) if pictures_of(results["gibbs"]) else "",
    ]
    panels = {
        "Gibbs initialisation": curves_of(records, FIGURE, "gibbs"),
        "Random initialisation": curves_of(records, FIGURE, "random"),
    }
    if draw_figure(panels, FIGURE, "missing", figures):
        parts.append(image_link(FIGURE, caption("Boat from 20 % of its pixels")))
    found = reached(records, results["gibbs"], "missing", "Interpolation")
    claims = [
        *claims_of(found, PAPER, "missing", "Interpolation"),
        *level_claims(records, results["gibbs"], PAPER, "Interpolation"),
        *gain_claims(results),
        *schedule_claim(records),
        *speed_claim(results["gibbs"]),
        *blur_claim(results["gibbs"], "Interpolation"),
        *overlap_claim(results["gibbs"]),
    ]
    body = "\n\n".join(filter(None, parts))
    return Section(claims, body, found, summary(found, records, PAPER, "Interpolation"))


def gains(results: dict[str, Results], method: str, over: str) -> float:
    """Return the mean gain of a start from a Gibbs run over our random start."""
    both = [name for name in pictures_of(results["gibbs"]) if name in pictures_of(results["random"])]
    return mean(results["gibbs"][name, method][over] - results["random"][name, method][over] for name in both)


def gain_table(results: dict[str, Results]) -> str:
    """Return a table of the gain by the Gibbs start, and of what other random starts reach on Boat."""
    if not pictures_of(results["random"]):
        return ""
    starts = [start for start in STARTS if (FIGURE, "mf-svi") in results[start]]
    rows = [
        [LABELS[method], *(f"{gains(results, method, over):+.2f}" for over in ("all", "missing", "observed"))]
        + [f"{PAPER_GAIN['mean-field kinds' if method in MEAN_FIELD_KINDS else 'Gibbs kinds']:+.1f}"]
        + [f"{results[init][FIGURE, method]['missing']:.1f}" for init in ("gibbs", "random", *starts)]
        for method in METHODS
    ]
    headings = ["", "gain, all", "missing", "observed", "paper", "Boat: Gibbs", "random"]
    return (
        "The gain of the Gibbs start over our random start (which takes all of the variance for noise and "
        "has one feature per row), as the mean over the pictures; and the PSNR over the missing pixels of "
        "Boat with other random starts, which have half of the features on and take all of the variance, or "
        "a tenth of it, for noise:\n\n" + table([*headings, *starts], rows)
    )


def two_steps(records: list[Record]) -> str:
    """Return a sentence about the PSNRs on Boat where z and w are drawn one after the other."""
    found = {
        settings["method"]: record["result"]
        for record in records
        if "blocked" in (settings := record["settings"])
    }
    listed = ", ".join(f"{LABELS[method]} reaches {triple(found[method])} dB" for method in found)
    return f"With z and w drawn one after the other, as the paper says, {listed} on Boat." if found else ""


def gain_claims(results: dict[str, Results]) -> list[Claim]:
    if not pictures_of(results["random"]) or not pictures_of(results["gibbs"]):
        return []
    gain = {
        over: [
            mean(gains(results, method, over) for method in kinds)
            for kinds in (MEAN_FIELD_KINDS, GIBBS_KINDS)
        ]
        for over in ("all", "missing")
    }
    mean_field, gibbs = gain["missing"]
    return [
        Claim(
            "A Gibbs start gains 4.8 dB over a random one for the mean-field kinds, and 1.0 dB for the Gibbs "
            "kinds, which are less sensitive to it",
            f"{mean_field:+.2f} and {gibbs:+.2f} dB over missing pixels ({gain['all'][0]:+.2f} and "
            f"{gain['all'][1]:+.2f} over all) from our random start; other random starts are in the table",
            verdict(mean_field > 3.0, abs(gibbs) < abs(mean_field)),
        )
    ]


def schedule_claim(records: list[Record]) -> list[Claim]:
    slow = {
        settings["init"]: record["result"]["missing"]
        for record in records
        if "schedule" in (settings := record["settings"])
    }
    usual = {init: select(records, init).get((FIGURE, "mf-svi")) for init in ("gibbs", "random")}
    if len(slow) < 2 or not all(usual.values()):
        return []
    gain, usual_gain = slow["gibbs"] - slow["random"], usual["gibbs"]["missing"] - usual["random"]["missing"]
    return [
        Claim(
            "Step sizes (t + 1000)^-0.5, as used by Li et al. (2012), make mean field rely on its start",
            f"Boat, MF-SVI: the Gibbs start gains {gain:+.1f} dB with them ({slow['gibbs']:.1f} and "
            f"{slow['random']:.1f}), {usual_gain:+.1f} dB with t^-0.75",
            verdict(gain > usual_gain + 1.0),
        )
    ]


def speed_claim(results: Results) -> list[Claim]:
    pictures = pictures_of(results)
    if not pictures:
        return []
    seconds = {method: mean(results[name, method]["step_seconds"] for name in pictures) for method in METHODS}
    listed = ", ".join(f"{1000 * seconds[method]:.1f}" for method in METHODS)
    ratio = mean(seconds[method] for method in GIBBS_KINDS) / mean(
        seconds[method] for method in MEAN_FIELD_KINDS
    )
    return [
        Claim(
            "A batch takes 0.12, 0.12, 0.13, 0.46 and 0.48 s: the Gibbs kinds cost about four times the "
            "others, a mild cost",
            f"{listed} ms: {ratio:.1f} times, as a Gibbs sweep costs little for features that stay off",
            verdict(ratio > 1.5),
        )
    ]


def overlap_claim(results: Results) -> list[Claim]:
    pictures = pictures_of(results)
    if not pictures:
        return []
    gain = [
        results[name, method]["missing"] - results[name, method]["missing_without_overlap"]
        for name in pictures
        for method in METHODS
    ]
    return [
        Claim(
            "Averaging over overlapping patches is beneficial to prediction",
            f"{mean(gain):+.1f} dB over missing pixels against patches side by side; in "
            f"{sum(g > 0 for g in gain)} of {len(gain)} cells",
            verdict(min(gain) > 0, mean(gain) > 0),
        )
    ]


EXPERIMENT = Experiment(
    "interpolation", "Interpolation (table 1, left; Boat figure)", cells, run, section, on_device=True
)
