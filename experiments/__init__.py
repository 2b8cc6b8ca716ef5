"""What the experiments of the paper (`paper/`) and the benchmarks (`benchmarks/`) have in common.

Both import from here; this package imports neither of them.
"""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

__all__ = ["DATA", "ROOT", "Array"]

Array = NDArray[Any]
ROOT = Path(__file__).parents[1]
"""The root of the repository."""
DATA = ROOT.parent / "shared" / "data"
"""The folder of the data sets, where no other is given."""
