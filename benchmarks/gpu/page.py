"""The table of the page."""

from __future__ import annotations

from typing import Any

from experiments.markdown import table


def markdown(results: dict[str, Any]) -> str:
    """Return the table of the page."""
    ceilings = results["ceilings"]
    rows = []
    for work, found in results["work"].items():
        share = f"{found['fma_share']:.0%}" if "fma_share" in found else ""
        rows.append([work, shown(found["seconds"]), share, found.get("note", "")])
    return (
        f"{results['card']}: {ceilings['copied_bytes_a_second'] / 1e12:.1f} TB copied (read and written) and "
        f"{ceilings['multiply_adds_a_second'] / 1e12:.0f} T float32 multiply-adds a second, measured.\n\n"
        + table(["", "measured", "share of the multiply-adds", ""], rows)
    )


def shown(seconds: float) -> str:
    """Return a time as text.

    Examples
    --------
    >>> shown(0.0123), shown(1.5)
    ('12.3 ms', '1.5 s')
    """
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
