"""Table 1, right entries, and the Barbara figure: half of the pixels, with noise of 15 grey levels."""

from __future__ import annotations

from pathlib import Path

from experiments.cells import Cell, Record
from experiments.pictures import PictureTask
from paper.chains import lengths_in_words
from paper.experiment import Experiment, Options, Section
from paper.figures import image_link
from paper.methods import METHODS
from paper.picture_ladders import cells_of, run
from paper.picture_tables import (
    blur_claim,
    caption,
    claims_of,
    curves_of,
    draw_figure,
    level_claims,
    mean_results,
    others,
    psnr_table,
    reached,
    readings_of,
    select,
    summary,
)
from paper.pictures import PICTURES, cell

OBSERVED, NOISE = 0.5, 15.0
PAPER = {
    "mf-svi": dict(zip(PICTURES, (19.5, 20.6, 23.6, 24.2, 24.4), strict=True)),
    "mf-ssvi": dict(zip(PICTURES, (20.8, 21.4, 24.4, 25.4, 24.1), strict=True)),
    "titsias-ssvi": dict(zip(PICTURES, (21.5, 21.7, 25.8, 25.3, 26.8), strict=True)),
    "mimno-svi": dict(zip(PICTURES, (29.7, 35.1, 36.9, 40.1, 40.4), strict=True)),
    "gibbs-ssvi": dict(zip(PICTURES, (31.5, 37.0, 41.7, 37.8, 42.3), strict=True)),
}
FIGURE = "barbara"


def cells(options: Options) -> list[Cell]:
    found = []
    for picture in PICTURES if options.scale != "tiny" else (FIGURE,):
        task, drawn = PictureTask(picture, OBSERVED, NOISE), picture == FIGURE
        for init in ("gibbs", "random") if drawn else ("gibbs",):
            for method in METHODS:
                show = drawn and init == "gibbs" and method in ("gibbs-ssvi", "mf-ssvi")
                found.append(cell(options, task, method, init, curve=drawn, show=show))
        found += [cell(options, task, method) for method in ("defaults", "cubic")]
    return found + cells_of(options, OBSERVED, NOISE, FIGURE)


def section(records: list[Record], figures: Path) -> Section:
    results = select(records, "gibbs")
    parts = [
        "50 % of the pixels are observed, with Gaussian noise of 15 grey levels; otherwise as above. The "
        "PSNR is relative to the picture without noise, over all / missing / observed pixels. The noisy "
        "pixels themselves have 24.6 dB. Cubic interpolation leaves them unchanged. Half of all pixels "
        "choose the step, by the picture without noise, and the others are scored. "
        f"{lengths_in_words('denoising')}",
        psnr_table(mean_results(records, "best") | others(results), PAPER),
        readings_of(records, "all", "denoising"),
    ]
    panels = {
        "Gibbs initialisation": curves_of(records, FIGURE, "gibbs"),
        "Random initialisation": curves_of(records, FIGURE, "random"),
    }
    if draw_figure(panels, FIGURE, "all", figures):
        parts.append(image_link(FIGURE, caption("Barbara from half of its pixels with noise")))
    found = reached(records, results, "all", "Denoising")
    claims = [
        *claims_of(found, PAPER, "all", "Denoising"),
        *level_claims(records, results, PAPER, "Denoising"),
        *blur_claim(results, "Denoising"),
    ]
    return Section(claims, "\n\n".join(parts), found, summary(found, records, PAPER, "Denoising"))


EXPERIMENT = Experiment(
    "denoising", "Denoising (table 1, right; Barbara figure)", cells, run, section, on_device=True
)
