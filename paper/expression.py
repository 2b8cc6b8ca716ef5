"""The figure of the cell lines: gene expression with 10 % of the entries hidden, five methods over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.cells import Cell, Record
from paper.experiment import Experiment, Options, Section
from paper.figures import image_link, likelihood_curves
from paper.matrices import cells_of, run
from paper.methods import METHODS

DATASETS = {
    "TCGA": "TCGA (16,428 genes x 350 samples), in place of the paper's CCLE matrix, which is not "
    "available to us",
    "CCLE": "an excerpt of CCLE itself (1,000 genes x 500 cell lines)",
}
SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "features": 500, "steps": (64, 125, 250, 500, 1000, 2000), "rows": None, "validated": 150,
        "scored": 300, "seeds": 3,
    },
    "quick": {
        "features": 500, "steps": (25, 50, 100), "rows": 4000, "validated": 10, "scored": 20, "seeds": 1,
    },
    "tiny": {"features": 8, "steps": (2, 4), "rows": 60, "validated": 10, "scored": 20, "seeds": 2},
}  # fmt: skip


def cells(options: Options) -> list[Cell]:
    names = ("TCGA",) if options.scale == "tiny" else tuple(DATASETS)
    return [cell for name in names for cell in cells_of(name, SIZES[options.scale])]


def section(records: list[Record], figures: Path) -> Section:
    parts = [
        "Rows are genes; K = 500, batches of 250, random start, one seed. The log-likelihood is per hidden "
        "entry of the standardised data. The runs end after a given time, so that their number of steps "
        "differs from machine to machine; our defaults decide by themselves when to stop. The paper shows a "
        "figure without numbers."
    ]
    claims, panels, levels, found = [], {}, {}, {}
    for dataset, description in DATASETS.items():
        if not (results := results_of(records, dataset)):
            continue
        parts.append(f"{description[0].upper()}{description[1:]}:\n\n{results_table(results)}")
        panels[dataset] = {method: results[method]["curve"] for method in METHODS if method in results}
        if "defaults" in results:
            levels[dataset] = {"defaults": results["defaults"]["log_likelihood"]}
        claims += order_claims(results, f"Expression, {dataset}", " (figure)")
        found |= reached(results, f"Expression, {dataset}")
    likelihood_curves(panels, figures / "expression", levels)
    parts.append(
        image_link("expression", "Gene expression: log-likelihood over time, and our defaults at their end")
    )
    return Section(claims, "\n\n".join(parts), found)


EXPERIMENT = Experiment("expression", "Gene expression (figure of cell lines)", cells, run, section)
