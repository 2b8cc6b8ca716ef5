import numpy as np
from numpy.typing import NDArray

def philox4x32(counters: NDArray[np.uint32], key: int) -> None: ...
