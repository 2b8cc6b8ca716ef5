"""The order of the gallery: by the numbers in the names of its files."""

from __future__ import annotations

import re
from typing import Any


def by_number(name: Any) -> int:
    """Return the number in the name of an example.

    Examples
    --------
    >>> sorted(["plot_10_cluster.py", "plot_2_denoise.py"], key=by_number)
    ['plot_2_denoise.py', 'plot_10_cluster.py']
    """
    return int(re.findall(r"plot_(\d+)_", str(name))[-1])
