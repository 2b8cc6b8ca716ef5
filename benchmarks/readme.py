"""Write the tables of benchmarks/README.md and docs/tried.md from results: `python -m benchmarks.readme`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.timing import Timing

HERE = Path(__file__).parent


def table(headings: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table whose first column is left-aligned and the others right."""
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def peers(results: dict) -> str:
    times = {name: Timing(*timing) for name, timing in results["peers"]["times"].items()}
    features = results["peers"]["features_a_row"]
    others = [name for name in times if not name.startswith("bpfa")]
    rows = [
        [name, str(timing), f"{features[name]:.1f}" if name in features else ""]
        + [
            f"{times[other].median / timing.median:.1f}x" if name.startswith("bpfa") else ""
            for other in others
        ]
        for name, timing in times.items()
    ]
    return table(["", "us a row", "features a row", *(f"{other} takes" for other in others)], rows)


def methods(results: dict) -> str:
    rows = [
        [
            f"{row['shape']}, {row['observed']:.0%} observed, {row['method']}",
            str(Timing(*row["kernel"])),
            f"{row['a_sweep']:.2f}",
            f"{row['specification']:.0f}",
            f"{row['specification'] / row['kernel'][0]:.0f}x",
        ]
        for row in results["methods"]
    ]
    return table(["", "us a row", "us a sweep", "NumPy, us a row", "ratio"], rows)


def ceilings(results: dict) -> str:
    measured, starts = results["ceilings"], results["starts"]
    rows = [
        [
            f"Gibbs, {float(share):.0%} observed",
            f"{row['multiply_adds']:.0f}",
            f"{row['fma_share']:.0%}",
            f"{row['copy_share']:.2%}",
        ]
        for share, row in measured["gibbs"].items()
    ]
    memory = ", ".join(f"{float(mb):.0f} MB for {int(n):,} rows" for n, mb in starts["megabytes"].items())
    return (
        f"Measured in the same run: {measured['fma_a_second'] / 1e9:.0f} G float32 multiply-adds and "
        f"{measured['copied_bytes_a_second'] / 1e9:.0f} GB copied (read and written) a second.\n\n"
        + table(["", "multiply-adds a row", "share of the peak", "share of the bandwidth"], rows)
        + f"\n\nFirst call in a fresh process, import included: {Timing(*starts['first_call_seconds'])} s. "
        f"Memory of a call beyond its input (K = 256, D = 64): {memory}."
    )


def growth(results: dict) -> str:
    rows = [
        [f"{name} = {row['value']:g}", str(Timing(*row["gibbs"])), str(Timing(*row["mean-field"]))]
        for name, rows_of_dimension in results["growth"].items()
        for row in rows_of_dimension
    ]
    return (
        "Rows drawn from the model; N = 8192, K = 256, D = 64, complete, where not said otherwise.\n\n"
        + table(["", "Gibbs, us a row", "mean field, us a row"], rows)
    )


def sparse(results: dict) -> str:
    fewer = json.loads((HERE / "results" / "kernels-sparse.json").read_text())
    fewer["methods"] = [row for row in fewer["methods"] if row["shape"] == "K=256 D=64"]
    return f"{peers(fewer)}\n\n{methods(fewer)}"


def memory(results: dict) -> str:
    return (
        f"A file of {results['file_megabytes']:,.0f} MiB ({results['rows']:,} rows of {results['columns']} "
        f"columns): the fit's process peaks at {results['peak_megabytes']:.0f} MiB. One pass for the moments "
        f"of the columns takes {results['moments_seconds']:.0f} s, an epoch of {results['steps']:,} steps "
        f"{results['seconds']:.0f} s, which is {results['rows_per_second']:,.0f} rows a second."
    )


def defaults(results: dict) -> str:
    from benchmarks.defaults import HEADINGS, cells

    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in results["rows"]):
        rows = [cells(row) for row in results["rows"] if row["dataset"] == dataset]
        parts.append(f"{dataset.capitalize()}:\n\n{table(list(HEADINGS), rows)}")
    return "\n\n".join(parts)


def images(results: dict) -> str:
    from benchmarks.images import markdown

    return markdown(results)


def table_starts(results: dict) -> str:
    from benchmarks.table_starts import markdown

    return markdown(results)


def image_defaults(results: dict) -> str:
    from benchmarks.image_defaults import markdown

    return markdown(results)


def imputation(results: dict) -> str:
    from benchmarks.imputation import markdown

    return markdown(results)


def gpu(results: dict) -> str:
    from benchmarks.gpu import markdown

    return markdown(results)


def ablation(records: list) -> str:
    from benchmarks.ablation import markdown

    return markdown(records)


def tried(records: list) -> str:
    from benchmarks.tried import markdown

    return markdown(records)


def main() -> None:
    """Replace what stands between the markers of each table whose results are there."""
    of_kernels = (peers, sparse, methods, ceilings, growth)
    others = (memory, defaults, table_starts, images, image_defaults, imputation, gpu, ablation)
    files = dict.fromkeys(of_kernels, "kernels") | {write: write.__name__ for write in others}
    fill(HERE / "README.md", files)
    fill(HERE.parent / "docs" / "tried.md", {tried: "tried"})


def fill(page: Path, files: dict[Callable[..., str], str]) -> None:
    """Fill in the tables of a page, each from the file of its results."""
    text = page.read_text()
    for write, file in files.items():
        source = HERE / "results" / f"{file}.json"
        if not source.exists():
            continue
        results = json.loads(source.read_text())
        begin, end = f"<!-- {write.__name__} -->", "<!-- end -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        content = f"{begin}\n{write(results)}\n{end}"
        text = re.sub(pattern, lambda _, content=content: content, text, flags=re.DOTALL)
    page.write_text(text)


if __name__ == "__main__":
    main()
