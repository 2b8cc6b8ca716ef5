"""The pages on which the tables of the benchmarks stand, and the result files from which they are made.

A section of a page begins with the marker `<!-- name -->` and ends with `<!-- end -->`. Moving a section to
another page takes two steps: its markers move there, and the page is changed here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from experiments import ROOT

RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "benchmarks" / "README.md"
ACCURACY = ROOT / "benchmarks" / "ACCURACY.md"
FRONT = (ROOT / "README.md", ROOT / "docs" / "index.md")
NOTES = ROOT / "docs" / "notes"
CLUSTER = ROOT / "docs" / "cluster.md"


class Section(NamedTuple):
    """Where a section stands, and what it is made from."""

    page: Path
    results: Path


SECTIONS = {
    "peers": Section(README, RESULTS / "kernels.json"),
    "sparse": Section(NOTES / "cpu-kernels.md", RESULTS / "kernels-sparse.json"),
    "methods": Section(NOTES / "cpu-kernels.md", RESULTS / "kernels.json"),
    "ceilings": Section(NOTES / "cpu-kernels.md", RESULTS / "kernels.json"),
    "growth": Section(NOTES / "cpu-kernels.md", RESULTS / "kernels.json"),
    "threads": Section(README, RESULTS / "threads.json"),
    "memory": Section(README, RESULTS / "memory.json"),
    "live_cuda": Section(README, RESULTS / "live-cuda.json"),
    "live_cpu": Section(README, RESULTS / "live-cpu.json"),
    "large_table": Section(README, RESULTS / "large_table.json"),
    "cluster": Section(CLUSTER, RESULTS / "cluster.json"),
    "defaults": Section(NOTES / "defaults.md", RESULTS / "defaults.json"),
    "counts": Section(ACCURACY, RESULTS / "counts.json"),
    "held_out": Section(NOTES / "defaults.md", RESULTS / "held_out.json"),
    "readable": Section(ACCURACY, RESULTS / "readable.json"),
    "table_starts": Section(ACCURACY, RESULTS / "table_starts.json"),
    "images": Section(ACCURACY, RESULTS / "pictures.json"),
    "colour": Section(ACCURACY, RESULTS / "colour.json"),
    "image_defaults": Section(NOTES / "defaults.md", RESULTS / "image_defaults.json"),
    "imputation": Section(ACCURACY, RESULTS / "imputation.json"),
    "wide": Section(ACCURACY, RESULTS / "wide.json"),
    "panels": Section(ACCURACY, RESULTS / "panels.json"),
    "batches": Section(ACCURACY, RESULTS / "batches.json"),
    "like_rows": Section(ACCURACY, RESULTS / "like_rows.json"),
    "with_and_without": Section(ACCURACY, RESULTS / "with_and_without.json"),
    "gpu": Section(README, RESULTS / "gpu.json"),
    "ablation": Section(NOTES / "ablation.md", RESULTS / "ablation.json"),
    "tried": Section(NOTES / "tried.md", RESULTS / "tried.json"),
    "switches": Section(NOTES / "tried.md", RESULTS / "switches.json"),
}


def link_from(section: str, file: Path) -> str:
    """Return the path of a file relative to the page of a section, as Markdown wants it.

    Examples
    --------
    >>> link_from("tried", ROOT / "benchmarks" / "figures" / "ablation.png")
    '../../benchmarks/figures/ablation.png'
    """
    return Path(os.path.relpath(file, SECTIONS[section].page.parent)).as_posix()
