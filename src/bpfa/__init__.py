"""Beta process factor analysis: readable factors and honest imputation for matrices with missing entries."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bpfa.data import ArrayRows, Batch, Rows, open_rows
from bpfa.fitting.checkpoint import Checkpoint
from bpfa.inference.algorithms import ALGORITHMS, Algorithm, algorithm
from bpfa.inference.chain_store import ChainStore
from bpfa.inference.progress import NonFiniteError, Progress
from bpfa.inference.sampler import ChainPosterior
from bpfa.inference.schedule import Schedule
from bpfa.inference.training import train
from bpfa.model.bounds import full_bound
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors, Synthetic, draw_data
from bpfa.prediction.draws import posterior_draws
from bpfa.prediction.scores import HeldOutScore, held_out_score, psnr

if TYPE_CHECKING:
    from bpfa.estimator import BPFA, BPFAImputer, RowsNotSavedWarning, SeenInFitWarning
    from bpfa.images import ImageResult, denoise, inpaint

__all__ = [
    "ALGORITHMS",
    "BPFA",
    "Algorithm",
    "ArrayRows",
    "BPFAImputer",
    "Batch",
    "ChainPosterior",
    "ChainStore",
    "Checkpoint",
    "GlobalPosterior",
    "HeldOutScore",
    "ImageResult",
    "NonFiniteError",
    "Priors",
    "Progress",
    "Rows",
    "RowsNotSavedWarning",
    "Schedule",
    "SeenInFitWarning",
    "Synthetic",
    "algorithm",
    "denoise",
    "draw_data",
    "full_bound",
    "held_out_score",
    "inpaint",
    "open_rows",
    "posterior_draws",
    "psnr",
    "train",
]
__version__ = "0.1.0"


# The estimator needs scikit-learn, which takes a second to import, so it is imported only when it is needed.
_LATER = {
    "BPFA": "bpfa.estimator",
    "BPFAImputer": "bpfa.estimator",
    "ImageResult": "bpfa.images",
    "RowsNotSavedWarning": "bpfa.estimator",
    "SeenInFitWarning": "bpfa.estimator",
    "denoise": "bpfa.images",
    "inpaint": "bpfa.images",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'bpfa' has no attribute {name!r}")
