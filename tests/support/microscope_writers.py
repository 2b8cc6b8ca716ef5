"""Writers of the smallest files of microscope formats: Gatan's .dm3 and .dm4, and FEI's .ser."""

import struct

import numpy as np

# Types of values in tags of .dm3 files, with the numbers of data types of images.
DM3_TYPES = {"<u2": (4, 10), "<i4": (3, 7), "<f4": (6, 2), "<f8": (7, 12)}
SER_TYPES = {"<u2": 2, "<i4": 6, "<f4": 7, "<f8": 8}


def dm(path, values, units, spectrum_image=False):
    """Write an image, or a spectrum image whose first axis is that of the energies, as .dm3 or .dm4."""
    # Lengths and counts have 8 bytes in the newer format, and 4 in the older one.
    number = {".dm3": "i", ".dm4": "q"}[path.suffix]
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
    body = _tags({"ImageList": {"#0": image}}, number)
    head = struct.pack(f">i{number}i", {"i": 3, "q": 4}[number], len(body) + 4, 1)
    path.write_bytes(head + body + bytes(8))
    return path


def _tags(group, number):
    """Return a group of tags: all headers are big-endian, and all data little-endian."""
    written = struct.pack(f">bb{number}", 1, 0, len(group))
    for name, value in group.items():
        # Members of a list have no name.
        label = b"" if name.startswith("#") else name.encode()
        kind = 20 if isinstance(value, dict) else 21
        content = _tags(value, number) if kind == 20 else _tag(value, number)
        written += struct.pack(">bh", kind, len(label)) + label
        if number == "q" and kind == 20:
            # Between the two flags of a group and the number of its tags is the length of the rest.
            content = content[:2] + struct.pack(">q", len(content) - 2) + content[2:]
        elif number == "q":
            written += struct.pack(">q", len(content))
        written += content
    return written


def _tag(value, number):
    """Return a tag that is no group."""
    if isinstance(value, str):
        letters = np.array([ord(letter) for letter in value], "<u2")
        kind, data = (3, 20, 4, len(letters)), letters.tobytes()
    elif isinstance(value, tuple):
        code, array = value
        kind, data = (3, 20, code, array.size), array.tobytes()
    elif isinstance(value, float):
        kind, data = (1, 6), struct.pack("<f", value)
    else:
        kind, data = (1, 5), struct.pack("<I", value)
    return b"%%%%" + struct.pack(f">{len(kind)}{number}", *kind) + data


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
