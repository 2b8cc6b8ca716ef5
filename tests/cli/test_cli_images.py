import os
import signal

import numpy as np
import pytest
from cli_run import refused, runner
from micrographs import hspy

import bpfa.fitting.history
from bpfa.images.files import read_image

Image = pytest.importorskip("PIL.Image")
h5py = pytest.importorskip("h5py")
tifffile = pytest.importorskip("tifffile")

SMALL = ("--patch", 4, "--components", 8, "--max-steps", 20, "--jobs", 1)
RNG = np.random.default_rng(0)
TRUTH = np.clip(
    np.add.outer(4 * np.arange(24), 5 * np.arange(20)) + RNG.normal(0, 2, (24, 20)), 1, 255
).astype(np.uint8)
MISSING = RNG.random(TRUTH.shape) < 0.4


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture
def image(tmp_path, monkeypatch):
    """A picture with black holes, and its mask, in the folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.where(MISSING, 0, TRUTH).astype(np.uint8)).save("in.png")
    Image.fromarray(np.where(MISSING, 255, 0).astype(np.uint8)).save("mask.png")
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_inpaint_writes_what_was_asked_for(run, image):
    ran = run(
        "inpaint", "in.png", "out.png", "--mask", "mask.png", "--std", "s.tif", "--report", "r.html", *SMALL
    )
    assert (ran.status, ran.err) == (0, "")
    assert names(image) == ["in.png", "mask.png", "out.png", "r.html", "s.tif"]
    out, std = read_image("out.png").values, read_image("s.tif").values
    np.testing.assert_array_equal(out[~MISSING], TRUTH[~MISSING])
    assert np.abs(out.astype(int) - TRUTH)[MISSING].mean() < 15
    assert std.dtype == np.float32
    np.testing.assert_array_equal(std > 0, MISSING)
    for name in ("out.png", "s.tif", "r.html"):
        assert name in ran.out
    page = (image / "r.html").read_text()
    assert "bpfa inpaint in.png out.png --mask mask.png" in page
    assert "--force</code>" in page


def test_a_report_with_the_true_image_shows_psnr_and_coverage(run, image):
    Image.fromarray(TRUTH).save("truth.png")
    ran = run(
        "inpaint", "in.png", "out.png", "--missing", 0, "--report", "r.html", "--truth", "truth.png", *SMALL
    )
    assert (ran.status, ran.err) == (0, "")
    page = (image / "r.html").read_text()
    assert "PSNR, all missing pixels" in page
    assert "--truth truth.png" in page


def test_a_kept_model_restores_without_training(run, image):
    ran = run("inpaint", "in.png", "out.png", "--missing", 0, "--save-model", "m.bpfa", *SMALL)
    assert (ran.status, ran.err) == (0, "")
    assert "model  m.bpfa" in ran.out
    ran = run("inpaint", "in.png", "again.png", "--missing", 0, "--model", "m.bpfa", "--refine", "none")
    assert (ran.status, ran.err) == (0, "")
    ran = run("inpaint", "in.png", "more.png", "--missing", 0, "--model", "m.bpfa", "--update", 4)
    assert (ran.status, ran.err) == (0, "")
    assert names(image) == ["again.png", "in.png", "m.bpfa", "mask.png", "more.png", "out.png"]
    refused(run("inpaint", "in.png", "o.png", "--missing", 0, "--model", "in.png"), "in.png")
    refused(run("inpaint", "in.png", "o.png", "--missing", 0, "--update", 4), "--update 4", "model")
    refused(run("inpaint", "in.png", "m.bpfa", "--missing", 0, "--model", "m.bpfa", "--force"), "--model")
    refused(
        run("inpaint", "in.png", "o.png", "--missing", 0, "--save-model", "mask.png", "--force"), "mask.png"
    )


def test_json_is_one_object_and_nothing_else(run, image):
    ran = run("inpaint", "in.png", "out.png", "--missing", 0, "--json", *SMALL)
    assert (ran.status, ran.err) == (0, "")
    document = ran.document
    assert document["command"] == "inpaint"
    assert document["written"] == {"image": "out.png"}
    assert document["missing_share"] == pytest.approx(MISSING.mean())
    assert document["steps"] == 20
    assert document["stopped_by"] == "max_steps"
    assert (document["rounds"] > 0) == (document["stage"] == "groups")
    assert document["versions"]["bpfa"] == bpfa.__version__
    assert document["noise_std"] > 0
    assert document["seconds"] > 0
    assert 0 < document["active_features"] <= document["features"] == 8


def test_quiet_says_nothing(run, image):
    assert run("denoise", "in.png", "out.png", "-q", *SMALL) == (0, "", "")


def test_same_seed_same_bytes(run, image):
    for name, seed in (("a.png", 1), ("b.png", 1), ("c.png", 2)):
        assert run("inpaint", "in.png", name, "--missing", 0, "--seed", seed, *SMALL).status == 0
    a, b, c = ((image / name).read_bytes() for name in ("a.png", "b.png", "c.png"))
    assert a == b != c


def test_denoise_estimates_every_pixel_and_fills_in(run, image):
    assert run("denoise", "in.png", "out.png", "--mask", "mask.png", "--std", "s.npy", *SMALL).status == 0
    out = read_image("out.png").values
    assert np.abs(out.astype(int) - TRUTH).mean() < 12
    assert (out[~MISSING] != TRUTH[~MISSING]).any()
    assert (np.load("s.npy") > 0).all()


def test_nan_and_transparent_pixels_are_missing(run, image):
    np.save("nan.npy", np.where(MISSING, np.nan, TRUTH))
    assert run("inpaint", "nan.npy", "a.npy", "--missing", "nan", *SMALL).status == 0
    assert np.isfinite(np.load("a.npy")).all()
    alpha = np.where(MISSING, 0, 255).astype(np.uint8)
    Image.fromarray(np.dstack([TRUTH, TRUTH, TRUTH, alpha])).save("rgba.png")
    ran = run("inpaint", "rgba.png", "b.png", "--json", *SMALL)
    assert ran.document["missing_share"] == pytest.approx(MISSING.mean())
    assert len(ran.document["noise_std"]) == 3
    np.testing.assert_array_equal(read_image("b.png").values[~MISSING], np.dstack([TRUTH] * 3)[~MISSING])


def test_a_coloured_pixel_is_not_missing_for_want_of_green(run, image):
    colours = np.dstack([TRUTH, np.zeros_like(TRUTH), TRUTH])
    colours[5, 5] = 0
    Image.fromarray(colours).save("rgb.png")
    ran = run("inpaint", "rgb.png", "b.png", "--missing", 0, "--json", *SMALL)
    assert ran.document["missing_share"] == pytest.approx(1 / TRUTH.size)


def test_stacks_and_spectra(run, image):
    stack = np.stack([TRUTH, TRUTH[::-1], TRUTH]).astype(np.uint16) * 200
    tifffile.imwrite("stack.tif", stack, photometric="minisblack", metadata={"axes": "ZYX"})
    assert (
        run("inpaint", "stack.tif", "o.tif", "--mask", "mask.png", "--report", "r.html", *SMALL).status == 0
    )
    out = read_image("o.tif")
    assert out.values.dtype == np.uint16
    assert out.stack_axis == 0
    np.testing.assert_array_equal(out.values[:, ~MISSING], stack[:, ~MISSING])
    assert "slice 2 of 3" in (image / "r.html").read_text()
    hspy("map.hspy", np.moveaxis(stack, 0, 2).astype(np.int16), (True, True, False))
    ran = run("denoise", "map.hspy", "clean.hspy", "--std", "std.hspy", "--report", "h.html", *SMALL)
    assert ran.status == 0
    with h5py.File("clean.hspy") as clean, h5py.File("std.hspy") as std:
        signal = clean["Experiments/a map"]
        assert signal["data"].dtype == np.int16
        assert "bpfa denoise map.hspy" in signal["metadata/General"].attrs["notes"]
        assert signal["metadata/Acquisition_instrument/TEM"].attrs["beam_energy"] == 200.0
        assert std["Experiments/a map/data"].dtype == np.float32


def test_scans_with_many_channels_are_restored_in_components(run, image):
    """As signals of HyperSpy are; patches of all channels would have thousands of values."""
    y, x, energy = np.mgrid[:24, :20, :100]
    truth = 20 + x * np.exp(-(((energy - 40) / 9.0) ** 2)) + 0.5 * y
    noisy = (truth + RNG.normal(0, 3, truth.shape)).astype(np.float32)
    hspy("map.hspy", noisy, (True, True, False))
    run("denoise", "map.hspy", "clean.hspy", "--std", "std.npy", *SMALL)
    restored = read_image("clean.hspy").values
    assert restored.shape == noisy.shape == np.load("std.npy").shape
    assert np.square(restored - truth).mean() < 0.1 * np.square(noisy - truth).mean()
    hspy("4d.hspy", noisy.reshape(24, 20, 10, 10), (True, True, False, False))
    run("inpaint", "4d.hspy", "whole.hspy", "--mask", "mask.png", *SMALL)
    with h5py.File("whole.hspy") as file:
        (signal,) = file["Experiments"].values()
        found = signal["data"][()]
    assert found.shape == (24, 20, 10, 10)
    np.testing.assert_array_equal(found[~MISSING], noisy.reshape(found.shape)[~MISSING])
    errors = found.reshape(truth.shape)[MISSING] - truth[MISSING]
    assert np.square(errors).mean() < 0.5 * truth[MISSING].var()


def test_axes_by_hand(run, image):
    np.save("cube.npy", np.stack([TRUTH] * 4).astype(float))
    refused(run("denoise", "cube.npy", "o.npy"), "cube.npy", "--channel-axis", "--stack-axis")
    assert run("denoise", "cube.npy", "o.npy", "--stack-axis", 0, *SMALL).status == 0
    assert np.load("o.npy").shape == (4, 24, 20)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.png", "o.png"), ("none.png", "no such file")),
        (("t.csv", "o.png"), ("t.csv", "expected an image")),
        (("in.png", "o.csv"), ("o.csv", "expected an image")),
        (("in.png", "mask.png"), ("OUT mask.png", "--force")),
        (("in.png", "o.png", "--mask", "mask.png", "--std", "mask.png"), ("--std", "--mask")),
        (("in.png", "o.tif", "--mask", "mask.png", "--std", "o.tif"), ("the same file as OUT;",)),
        (("in.png", "o.png", "--mask", "mask.png", "--std", "s.png"), ("s.png", ".npy")),
        (("in.png", "o.png", "--mask", "wrong.npy"), ("wrong.npy", "(3, 4)", "(24, 20)")),
        (("in.png", "o.png", "--mask", "nan.npy"), ("nan.npy", "NaN")),
        (("in.png", "o.png", "--mask", "zero.npy"), ("no pixel is missing",)),
        (("in.png", "o.png", "--missing", "999"), ("no pixel is missing",)),
        (("in.png", "o.png"), ("no pixel is missing",)),
        (("in.png", "o.png", "--mask", "mask.png", "--missing", "0"), ("--mask and --missing",)),
        (("in.png", "o.png", "--missing", "0", "--truth", "in.png"), ("--truth: expected --report",)),
        (
            ("in.png", "o.png", "--missing", "0", "--report", "r.html", "--truth", "wrong.npy"),
            ("--truth wrong.npy", "(3, 4)"),
        ),
        (
            ("in.png", "mask.png", "--mask", "mask.png", "--force"),
            ("mask.png", "--mask"),
        ),
        (("in.png", "no/o.png", "--missing", "0"), ("no folder",)),
        (("in.png", "o.png", "--missing", "0", "--algorithm", "em"), ("--algorithm 'em'",)),
        (("in.png", "o.png", "--missing", "0", "--patch", "99"), ("--patch 99",)),
        (("in.png", "o.png", "--missing", "0", "--device", "gpu"), ("--device 'gpu'",)),
        (("in.png", "o.hspy", "--missing", "0"), ("o.hspy",)),
        (("in.png", "o.png", "--mask", "all.npy"), ("mask",)),
        (("in.png", "o.png", "--stack-axis", "0"), ("stack axis",)),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(run, image, arguments, words):
    np.save("wrong.npy", np.ones((3, 4)))
    np.save("nan.npy", np.full(TRUTH.shape, np.nan))
    np.save("zero.npy", np.zeros(TRUTH.shape))
    np.save("all.npy", np.ones(TRUTH.shape))
    before = names(image)
    refused(run("inpaint", *arguments), *words)
    assert names(image) == before


def test_force_replaces(run, image):
    (image / "out.png").write_text("old")
    assert run("inpaint", "in.png", "out.png", "--missing", 0, "-f", *SMALL).status == 0
    assert read_image("out.png").values.shape == TRUTH.shape


def test_jpeg_warns(run, image):
    Image.fromarray(np.where(MISSING, 0, TRUTH).astype(np.uint8)).save("in.jpg")
    ran = run("inpaint", "in.jpg", "out.jpg", "--missing", 0, *SMALL)
    assert ran.status == 0
    assert ran.err.count("bpfa: warning: ") == ran.err.count("\n") == 2
    assert run("inpaint", "in.jpg", "out.jpg", "--missing", 0, "-fq", *SMALL).err == ""


def test_interrupted_leaves_nothing(run, image, monkeypatch):
    add = bpfa.fitting.history.History.add

    def interrupt(history, *arguments):
        add(history, *arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(bpfa.fitting.history.History, "add", interrupt)
    ran = run("inpaint", "in.png", "out.png", "--missing", 0, "--std", "s.npy", *SMALL)
    refused(ran, "interrupted", status=130)
    assert names(image) == ["in.png", "mask.png"]


def test_a_report_that_fails_leaves_no_image(run, image, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("no")

    monkeypatch.setattr("bpfa.report.image_report", broken)
    ran = run("inpaint", "in.png", "out.png", "--missing", 0, "--report", "r.html", *SMALL)
    refused(ran, "RuntimeError", status=1)
    assert names(image) == ["in.png", "mask.png"]


def test_tiff_keeps_what_it_says_about_its_pixels(run, image):
    values = read_image("in.png").values
    stack = np.stack([values if values.ndim == 2 else values[..., 0]] * 2)
    tifffile.imwrite(
        "s.tif", stack, imagej=True, resolution=(4, 4), metadata={"axes": "ZYX", "spacing": 2.0, "unit": "um"}
    )
    assert run("inpaint", "s.tif", "o.tif", "--mask", "mask.png", "--std", "d.tif", *SMALL).status == 0
    for name in ("o.tif", "d.tif"):
        with tifffile.TiffFile(name) as file:
            assert (file.imagej_metadata["spacing"], file.imagej_metadata["unit"]) == (2.0, "um")
            assert file.pages[0].get_resolution() == pytest.approx((4, 4))


def test_noise_of_counts(run, image):
    counts = np.random.default_rng(0).poisson(np.linspace(1, 20, 96), size=(96, 96))
    np.save("counts.npy", counts.astype(np.uint16))
    ran = run("denoise", "counts.npy", "out.npy", "--noise-model", "auto", "--json", *SMALL)
    told = ran.document
    assert (told["noise_model"], told["read_noise"]) == ("poisson", 0)
    assert 0.9 < told["gain"] < 1.1
    ran = run("denoise", "counts.npy", "b.npy", "--noise-model", "poisson", "--gain", 1, *SMALL)
    assert "poisson, gain 1 · noise" in ran.out
    refused(run("denoise", "counts.npy", "c.npy", "--gain", 2, *SMALL), "--gain 2: Gaussian noise has none")
    np.save("grey.npy", np.random.default_rng(0).normal(np.linspace(50, 150, 96), 5.0, size=(96, 96)))
    ran = run("denoise", "grey.npy", "d.npy", "--noise-model", "auto", *SMALL)
    assert ran.out.startswith("not recognised as counts · noise")
