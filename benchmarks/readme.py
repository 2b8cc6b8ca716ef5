"""Write the tables of the benchmarks into their pages, from stored results: `python -m benchmarks.readme`.

The table of the README and of the first page of the site is then made from those pages.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks import (
    ablation,
    batches,
    cluster,
    colour,
    counts,
    defaults,
    front,
    held_out,
    image_defaults,
    images,
    imputation,
    kernel_tables,
    large_table,
    like_rows,
    live,
    memory,
    panels,
    readable,
    switches,
    table_starts,
    threads,
    tried,
    wide,
    with_and_without,
)
from benchmarks.gpu import page as gpu_page
from benchmarks.pages import FRONT, SECTIONS
from experiments.cells import write_whole
from experiments.markdown import replace_section

WRITERS: dict[str, Callable[..., str]] = {
    "peers": kernel_tables.peers,
    "sparse": kernel_tables.sparse,
    "methods": kernel_tables.methods,
    "ceilings": kernel_tables.ceilings,
    "growth": kernel_tables.growth,
    "threads": threads.markdown,
    "live_cuda": live.markdown,
    "live_cpu": live.markdown,
    "cluster": cluster.markdown,
    "memory": memory.markdown,
    "large_table": large_table.markdown,
    "defaults": defaults.markdown,
    "counts": counts.markdown,
    "held_out": held_out.markdown,
    "readable": readable.markdown,
    "table_starts": table_starts.markdown,
    "images": images.markdown,
    "colour": colour.markdown,
    "image_defaults": image_defaults.markdown,
    "imputation": imputation.markdown,
    "wide": wide.markdown,
    "panels": panels.markdown,
    "batches": batches.markdown,
    "like_rows": like_rows.markdown,
    "with_and_without": with_and_without.markdown,
    "gpu": gpu_page.markdown,
    "ablation": ablation.markdown,
    "tried": tried.markdown,
    "switches": switches.markdown,
}
"""Section -> the function that makes its text from its results."""


def main() -> None:
    """Replace the text between the markers of every section whose results are there."""
    for name, write in WRITERS.items():
        page, results = SECTIONS[name]
        if results.exists():
            content = write(json.loads(results.read_text()))
            write_whole(page, replace_section(page.read_text(), name, content))
    for page in FRONT:
        write_whole(page, replace_section(page.read_text(), "front", front.markdown()))


if __name__ == "__main__":
    main()
