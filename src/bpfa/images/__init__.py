"""Restore pictures from few or noisy pixels."""

from bpfa.data.patches import PatchRows
from bpfa.images.restoration import denoise, inpaint
from bpfa.images.result import ImageResult

__all__ = ["ImageResult", "PatchRows", "denoise", "inpaint"]
