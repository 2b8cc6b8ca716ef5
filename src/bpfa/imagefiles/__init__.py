"""Image files: PNG, JPEG, TIFF, NumPy and HyperSpy, with their axes, and without loss of values."""

from bpfa.imagefiles.formats import JPEG, check_target, read_image, write_image
from bpfa.imagefiles.mask import read_mask
from bpfa.imagefiles.picture import Picture

__all__ = ["JPEG", "Picture", "check_target", "read_image", "read_mask", "write_image"]
