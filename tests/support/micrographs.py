"""Files of micrographs as microscopists' programs write them."""

import h5py


def hspy(path, values, navigate, notes=None):
    """Write a file as HyperSpy does."""
    with h5py.File(path, "w") as file:
        file.attrs["file_format"] = "HyperSpy"
        signal = file.create_group("Experiments/a map")
        signal.create_dataset("data", data=values, compression="gzip", chunks=True)
        for axis, scanned in enumerate(navigate):
            signal.create_group(f"axis-{axis}").attrs.update(
                {"navigate": scanned, "units": "nm", "scale": 0.5}
            )
        signal.create_group("metadata/Acquisition_instrument/TEM").attrs["beam_energy"] = 200.0
        if notes:
            signal.create_group("metadata/General").attrs["notes"] = notes
    return path
