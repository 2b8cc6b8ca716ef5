"""Beta process factor analysis: sparse factors and honest imputation for matrices with missing entries."""

from bpfa.algorithms import ALGORITHMS, Algorithm, algorithm
from bpfa.bounds import full_bound
from bpfa.data import ArrayRows, Batch, Rows
from bpfa.model import Priors, Synthetic, draw_data
from bpfa.posterior import GlobalPosterior
from bpfa.progress import NonFiniteError, Progress
from bpfa.sampler import ChainPosterior
from bpfa.schedule import Schedule
from bpfa.scores import HeldOutScore, held_out_score, posterior_draws, psnr
from bpfa.training import train

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "ArrayRows",
    "Batch",
    "ChainPosterior",
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
    "posterior_draws",
    "psnr",
    "train",
]
__version__ = "0.1.0.dev0"
