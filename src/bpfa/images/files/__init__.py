"""Image files: PNG, JPEG, TIFF, NumPy and HyperSpy, read and written with their axes and exact values."""

from bpfa.images.files.formats import JPEG, check_target, read_image, write_image
from bpfa.images.files.mask import read_mask
from bpfa.images.files.picture import Picture

__all__ = ["JPEG", "Picture", "check_target", "read_image", "read_mask", "write_image"]
