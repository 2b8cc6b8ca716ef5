"""Files of microscopes: read with their axes and metadata, and written as HyperSpy's files."""

import gc
import sys
import types

import h5py
import numpy as np
import pytest
from microscope_writers import dm, ser

from bpfa.images.files import check_target, microscopes, read_image, write_image

pytest.importorskip("rsciio")
# The reader of .mrc leaves its file open.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def collected():
    """The open files of a reader are closed while their warnings are ignored."""
    yield
    gc.collect()


PLANE = np.arange(20, dtype=np.float32).reshape(4, 5)


def mrc(path, values):
    """Write a file as microscopes do: a header of 1024 bytes, then the values."""
    header = np.zeros(256, "<i4")
    header[:4] = [values.shape[1], values.shape[0], 1, 2]
    header[7:10] = header[:3]
    header[10:13].view("<f4")[:] = header[:3]
    header[16:19] = [1, 2, 3]
    header[52] = int.from_bytes(b"MAP ", "little")
    path.write_bytes(header.tobytes() + values.astype("<f4").tobytes())
    return path


def zspy(path, values, navigate):
    """Write a folder as HyperSpy does."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(path), mode="w", zarr_format=2).create_group("Experiments/a map")
    group.create_array("data", data=values)
    for axis, scanned in enumerate(navigate):
        group.create_group(f"axis-{axis}").attrs.update({"navigate": scanned, "units": "nm", "scale": 0.5})
    group.create_group("metadata/General").attrs["title"] = "a map"
    return path


def test_mrc(tmp_path):
    picture = read_image(mrc(tmp_path / "a.mrc", PLANE))
    np.testing.assert_array_equal(picture.values.reshape(4, 5), PLANE)
    assert picture.signal["axes"]


DM = pytest.mark.parametrize("suffix", [".dm3", ".dm4"])


@DM
@pytest.mark.parametrize("dtype", ["<u2", "<i4", "<f4", "<f8"])
def test_files_of_digital_micrograph(tmp_path, dtype, suffix):
    plane = PLANE.astype(dtype)
    picture = read_image(dm(tmp_path / f"a{suffix}", plane, ("nm", "nm")))
    np.testing.assert_array_equal(picture.values, plane)
    assert picture.values.dtype == dtype
    assert [axis["units"] for axis in picture.signal["axes"]] == ["nm", "nm"]
    assert [axis["scale"] for axis in picture.signal["axes"]] == [0.5, 0.5]
    stack = read_image(dm(tmp_path / f"b{suffix}", np.stack([plane] * 3), ("s", "nm", "nm")))
    assert (stack.stack_axis, stack.values.shape) == (0, (3, 4, 5))


@DM
def test_the_energies_of_a_spectrum_image_are_channels(tmp_path, suffix):
    """DigitalMicrograph stores the axis of the energies first."""
    cube = np.arange(120, dtype="<f4").reshape(6, 4, 5)
    picture = read_image(dm(tmp_path / f"a{suffix}", cube, ("eV", "nm", "um"), spectrum_image=True))
    np.testing.assert_array_equal(picture.values, np.moveaxis(cube, 0, -1))
    assert (picture.channel_axis, picture.stack_axis) == (2, None)
    axes = [(axis["name"], axis["units"], axis["navigate"]) for axis in picture.signal["axes"]]
    assert axes == [("y", "nm", True), ("x", "um", True), ("Energy loss", "eV", False)]
    write_image(tmp_path / "b.hspy", picture.values, picture, "done")
    again = read_image(tmp_path / "b.hspy")
    np.testing.assert_array_equal(again.values, picture.values)
    assert again.channel_axis == 2


def test_ser(tmp_path):
    cube = np.arange(400, dtype="<f4").reshape(4, 5, 20)
    picture = read_image(ser(tmp_path / "a.ser", cube))
    np.testing.assert_array_equal(picture.values, cube)
    assert (picture.channel_axis, picture.stack_axis) == (2, None)
    stack = np.arange(90, dtype="<u2").reshape(3, 5, 6)
    picture = read_image(ser(tmp_path / "b.ser", stack))
    np.testing.assert_array_equal(picture.values, stack)
    assert (picture.channel_axis, picture.stack_axis) == (None, 0)


def test_emd(tmp_path):
    """A file as the NCEM defines it."""
    with h5py.File(tmp_path / "a.emd", "w") as file:
        file.attrs.update({"version_major": 0, "version_minor": 2})
        group = file.create_group("data/a picture")
        group.attrs["emd_group_type"] = 1
        group["data"] = PLANE
        for axis, n in enumerate(PLANE.shape, start=1):
            group[f"dim{axis}"] = 0.5 * np.arange(n)
            group[f"dim{axis}"].attrs.update({"name": "yx"[axis - 1], "units": "[n_m]"})
    picture = read_image(tmp_path / "a.emd")
    assert sorted(picture.values.shape) == [4, 5]
    np.testing.assert_array_equal(np.sort(picture.values, axis=None), np.sort(PLANE, axis=None))
    assert {axis["scale"] for axis in picture.signal["axes"]} == {0.5}


def test_the_pixels_of_a_detector_are_channels(tmp_path):
    scan = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    picture = read_image(zspy(tmp_path / "a.zspy", scan, (True, True, False, False)))
    np.testing.assert_array_equal(picture.values, scan.reshape(2, 3, 20))
    assert (picture.channel_axis, picture.detector, picture.is_scan) == (2, (4, 5), True)
    write_image(tmp_path / "b.hspy", picture.values + 1, picture, "done")
    with h5py.File(tmp_path / "b.hspy") as file:
        (signal,) = file["Experiments"].values()
        np.testing.assert_array_equal(signal["data"], scan + 1)
    assert read_image(tmp_path / "b.hspy").detector == (4, 5)


def test_zspy(tmp_path):
    cube = np.arange(60.0).reshape(3, 4, 5)
    picture = read_image(zspy(tmp_path / "a.zspy", cube, (True, True, False)))
    np.testing.assert_array_equal(picture.values, cube)
    assert picture.channel_axis == 2
    assert picture.signal["metadata"]["General"]["title"] == "a map"
    check_target(tmp_path / "b.hspy", picture)
    write_image(tmp_path / "b.hspy", cube + 1, picture, "done")
    again = read_image(tmp_path / "b.hspy")
    np.testing.assert_array_equal(again.values, cube + 1)
    assert again.channel_axis == 2
    with h5py.File(tmp_path / "b.hspy") as file:
        (signal,) = file["Experiments"].values()
        assert signal["axis-0"].attrs["units"] == "nm"
        assert signal["metadata/General"].attrs["notes"] == "done"


@pytest.mark.parametrize("suffix", list(microscopes.PLUGINS))
def test_every_suffix_has_its_reader(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"a{suffix.upper()}"
    path.touch()
    axes = [{"navigate": True}, {"navigate": False}, {"navigate": False}]
    signal = {"data": np.zeros((2, 4, 5)), "axes": axes, "metadata": {"General": {"title": "one"}}}
    plugin = types.ModuleType("plugin")
    plugin.file_reader = lambda name: [signal]
    monkeypatch.setitem(sys.modules, f"rsciio.{microscopes.PLUGINS[suffix]}", plugin)
    assert read_image(path).stack_axis == 0
    plugin.file_reader = lambda name: [signal, signal]
    with pytest.raises(ValueError, match=r"2 signals \['one', 'one'\]; expected a file with one"):
        read_image(path)
    with pytest.raises(ValueError, match=rf"{suffix} files are only read; expected \.hspy"):
        check_target(
            tmp_path / f"b{suffix}", read_image(mrc(tmp_path / "a.mrc", PLANE)) if suffix != ".mrc" else None
        )


@pytest.mark.parametrize("suffix", [*microscopes.PLUGINS, ".zspy"])
def test_half_a_file_is_one_clear_error(tmp_path, suffix):
    whole = mrc(tmp_path / "whole.mrc", PLANE).read_bytes()
    path = tmp_path / f"half{suffix}"
    path.write_bytes(whole[:1030])
    with pytest.raises(ValueError, match="cannot be read"):
        read_image(path)


MICRO_IN_OME = {"axes": "ZYX", "PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.0}


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (
            PLANE,
            {"imagej": True, "resolution": (4, 2), "metadata": {"unit": "nm", "axes": "YX"}},
            [("y", 0.5, "nm", False), ("x", 0.25, "nm", False)],
        ),
        (
            np.stack([PLANE] * 3),
            {"imagej": True, "resolution": (4, 2), "metadata": {"unit": "um", "spacing": 2.0, "axes": "ZYX"}},
            [("z", 2.0, "µm", True), ("y", 0.5, "µm", False), ("x", 0.25, "µm", False)],
        ),
        (
            np.stack([PLANE] * 3),
            {
                "imagej": True,
                "resolution": (4, 2),
                "metadata": {"unit": "nm", "finterval": 0.1, "axes": "TYX"},
            },
            [("time", 0.1, "s", True), ("y", 0.5, "nm", False), ("x", 0.25, "nm", False)],
        ),
        (
            np.stack([PLANE] * 3),
            {"ome": True, "metadata": MICRO_IN_OME | {"PhysicalSizeXUnit": "nm"}},
            [("z", 2.0, "µm", True), ("y", 0.5, "µm", False), ("x", 0.25, "nm", False)],
        ),
        (
            PLANE,
            {"resolution": (100, 200), "resolutionunit": 3},
            [("y", 0.005, "cm", False), ("x", 0.01, "cm", False)],
        ),
        (PLANE, {"resolution": (72, 72), "resolutionunit": 2}, [("y", 1, "", False), ("x", 1, "", False)]),
        (PLANE, {}, [("y", 1, "", False), ("x", 1, "", False)]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_axes_and_units_of_a_tiff_file_come_into_a_file_of_hyperspy(tmp_path, values, options, expected):
    tifffile, hs = pytest.importorskip("tifffile"), pytest.importorskip("hyperspy.api")
    tifffile.imwrite(tmp_path / "a.tif", values, **options)
    picture = read_image(tmp_path / "a.tif")
    check_target(tmp_path / "b.hspy", picture)
    write_image(tmp_path / "b.hspy", picture.values + 1, picture, "done")
    signal = hs.load(tmp_path / "b.hspy")
    np.testing.assert_array_equal(signal.data, values + 1)
    axes = signal.axes_manager._axes
    assert [(axis.name, axis.units or "", axis.navigate) for axis in axes] == [
        (name, units, navigate) for name, _, units, navigate in expected
    ]
    np.testing.assert_allclose([axis.scale for axis in axes], [scale for _, scale, *_ in expected])
    assert signal.metadata.General.title == "a"
    assert signal.metadata.General.notes == "done"
    assert read_image(tmp_path / "b.hspy").stack_axis == picture.stack_axis


def test_pictures_without_axes_make_no_file_of_hyperspy(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    np.save(tmp_path / "a.npy", PLANE)
    tifffile.imwrite(tmp_path / "b.tif", np.zeros((4, 5, 3), np.uint8), photometric="rgb")
    for name in ("a.npy", "b.tif"):
        with pytest.raises(
            ValueError, match=r"c\.hspy: a \.hspy file has the axes of one, .* expected \.tif"
        ):
            check_target(tmp_path / "c.hspy", read_image(tmp_path / name))
