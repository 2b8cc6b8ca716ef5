from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from micrographs import hspy

from bpfa.images.files import Picture, check_target, read_image, read_mask, write_image
from bpfa.images.files.picture import TiffNotes

h5py = pytest.importorskip("h5py")
tifffile = pytest.importorskip("tifffile")
Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (12, 9), dtype=np.uint8)
RGB = RNG.integers(0, 256, (12, 9, 3), dtype=np.uint8)
DEEP = RNG.integers(0, 65536, (12, 9), dtype=np.uint16)
STACK = RNG.integers(0, 65536, (5, 12, 9), dtype=np.uint16)
FLOATS = RNG.normal(size=(12, 9)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "values", "axes"),
    [
        ("a.png", GREY, (None, None)),
        ("a.png", RGB, (2, None)),
        ("a.PNG", DEEP, (None, None)),
        ("a.tif", GREY, (None, None)),
        ("a.tif", RGB, (2, None)),
        ("a.tiff", DEEP, (None, None)),
        ("a.tif", STACK, (None, 0)),
        ("a.tif", FLOATS, (None, None)),
        ("a.tif", np.stack([RGB] * 4), (3, 0)),
        ("a.tif", STACK, (0, None)),
        ("a.tif", STACK[:3], (0, None)),
        ("a.tif", np.stack([STACK] * 2), (1, 0)),
        ("a.npy", FLOATS, (None, None)),
    ],
)
def test_what_is_written_is_read_again(tmp_path, name, values, axes):
    path = tmp_path / name
    picture = Picture(path, values, *axes)
    check_target(path, picture)
    write_image(path, values, picture, "")
    again = read_image(path)
    assert again.values.dtype == values.dtype
    np.testing.assert_array_equal(again.values, values)
    assert (again.channel_axis, again.stack_axis) == axes


def test_channels_between_pixels_become_planes_of_tiff(tmp_path):
    values = RNG.normal(size=(6, 7, 11)).astype(np.float32)
    write_image(tmp_path / "a.tif", values, Picture(tmp_path, values, channel_axis=2), "")
    again = read_image(tmp_path / "a.tif")
    assert again.channel_axis == 0
    np.testing.assert_array_equal(again.values, np.moveaxis(values, 2, 0))


def test_jpeg_is_close_and_warns(tmp_path):
    smooth = np.add.outer(np.arange(32), np.arange(24)).astype(np.uint8)
    with pytest.warns(UserWarning, match="JPEG slightly changes"):
        write_image(tmp_path / "a.jpg", smooth, Picture(tmp_path, smooth), "")
    assert np.abs(read_image(tmp_path / "a.jpg").values.astype(int) - smooth).max() <= 3


def test_a_turned_photograph_is_read_upright(tmp_path):
    smooth = np.add.outer(5 * np.arange(24), np.arange(32)).astype(np.uint8)
    image = Image.fromarray(smooth)
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=exif)
    # It is shown turned by a quarter to the right.
    shown = read_image(tmp_path / "a.jpg").values
    assert shown.shape == (32, 24)
    assert np.abs(shown.astype(int) - np.rot90(smooth, -1)).max() <= 4


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_says_what_is_missing(tmp_path, mode):
    colours = RGB if mode == "RGBA" else GREY[..., None]
    alpha = np.where(RNG.random((12, 9, 1)) < 0.3, 0, 255).astype(np.uint8)
    Image.fromarray(np.concatenate([colours, alpha], axis=2)).save(tmp_path / "a.png")
    picture = read_image(tmp_path / "a.png")
    np.testing.assert_array_equal(picture.transparent, alpha[..., 0] == 0)
    np.testing.assert_array_equal(picture.values, colours.squeeze())


def test_an_opaque_alpha_channel_is_nothing(tmp_path):
    tifffile.imwrite(
        tmp_path / "a.tif",
        np.dstack([RGB, np.full((12, 9), 255, np.uint8)]),
        photometric="rgb",
        extrasamples=[2],
    )
    picture = read_image(tmp_path / "a.tif")
    assert picture.transparent is None
    np.testing.assert_array_equal(picture.values, RGB)


def test_half_transparent_is_refused(tmp_path):
    half = np.dstack([RGB, np.full((12, 9), 255, np.uint8)])
    half[3, 4, 3] = 100
    Image.fromarray(half).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"partly transparent at \(3, 4\)"):
        read_image(tmp_path / "a.png")


def test_palettes_and_bits(tmp_path):
    palette = Image.fromarray(RGB).quantize(16)
    palette.save(tmp_path / "p.png")
    np.testing.assert_array_equal(read_image(tmp_path / "p.png").values, np.asarray(palette.convert("RGB")))
    Image.fromarray(GREY > 100).save(tmp_path / "b.png")
    np.testing.assert_array_equal(read_image(tmp_path / "b.png").values, 255 * (GREY > 100))
    np.save(tmp_path / "b.npy", GREY > 100)
    bits = read_image(tmp_path / "b.npy").values
    assert bits.dtype == np.uint8
    np.testing.assert_array_equal(bits > 0, GREY > 100)


def test_deep_colours_are_refused_not_cut(tmp_path):
    # Signature, then the header of a picture of 16 bits per colour.
    head = (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
        + (9).to_bytes(4, "big")
        + (12).to_bytes(4, "big")
        + bytes([16, 2])
    )
    (tmp_path / "a.png").write_bytes(head + bytes(40))
    with pytest.raises(ValueError, match="16 bits per colour"):
        read_image(tmp_path / "a.png")
    with pytest.raises(ValueError, match="16-bit colours"):
        check_target("b.png", Picture(Path("a.tif"), RGB.astype(np.uint16), channel_axis=2))


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "npy", "hspy"])
def test_damaged_files_are_refused_by_name(tmp_path, suffix):
    whole = tmp_path / f"whole.{suffix}"
    large = RNG.integers(0, 256, (64, 64), dtype=np.uint8)
    if suffix == "hspy":
        hspy(whole, large, (False, False))
    elif suffix == "jpg":
        Image.fromarray(large).save(whole)
    else:
        write_image(whole, large, Picture(whole, large), "")
    for name, data in (("cut", whole.read_bytes()[:-1500]), ("empty", b""), ("text", b"no picture at all")):
        path = tmp_path / f"{name}.{suffix}"
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"{name}.{suffix}: "):
            read_image(path)


def test_files_that_are_no_images(tmp_path):
    with pytest.raises(ValueError, match=r"expected an image: .*bpfa impute"):
        read_image("cells.csv")
    with pytest.raises(FileNotFoundError, match=r"nothing\.png: no such file"):
        read_image(tmp_path / "nothing.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ValueError, match="a folder"):
        read_image(tmp_path / "folder.png")
    for name, values in (("c", np.ones((3, 3), complex)), ("v", np.ones(5)), ("e", np.ones((0, 4)))):
        np.save(tmp_path / f"{name}.npy", values)
        with pytest.raises(ValueError, match="expected an image of real numbers"):
            read_image(tmp_path / f"{name}.npy")
    np.save(tmp_path / "o.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"o\.npy: cannot be read"):
        read_image(tmp_path / "o.npy")
    Image.fromarray(RGB).convert("CMYK").save(tmp_path / "c.jpg")
    with pytest.raises(ValueError, match="CMYK colours"):
        read_image(tmp_path / "c.jpg")


@pytest.mark.parametrize(
    ("name", "values", "axes", "reason"),
    [
        ("a.png", FLOATS, (None, None), "float32 values"),
        ("a.jpg", DEEP, (None, None), "uint16 values"),
        ("a.png", STACK, (None, 0), "holds grey or RGB"),
        ("a.png", RGB[..., :2], (2, None), "holds grey or RGB"),
        ("a.hspy", GREY, (None, None), "has the axes of one, of a file of a microscope"),
        ("a.bmp", GREY, (None, None), "suffix '.bmp'"),
    ],
)
def test_targets_that_cannot_hold_the_values(name, values, axes, reason):
    with pytest.raises(ValueError, match=reason):
        check_target(name, Picture(Path("a.tif"), values, *axes))


def test_axes_of_the_user():
    picture = Picture(Path("a.npy"), np.zeros((4, 12, 9)))
    assert picture.with_axes(None, 0).stack_axis == 0
    assert picture.with_axes(-1, None).channel_axis == 2
    for axes in ((None, None), (0, 0), (0, 1), (7, None)):
        with pytest.raises(ValueError, match=r"axis|axes"):
            picture.with_axes(*axes)


def test_hspy_axes(tmp_path):
    cube = np.arange(4 * 5 * 6).reshape(4, 5, 6)
    assert read_image(hspy(tmp_path / "a.hspy", cube, (True, True, False))).channel_axis == 2
    assert read_image(hspy(tmp_path / "b.hspy", cube, (True, False, False))).stack_axis == 0
    plane = read_image(hspy(tmp_path / "c.hspy", cube[0], (False, False)))
    assert (plane.channel_axis, plane.stack_axis) == (None, None)
    with h5py.File(tmp_path / "c.hspy", "r+") as file:
        file.copy("Experiments/a map", "Experiments/another")
    with pytest.raises(ValueError, match="2 signals"):
        read_image(tmp_path / "c.hspy")


@pytest.mark.parametrize("notes", [None, "seen on Monday"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_hspy_keeps_all_but_the_data(tmp_path, dtype, notes):
    cube = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
    picture = read_image(hspy(tmp_path / "a.hspy", cube, (True, True, False), notes))
    write_image(tmp_path / "b.hspy", (cube + 1).astype(dtype), picture, "done")
    np.testing.assert_array_equal(read_image(tmp_path / "a.hspy").values, cube)
    with h5py.File(tmp_path / "b.hspy") as file:
        signal = file["Experiments/a map"]
        assert signal["data"].dtype == dtype
        assert signal["data"].compression == "gzip"
        np.testing.assert_array_equal(signal["data"][()], cube + 1)
        assert signal["metadata/Acquisition_instrument/TEM"].attrs["beam_energy"] == 200.0
        assert signal["axis-2"].attrs["units"] == "nm"
        expected = "done" if notes is None else "seen on Monday\ndone"
        assert signal["metadata/General"].attrs["notes"] == expected


MASK = RNG.random((12, 9)) < 0.4


@pytest.mark.parametrize("kind", ["png", "npy", "colour"])
def test_masks_are_what_is_not_zero(tmp_path, kind):
    path = tmp_path / ("a.npy" if kind == "npy" else "a.png")
    if kind == "npy":
        np.save(path, np.where(MASK, -0.5, 0))
    else:
        values = np.where(MASK, 7, 0).astype(np.uint8)
        Image.fromarray(values if kind == "png" else np.dstack([values, 0 * values, values])).save(path)
    np.testing.assert_array_equal(read_mask(path, Picture(tmp_path, GREY)), MASK)
    if kind != "colour":
        np.testing.assert_array_equal(read_mask(path, Picture(tmp_path, RGB, channel_axis=2)), MASK)


def test_masks_of_stacks_and_of_channels(tmp_path):
    np.save(tmp_path / "plane.npy", MASK)
    stack = Picture(tmp_path, STACK, stack_axis=0)
    np.testing.assert_array_equal(
        read_mask(tmp_path / "plane.npy", stack), np.broadcast_to(MASK, STACK.shape)
    )
    last = Picture(tmp_path, np.moveaxis(STACK, 0, -1), stack_axis=2)
    np.testing.assert_array_equal(read_mask(tmp_path / "plane.npy", last)[..., 3], MASK)
    full = RNG.random(RGB.shape) < 0.3
    np.save(tmp_path / "full.npy", full)
    np.testing.assert_array_equal(
        read_mask(tmp_path / "full.npy", Picture(tmp_path, RGB, channel_axis=2)), full
    )


def test_masks_that_are_refused(tmp_path):
    picture = Picture(Path("a.png"), GREY)
    np.save(tmp_path / "wrong.npy", MASK[:5])
    with pytest.raises(ValueError, match=r"shape \(5, 9\); expected \(12, 9\), for a\.png"):
        read_mask(tmp_path / "wrong.npy", picture)
    np.save(tmp_path / "nan.npy", np.where(MASK, np.nan, 0))
    with pytest.raises(ValueError, match="NaN"):
        read_mask(tmp_path / "nan.npy", picture)
    Image.fromarray(np.dstack([GREY, np.where(MASK, 0, 255).astype(np.uint8)])).save(tmp_path / "t.png")
    with pytest.raises(ValueError, match="transparent"):
        read_mask(tmp_path / "t.png", picture)
    Image.fromarray(GREY).save(tmp_path / "a.jpg")
    with pytest.warns(UserWarning, match="JPEG blurs"):
        read_mask(tmp_path / "a.jpg", picture)


def rewritten(path, values=None, **axes):
    """Read a TIFF file, write it again with other values, and open the result."""
    picture = read_image(path)
    again = path.with_name("again.tif")
    write_image(again, picture.values if values is None else values, picture, "")
    return tifffile.TiffFile(again)


@pytest.mark.parametrize("values", [GREY, RGB])
def test_resolution_of_tiff_survives(tmp_path, values):
    path = tmp_path / "a.tif"
    colour = "rgb" if values.ndim == 3 else "minisblack"
    tifffile.imwrite(path, values, photometric=colour, resolution=(300.5, 150), resolutionunit="CENTIMETER")
    for new in (None, values.astype(np.float32)):
        with rewritten(path, new) as file:
            page = file.pages[0]
            assert page.get_resolution() == pytest.approx((300.5, 150))
            assert page.resolutionunit == tifffile.RESUNIT.CENTIMETER


def test_imagej_metadata_survive(tmp_path):
    path = tmp_path / "a.tif"
    stack = np.stack([GREY] * 3)
    metadata = {"axes": "ZYX", "spacing": 0.35, "unit": "um", "Labels": ["a", "b", "c"], "Info": "cells"}
    tifffile.imwrite(path, stack, imagej=True, resolution=(5.0, 5.0), metadata=metadata)
    with rewritten(path) as file:
        found = file.imagej_metadata
        assert {name: found[name] for name in metadata if name != "axes"} == {
            name: value for name, value in metadata.items() if name != "axes"
        }
        assert file.series[0].axes == "ZYX"
        assert file.pages[0].get_resolution() == pytest.approx((5, 5))
    with rewritten(path, stack.astype(np.float64)) as file:
        # ImageJ has no type for these values; the resolution is kept all the same.
        assert not file.is_imagej
        assert file.pages[0].get_resolution() == pytest.approx((5, 5))


def test_frames_of_a_film_stay_frames(tmp_path):
    path = tmp_path / "a.tif"
    film = np.stack([GREY] * 3)
    tifffile.imwrite(path, film, imagej=True, metadata={"axes": "TYX", "finterval": 0.5})
    with rewritten(path) as file:
        assert file.series[0].axes == "TYX"
        assert file.imagej_metadata["finterval"] == 0.5


@pytest.mark.parametrize("axes", ["ZYX", "CYX", "ZCYX", "CZYX", "TYX", "YXS"])
def test_ome_metadata_survive(tmp_path, axes):
    path = tmp_path / "a.ome.tif"
    sizes = {"Z": 4, "T": 4, "C": 2, "Y": 12, "X": 10, "S": 3}
    values = np.random.default_rng(0).integers(0, 255, [sizes[axis] for axis in axes]).astype(np.uint8)
    metadata = {"axes": axes, "PhysicalSizeX": 0.1, "PhysicalSizeXUnit": "\u00b5m", "Description": "a cell"}
    colour = {"photometric": "rgb" if "S" in axes else "minisblack"}
    tifffile.imwrite(path, values, ome=True, metadata=metadata, **colour)
    with tifffile.TiffFile(path) as file:
        before = file.ome_metadata
    with rewritten(path) as file:
        assert file.ome_metadata == before
        assert file.series[0].axes == axes
        np.testing.assert_array_equal(file.series[0].asarray(), values)
    with rewritten(path, values.astype(np.float32)) as file:
        # The description no longer fits the values; the size of a pixel still does.
        pixels = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
        assert (pixels["PhysicalSizeX"], pixels["PhysicalSizeXUnit"]) == (0.1, "\u00b5m")
        assert pixels["Type"] == "float"
        np.testing.assert_array_equal(np.sort(file.series[0].asarray().ravel()), np.sort(values.ravel()))


def test_strange_metadata_do_not_cost_the_picture(tmp_path):
    """Here an OME description without an image, of values that it does not fit."""
    path = tmp_path / "a.tif"
    description = '<?xml version="1.0"?><OME><Image ID="Image:0"></Image></OME>'
    tifffile.imwrite(path, GREY, description=description, metadata=None)
    picture = replace(read_image(path), notes=TiffNotes("YX", GREY.shape, GREY.dtype, ome=description))
    with pytest.warns(UserWarning, match=r"a\.tif: its metadata are not kept"):
        write_image(tmp_path / "b.tif", GREY.astype(np.float32), picture, "")
    np.testing.assert_array_equal(read_image(tmp_path / "b.tif").values, GREY)


def test_unit_of_imagej_beyond_ascii(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, GREY, imagej=True, metadata={"unit": "\\u00B5m"}, resolution=(2.0, 2.0))
    with tifffile.TiffFile(path) as file, rewritten(path) as again:
        assert again.imagej_metadata["unit"] == file.imagej_metadata["unit"]
