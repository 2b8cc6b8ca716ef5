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
TRIED = ROOT / "docs" / "tried.md"


class Section(NamedTuple):
    """Where a section stands, and what it is made from."""

    page: Path
    results: Path


SECTIONS = {
    "peers": Section(README, RESULTS / "kernels.json"),
    "sparse": Section(README, RESULTS / "kernels-sparse.json"),
    "methods": Section(README, RESULTS / "kernels.json"),
    "ceilings": Section(README, RESULTS / "kernels.json"),
    "growth": Section(README, RESULTS / "kernels.json"),
    "memory": Section(README, RESULTS / "memory.json"),
    "defaults": Section(README, RESULTS / "defaults.json"),
    "table_starts": Section(README, RESULTS / "table_starts.json"),
    "images": Section(README, RESULTS / "images.json"),
    "image_defaults": Section(README, RESULTS / "image_defaults.json"),
    "imputation": Section(README, RESULTS / "imputation.json"),
    "gpu": Section(README, RESULTS / "gpu.json"),
    "ablation": Section(README, RESULTS / "ablation.json"),
    "tried": Section(TRIED, RESULTS / "tried.json"),
}


def link_from(section: str, file: Path) -> str:
    """Return the path of a file relative to the page of a section, as Markdown wants it.

    Examples
    --------
    >>> link_from("tried", ROOT / "benchmarks" / "figures" / "ablation.png")
    '../benchmarks/figures/ablation.png'
    """
    return Path(os.path.relpath(file, SECTIONS[section].page.parent)).as_posix()
