"""The figure of the cell lines: gene expression with 10 % of the entries hidden, over the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import Cell, Record
from paper.chains import lengths_in_words
from paper.experiment import Claim, Experiment, Options, Section
from paper.figures import image_link, likelihood_curves
from paper.matrices import cells_of, run
from paper.matrix_tables import body, curves, of_dataset, order_claims, reached_by
from paper.readings import merged
from paper.summary import matrix_line

DATASETS = {
    "TCGA": "TCGA (16,428 genes x 350 samples), in place of the paper's CCLE matrix, which is not "
    "available to us",
    "CCLE": "an excerpt of CCLE itself (1,000 genes x 500 cell lines)",
}
SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "features": 500, "steps": (64, 125, 250, 500, 1000), "rows": None, "validated": 100,
        "scored": 200, "seeds": 3,
    },
    "quick": {
        "features": 500, "steps": (15, 30, 60), "rows": 4000, "validated": 10, "scored": 20, "seeds": 1,
    },
    "tiny": {"features": 8, "steps": (2, 4), "rows": 60, "validated": 10, "scored": 20, "seeds": 2},
}  # fmt: skip


def cells(options: Options) -> list[Cell]:
    names = ("TCGA",) if options.scale == "tiny" else tuple(DATASETS)
    return [cell for name in names for cell in cells_of(name, SIZES[options.scale])]


def section(records: list[Record], figures: Path) -> Section:
    parts = [
        "Rows are genes; K = 500, batches of 250, random start. The log-likelihood is per hidden entry of "
        f"the standardised data. The paper shows a figure without numbers. {lengths_in_words('matrices')}"
    ]
    claims: list[Claim] = []
    panels, levels, found = {}, {}, []
    for dataset, description in DATASETS.items():
        if not (of_it := of_dataset(records, dataset)):
            continue
        task = f"Expression, {dataset}"
        of_task = reached_by(of_it, task)
        parts.append(f"{description[0].upper()}{description[1:]}:\n\n{body(of_it)}")
        if lines := curves(of_it):
            panels[dataset] = lines
        defaults = [scores["defaults"] for scores in of_task["best"].values() if "defaults" in scores]
        if defaults:
            levels[dataset] = {"defaults": float(np.mean(defaults))}
        claims += order_claims(of_task, task, " (figure)")
        found.append(of_task)
    likelihood_curves(panels, figures / "expression", levels, against="step")
    parts.append(
        image_link(
            "expression", "Gene expression: log-likelihood by long chains over the steps, and our defaults"
        )
    )
    reached = merged(found)
    return Section(claims, "\n\n".join(parts), reached, matrix_line(reached, "Gene expression"))


EXPERIMENT = Experiment(
    "expression", "Gene expression (figure of cell lines)", cells, run, section, on_device=True
)
