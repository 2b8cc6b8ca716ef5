"""Beta process factor analysis: sparse factors and honest imputation for matrices with missing entries."""

from typing import TYPE_CHECKING, Any

from bpfa.algorithms import ALGORITHMS, Algorithm, algorithm
from bpfa.bounds import full_bound
from bpfa.checkpoint import Checkpoint
from bpfa.data import ArrayRows, Batch, Rows, open_rows
from bpfa.model import Priors, Synthetic, draw_data
from bpfa.posterior import GlobalPosterior
from bpfa.progress import NonFiniteError, Progress
from bpfa.sampler import ChainPosterior
from bpfa.schedule import Schedule
from bpfa.scores import HeldOutScore, held_out_score, posterior_draws, psnr
from bpfa.training import train

if TYPE_CHECKING:
    from bpfa.estimator import BPFA

__all__ = [
    "ALGORITHMS",
    "BPFA",
    "Algorithm",
    "ArrayRows",
    "Batch",
    "ChainPosterior",
    "Checkpoint",
    "GlobalPosterior",
    "HeldOutScore",
    "NonFiniteError",
    "Priors",
    "Progress",
    "Rows",
    "Schedule",
    "Synthetic",
    "algorithm",
    "draw_data",
    "full_bound",
    "held_out_score",
    "open_rows",
    "posterior_draws",
    "psnr",
    "train",
]
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    # The estimator brings scikit-learn with it, which takes a second to import: only who asks for it waits.
    if name == "BPFA":
        from bpfa.estimator import BPFA

        return BPFA
    raise AttributeError(f"module 'bpfa' has no attribute {name!r}")
