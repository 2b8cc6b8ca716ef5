"""Frames one after another: one dictionary that follows them, partial scans, and frames that are lost."""

import threading
import time

import numpy as np
import pytest

from bpfa import BPFA, inpaint, psnr
from bpfa.images import FrameRestorer, FrameWarning, masks
from bpfa.images.kept import PictureForm

SHAPE = (40, 44)
SMALL = {"patch_size": 5, "n_components": 24, "max_steps": 150, "random_state": 0, "n_jobs": 1}


def waves(shift=0.0, period=2.0):
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    return 100 + 40 * np.sin((x + shift) / period) + 25 * np.cos((x + 2 * y) / 3)


def steps(period=3.0):
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    return 100 + 40 * np.sign(np.sin(y / period)) * np.sign(np.sin(x / 2.3))


def atoms():
    """Columns of two kinds of atoms in two grains, at random heights, and some missing."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:128, :128].astype(float)
    picture = np.full((128, 128), 30.0)
    for side, angle in ((0, 0.2), (1, 0.9)):
        u, v = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
        for shift, height in ((0.0, 100.0), (4.5, 45.0)):
            at = [np.floor((axis + shift) / 9).astype(int) for axis in (u, v)]
            heights = height * rng.uniform(0.7, 1.3, (40, 40)) * (rng.random((40, 40)) > 0.05)
            apart = [axis + shift - 9 * (place + 0.5) for axis, place in zip((u, v), at, strict=True)]
            atom = heights[at[0] % 40, at[1] % 40] * np.exp(-(apart[0] ** 2 + apart[1] ** 2) / 5)
            picture += atom * ((x + 0.4 * y > 90) == side)
    return picture


def scan(seed):
    return masks.random(SHAPE, 0.4, seed=seed)


def quality(restorer, picture, seeds):
    return [psnr(picture, restorer.restore(picture, scan(seed)).image, scan(seed).missing) for seed in seeds]


def test_a_still_scene_gets_no_worse_than_a_fit_from_nothing():
    found = quality(FrameRestorer(**SMALL), waves(), range(8))
    new = inpaint(waves(), scan(7), refine=None, n_draws=4, **SMALL)
    assert found[-1] > psnr(waves(), new.image, scan(7).missing) - 0.2


def test_the_dictionary_follows_a_change_of_scene():
    restorers = {learn: FrameRestorer(learn=learn, forgetting=0.2, **SMALL) for learn in (0, 12)}
    for restorer in restorers.values():
        quality(restorer, waves(), range(2))
    frozen, learning = (quality(restorer, steps(), range(2, 12))[-1] for restorer in restorers.values())
    assert learning > frozen + 1.0
    assert restorers[0].model.n_steps_ == 150


def test_a_given_model_is_used_from_the_first_frame():
    model = FrameRestorer(**SMALL).restore(waves(), scan(0)).model
    restorer = FrameRestorer(model, learn=0, n_jobs=1)
    result = restorer.restore(waves(1.0), scan(1))
    assert result.model.n_steps_ == 150
    assert psnr(waves(1.0), result.image, scan(1).missing) > 20


def test_noisy_frames():
    rng = np.random.default_rng(0)
    restorer = FrameRestorer(task="denoise", **SMALL)
    for _ in range(3):
        noisy = waves() + 10 * rng.normal(size=SHAPE)
        result = restorer.restore(noisy)
    assert psnr(waves(), result.image) > psnr(waves(), noisy) + 3


def test_a_frame_can_be_looked_at_while_it_is_scanned():
    restorer, picture = FrameRestorer(**SMALL), waves()
    restorer.restore(picture, scan(0))
    path = masks.random(SHAPE, 0.5, seed=1)
    order = np.random.default_rng(0).permutation(len(path))
    restorer.begin(SHAPE)
    found = []
    for part in np.array_split(order, 4):
        restorer.add(path.positions[part], picture[tuple(path.positions[part].T)])
        so_far = restorer.so_far()
        found.append(psnr(picture, so_far.image, path.missing))
    assert so_far.missing.mean() == pytest.approx(0.5, abs=0.01)
    assert found[-1] > found[0] + 1
    before = restorer.model.n_steps_
    finished = restorer.finish()
    assert restorer.model.n_steps_ == before + restorer.learn
    np.testing.assert_array_equal(finished.missing, path.missing)
    for method in (restorer.so_far, restorer.finish):
        with pytest.raises(ValueError, match="no frame is being scanned"):
            method()


@pytest.mark.parametrize(
    ("positions", "values", "words"),
    [
        ([[0, 99]], [1.0], "outside of the picture"),
        ([[0, 0]], [1.0, 2.0], r"values: shape \(2,\); expected \(1,\)"),
        ([[0, 0], [0, 0]], [1.0, 2.0], "visited twice"),
    ],
)
def test_pixels_that_do_not_fit_are_refused(positions, values, words):
    restorer = FrameRestorer(**SMALL)
    restorer.begin(SHAPE)
    with pytest.raises(ValueError, match=words):
        restorer.add(positions, values)


def test_a_stream_goes_on_after_frames_that_cannot_be_restored():
    picture = waves()
    frames = [
        (picture, scan(0)),
        (picture[:20], scan(0).missing[:20]),
        (picture.astype(np.float32), scan(0)),
        (np.full(SHAPE, np.nan), None),
        (picture, np.zeros(SHAPE, dtype=bool)),
        (picture, scan(0), "a note"),
        [[1.0, 2.0], [3.0]],
        None,
        np.stack([picture] * 3, axis=-1),
        (picture, scan(0).missing[:5]),
        (picture, scan(1)),
    ]
    restorer = FrameRestorer(**SMALL)

    def one_at_a_time():
        for number, frame in enumerate(frames):
            # The reader is not ahead of the restorer, so that no frame is skipped.
            while restorer.latency.n_restored + restorer.latency.n_refused < number:
                time.sleep(0.001)
            yield frame

    with pytest.warns(FrameWarning) as caught:
        results = list(restorer.stream(one_at_a_time()))
    assert len(results) == 2
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 9
    assert not any("\n" in text for text in texts)
    assert "shape (20, 44); expected float64 of shape (40, 44)" in texts[0]
    assert "float32" in texts[1]
    assert "every pixel" in texts[2]
    assert "no pixel is missing" in texts[3]
    assert "a tuple of 3; expected a frame, or a pair" in texts[4]
    assert "frame: not an array of numbers" in texts[5]
    assert "object of shape ()" in texts[6]
    assert "shape (40, 44, 3)" in texts[7]
    assert "mask: shape (5, 44), expected (40, 44)" in texts[8]
    latency = restorer.latency
    assert (latency.n_restored, latency.n_skipped, latency.n_refused) == (2, 0, 9)
    assert 0 < latency.median <= latency.worst


def test_a_stream_that_falls_behind_skips_frames_and_counts_them():
    restorer, all_read = FrameRestorer(**SMALL), threading.Event()

    def fast():
        for seed in range(6):
            yield waves(), scan(seed)
        all_read.set()

    results = restorer.stream(fast())
    found = [next(results)]
    assert all_read.wait(10)
    found += results
    # The newest frame is never the one that is skipped.
    np.testing.assert_array_equal(found[-1].missing, scan(5).missing)
    latency = restorer.latency
    assert latency.n_restored == len(found) <= 3
    assert latency.n_restored + latency.n_skipped == 6


def test_an_error_of_the_source_reaches_the_user():
    def broken():
        yield waves(), scan(0)
        raise OSError("the camera is gone")

    results = FrameRestorer(**SMALL).stream(broken())
    with pytest.raises(OSError, match="the camera is gone"):
        list(results)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"task": "paint"}, "task='paint'"), ({"learn": -1}, "learn=-1"), ({"forgetting": 2.0}, "forgetting=2")],
)
def test_wrong_settings_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        FrameRestorer(**options)


def test_intervals_cover_what_they_promise():
    """Whatever the model believes: some observed pixels are hidden, and correct its deviations."""
    y, x = np.mgrid[:96, :96]
    picture = 100 + 40 * np.sin(x / 2) + 25 * np.cos((x + 2 * y) / 3) + 30 * (np.hypot(y - 48, x - 48) < 30)
    covered = {}
    for calibrate in (False, True):
        restorer = FrameRestorer(calibrate=calibrate, **SMALL)
        shares = []
        for seed in range(8):
            mask = masks.random(picture.shape, 0.4, seed=seed)
            result = restorer.restore(picture, mask)
            np.testing.assert_array_equal(result.missing, mask.missing)
            np.testing.assert_array_equal(result.image[~mask.missing], picture[~mask.missing])
            assert (result.std[~mask.missing] == 0).all()
            errors = np.abs(result.image - picture)[mask.missing]
            shares.append(np.mean(errors < 1.96 * result.std[mask.missing]))
        covered[calibrate] = np.mean(shares[2:])
    assert 0.92 <= covered[True] <= 0.97
    assert abs(covered[True] - 0.95) < abs(covered[False] - 0.95)


def test_a_change_of_scene_is_noticed_and_the_model_begins_anew():
    restorer = FrameRestorer(**SMALL)
    for seed in range(6):
        restorer.restore(waves(), scan(seed))
    assert restorer.n_changes == 0
    before = restorer.model.n_steps_
    darker = 0.3 * steps()
    restorer.restore(darker, scan(7))
    assert restorer.n_changes == 1
    assert restorer.model.n_steps_ == before + restorer.learn
    for number in (1, 2):
        result = restorer.restore(darker, scan(7 + number))
        assert restorer.model.n_steps_ == len(result.model.history_["step"]) == 8 * restorer.learn * number
    # The units are those of the new scene, in which the mean of a frame is 0.
    form = PictureForm.of_model(restorer.model)
    assert form.mean == pytest.approx(darker.mean(), abs=1.0)
    assert form.scale == pytest.approx(darker.std(), rel=0.1)
    assert result.noise_std < darker.std()


def test_a_model_does_not_begin_anew_with_another_part_of_the_same_specimen():
    picture = pytest.importorskip("skimage.data").gravel().astype(float)
    restorer = FrameRestorer(**{**SMALL, "patch_size": 8, "n_components": 48})
    for seed in range(6):
        shown = picture[:128, :128] if seed < 4 else picture[300:428, 300:428]
        restorer.restore(shown, masks.random(shown.shape, 0.3, seed=seed))
    assert restorer.n_changes == 1
    # The first frame is for the fit; the new model was tried, and the other one made the usual steps.
    assert restorer.model.n_steps_ == 150 + 5 * restorer.learn


def test_ten_frames_after_a_cut_are_nearly_as_good_as_a_fit():
    """They were 1.4 dB worse: the features of the scene before kept others from coming into use."""
    lattice = atoms()
    options = {**SMALL, "patch_size": 10, "n_components": 64}
    restorer = FrameRestorer(**options)
    for seed in range(3):
        restorer.restore(crop_of("coins"), masks.random((128, 128), 0.2, seed=seed))
    for seed in range(3, 13):
        mask = masks.random((128, 128), 0.2, seed=seed)
        found = restorer.restore(lattice, mask).image
    new = inpaint(lattice, mask, refine=None, n_draws=4, **options).image
    assert psnr(lattice, found, mask.missing) > psnr(lattice, new, mask.missing) - 0.8


@pytest.mark.parametrize(
    ("shape", "dose", "burn_in", "longer"),
    [((256, 256), 0.1, 12, 8), ((512, 512), 0.1, 12, 8), ((512, 512), 0.2, 6, 3), ((512, 512), 0.5, 12, 3)],
)
def test_chains_are_longer_where_there_is_time_or_much_is_observed(shape, dose, burn_in, longer):
    scanned = masks.random(shape, dose, seed=0)
    frame = np.where(scanned.missing, np.nan, 1.0)
    for mask, values in ((scanned, np.ones(shape)), (None, frame)):
        restorer = FrameRestorer(device="cpu")
        restorer._prepare(values, mask)
        assert restorer._options["patch_burn_in"] == burn_in
        assert restorer._watch.longer == longer
    chosen = FrameRestorer(device="cpu", patch_burn_in=3)
    chosen._prepare(frame, None)
    assert chosen._options["patch_burn_in"] == 3


def test_a_slow_drift_is_no_change_of_scene():
    restorer = FrameRestorer(**SMALL)
    for seed in range(12):
        restorer.restore(waves(shift=0.3 * seed), scan(seed))
    assert restorer.n_changes == 0


def test_only_what_is_asked_for():
    result = FrameRestorer(output="image", **SMALL).restore(waves(), scan(0))
    assert result.std is None
    assert result.image.shape == SHAPE
    with pytest.raises(ValueError, match="to_host=False: the frames are not kept on a GPU"):
        FrameRestorer(to_host=False, device="cpu", **SMALL).restore(waves(), scan(0))


def test_wrong_options_are_found_out_before_the_first_frame():
    with pytest.raises(TypeError, match="unexpected keyword argument 'strid'"):
        FrameRestorer(strid=2)
    with pytest.raises(ValueError, match="output='all': expected one of"):
        FrameRestorer(output="all")


def test_a_model_of_other_patches_is_refused():
    model = FrameRestorer(**SMALL).restore(waves(), scan(0)).model
    with pytest.raises(ValueError, match="patch_size=8: the kept model has patches of 5 x 5 pixels"):
        FrameRestorer(model, patch_size=8)
    with pytest.raises(ValueError, match="n_components=9: the kept model has decided this already"):
        FrameRestorer(model, n_components=9)
    with pytest.raises(ValueError, match="not a model of patches of a picture"):
        FrameRestorer(BPFA(2, max_steps=2).fit(np.random.default_rng(0).normal(size=(20, 3))))
    colours = np.stack([waves()] * 3, axis=-1)
    with pytest.raises(ValueError, match="3 channels; expected 1"):
        FrameRestorer(model, channel_axis=-1, n_jobs=1).restore(colours, scan(1))


def test_groups_can_refine_frames_if_asked_for():
    restorer = FrameRestorer(refine="groups", **SMALL)
    stages = [restorer.restore(waves(), scan(seed)).stage for seed in range(2)]
    assert set(stages) <= {"groups", "dictionary"}
    assert restorer.latency.n_restored == 2


def test_counts_of_electrons():
    rng = np.random.default_rng(0)
    restorer = FrameRestorer(noise_model="poisson", gain=1.0, **SMALL)
    for seed in range(2):
        result = restorer.restore(rng.poisson(waves()).astype(float), scan(seed))
    assert result.noise_model == "poisson"
    assert psnr(waves(), result.image, scan(1).missing) > 20


def crop_of(name):
    data = pytest.importorskip("skimage.data")
    return getattr(data, name)()[60:188, 100:228].astype(float)


@pytest.mark.parametrize(("before", "after"), [("moon", "coins"), ("gravel", "grass"), ("coins", "moon")])
def test_a_change_of_scene_is_known_before_deviations_are_corrected(before, after):
    """Frames after a cut used to be corrected by errors of the scene before: 98.5 % were covered."""
    restorer = FrameRestorer(**{**SMALL, "patch_size": 8, "n_components": 48})
    covered = []
    for seed in range(8):
        picture, mask = crop_of(before if seed < 4 else after), masks.random((128, 128), 0.3, seed=seed)
        result = restorer.restore(picture, mask)
        errors = np.abs(result.image - picture)[mask.missing]
        covered.append(np.mean(errors < 1.96 * result.std[mask.missing]))
    assert restorer.n_changes == 1
    assert 0.92 <= min(covered[4:]) <= max(covered[4:]) <= 0.97


def test_a_look_at_a_frame_that_is_scanned_says_nothing_about_later_frames():
    """Errors of a few scanned lines are not those of a whole frame, and they show no other scene."""
    restorers = [FrameRestorer(learn=0, **SMALL) for _ in range(2)]
    picture = crop_of("coins")
    positions = np.argwhere(np.arange(128)[:, None] + np.zeros(128) < 60)
    for restorer in restorers:
        for seed in range(2):
            restorer.restore(picture, masks.random(picture.shape, 0.3, seed=seed))
    restorers[1].begin(picture.shape)
    restorers[1].add(positions, picture[:60].ravel())
    # The places of hidden pixels are those of the other restorer again after this look.
    state = restorers[1]._hidden._rng.bit_generator.state
    restorers[1].so_far()
    restorers[1]._hidden._rng.bit_generator.state = state
    mask = masks.random(picture.shape, 0.3, seed=5)
    first, second = (restorer.restore(picture, mask) for restorer in restorers)
    np.testing.assert_array_equal(first.std, second.std)
    assert restorers[1].n_changes == 0


@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
@pytest.mark.parametrize("patch_size", [None, 5])
def test_first_frames_without_a_picture_are_left_out(dtype, patch_size):
    """A blank one used to set the scale, so that all frames after it were refused."""
    blank, whole = np.full(SHAPE, 7, dtype), waves().astype(dtype)
    one = masks.random(SHAPE, 0.4, seed=0).missing.copy()
    one[:] = True
    one[3, 4] = False
    frames = [(blank, scan(0)), (whole, np.ones(SHAPE, dtype=bool)), (whole, one), (whole, scan(1))]
    restorer = FrameRestorer(**{**SMALL, "patch_size": patch_size, "max_steps": 20})

    def one_at_a_time():
        for number, frame in enumerate(frames):
            while restorer.latency.n_restored + restorer.latency.n_refused < number:
                time.sleep(0.001)
            yield frame

    with pytest.warns(FrameWarning) as caught:
        results = list(restorer.stream(one_at_a_time()))
    assert len(results) == 1
    texts = [str(warning.message) for warning in caught]
    assert "every observed pixel is 7; expected a picture in the first frame" in texts[0]
    assert "every pixel of the image is missing" in texts[1]
    assert "every observed pixel is" in texts[2]
    assert not any("\n" in text for text in texts)
