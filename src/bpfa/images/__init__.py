"""Restore pictures of which few pixels are observed, or whose pixels are noisy."""

from bpfa.data.patches import PatchRows
from bpfa.images import masks
from bpfa.images.frames import FrameRestorer, FrameWarning
from bpfa.images.noise import CorrelatedNoiseWarning
from bpfa.images.pipeline import denoise, inpaint
from bpfa.images.result import ImageResult

__all__ = [
    "CorrelatedNoiseWarning",
    "FrameRestorer",
    "FrameWarning",
    "ImageResult",
    "PatchRows",
    "denoise",
    "inpaint",
    "masks",
]
