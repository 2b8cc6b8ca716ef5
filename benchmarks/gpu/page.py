"""The table of the page, and the times that were asked for."""

from __future__ import annotations

from typing import Any

from experiments.markdown import table

# Work -> the seconds that it must not exceed, and the seconds that were aimed at.
ASKED = {
    "Gibbs, 255,025 patches, 20% observed": (4.5e-3, 2.5e-3),
    "Gibbs, 255,025 patches, complete": (3e-3, 1e-3),
    "Boat 512 x 512, 20% observed": (0.5, 0.25),
    "House 256 x 256, 50% observed + noise 15": (0.5, 0.2),
    "532,000 x 40, K = 500, 5% hidden, 100 epochs": (5.0, 2.0),
    "15,000 x 450, K = 500, 10% hidden, 100 epochs": (5.0, 1.5),
    "first call in a fresh process, kernels cached": (3.0, 1.0),
}


def markdown(results: dict[str, Any]) -> str:
    """Return the table of the page."""
    ceilings = results["ceilings"]
    rows = []
    for work, found in results["work"].items():
        must, aim = (shown(seconds) for seconds in ASKED[work]) if work in ASKED else ("", "")
        share = f"{found['fma_share']:.0%}" if "fma_share" in found else ""
        rows.append([work, shown(found["seconds"]), must, aim, share, found.get("note", "")])
    return (
        f"{results['card']}: {ceilings['copied_bytes_a_second'] / 1e12:.1f} TB copied (read and written) and "
        f"{ceilings['multiply_adds_a_second'] / 1e12:.0f} T float32 multiply-adds a second, measured.\n\n"
        + table(["", "measured", "asked", "hoped", "share of the multiply-adds", ""], rows)
    )


def shown(seconds: float) -> str:
    """Return a time as text.

    Examples
    --------
    >>> shown(0.0123), shown(1.5)
    ('12.3 ms', '1.5 s')
    """
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
