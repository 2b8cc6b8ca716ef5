"""Writers of the smallest files of two microscope formats: Gatan's .dm3 and FEI's .ser."""

import struct

import numpy as np

# Types of values in tags of .dm3 files, with the numbers of data types of images.
DM3_TYPES = {"<u2": (4, 10), "<i4": (3, 7), "<f4": (6, 2), "<f8": (7, 12)}
SER_TYPES = {"<u2": 2, "<i4": 6, "<f4": 7, "<f8": 8}


def dm3(path, values, units, spectrum_image=False):
    """Write an image, or a spectrum image whose first axis is that of the energies."""
    code, kind = DM3_TYPES[values.dtype.str]
    dimension = {
        f"#{axis}": {"Origin": 0.0, "Scale": 0.5, "Units": unit} for axis, unit in enumerate(reversed(units))
    }
    image = {
        "ImageData": {
            "Calibrations": {
                "Brightness": {"Origin": 0.0, "Scale": 1.0, "Units": ""},
                "Dimension": dimension,
            },
            "Data": (code, values),
            "DataType": kind,
            "Dimensions": {f"#{axis}": n for axis, n in enumerate(reversed(values.shape))},
            "PixelDepth": values.itemsize,
        },
        "ImageTags": {"Meta Data": {"Format": "Spectrum image", "Signal": "EELS"}} if spectrum_image else {},
        "Name": "a map",
    }
    body = _tags({"ImageList": {"#0": image}})
    path.write_bytes(struct.pack(">3i", 3, len(body) + 4, 1) + body + bytes(8))
    return path


def _tags(group):
    """Return a group of tags: all headers are big-endian, and all data little-endian."""
    written = struct.pack(">bbi", 1, 0, len(group))
    for name, value in group.items():
        # Members of a list have no name.
        label = b"" if name.startswith("#") else name.encode()
        if isinstance(value, dict):
            written += struct.pack(">bh", 20, len(label)) + label + _tags(value)
            continue
        written += struct.pack(">bh", 21, len(label)) + label + b"%%%%"
        if isinstance(value, str):
            letters = np.array([ord(letter) for letter in value], "<u2")
            written += struct.pack(">4i", 3, 20, 4, len(letters)) + letters.tobytes()
        elif isinstance(value, tuple):
            code, array = value
            written += struct.pack(">4i", 3, 20, code, array.size) + array.tobytes()
        elif isinstance(value, float):
            written += struct.pack(">2i", 1, 6) + struct.pack("<f", value)
        else:
            written += struct.pack(">2i", 1, 5) + struct.pack("<I", value)
    return written


def ser(path, values):
    """Write a spectrum image, scan x energy, or a stack of images, as FEI's TIA does."""
    scanned = values.shape[:-1] if values.ndim == 3 and values.shape[-1] > 16 else values.shape[:1]
    n, n_axes = int(np.prod(scanned)), values.ndim - len(scanned)
    kind = 0x411E + 2 * n_axes
    head = struct.pack("<3h6i", 0x4949, 0x0197, 0x0210, kind, 0x4152, n, n, 0, len(scanned))
    for size in scanned:
        head += struct.pack("<iddii1si1s", size, 0.0, 0.5, 0, 1, b"x", 1, b"m")
    # The place of the array of places, which follows the head, is in bytes 22 to 25.
    head = head[:22] + struct.pack("<i", len(head)) + head[26:]
    elements = []
    for one in values.reshape(n, *values.shape[len(scanned) :]):
        # Lines of an image are written from the lowest to the highest.
        one = one[::-1] if n_axes == 2 else one
        axes = b"".join(struct.pack("<ddi", 0.0, 0.5, 0) for _ in range(n_axes))
        sizes = struct.pack(f"<{n_axes}i", *reversed(one.shape))
        elements.append(
            axes + struct.pack("<h", SER_TYPES[one.dtype.str]) + sizes + np.ascontiguousarray(one).tobytes()
        )
    first = len(head) + 8 * n
    places = np.cumsum([first] + [len(element) for element in elements])
    tags = places[-1] + 8 * np.arange(n)
    marks = struct.pack("<hhi", 0x4152, 0, 0) * n
    path.write_bytes(head + np.array([*places[:-1], *tags], "<i4").tobytes() + b"".join(elements) + marks)
    return path
