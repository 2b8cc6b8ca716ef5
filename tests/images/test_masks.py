"""Scans: which pixels are visited, their dose, their travel, and their use as masks."""

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt

from bpfa.images import inpaint, masks

KINDS = {
    "random": masks.random,
    "lines": masks.lines,
    "line hop": masks.line_hop,
    "spiral": masks.spiral,
    "blue noise": masks.blue_noise,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dose", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("shape", [(64, 80), (33, 20)])
def test_the_dose_is_what_was_asked_for(kind, dose, shape):
    scan = KINDS[kind](shape, dose)
    assert scan.dose == pytest.approx(dose, rel=0.1, abs=1 / min(shape))
    assert scan.dose == pytest.approx(1 - scan.missing.mean())
    assert scan.missing.shape == shape


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_dose_visits_every_pixel(kind):
    assert KINDS[kind]((12, 9), 1.0).dose > 0.95


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1)])
def test_tiny_pictures(kind, shape):
    assert len(KINDS[kind](shape, 0.5)) >= 1


@pytest.mark.parametrize("kind", ["random", "line hop", "blue noise"])
def test_a_seed_gives_the_same_scan(kind):
    one, same, other = (KINDS[kind]((40, 40), 0.2, seed=seed).positions for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, same)
    assert len(one) != len(other) or (one != other).any()


def test_travel_is_short_where_the_beam_moves_smoothly():
    travels = {kind: scan((128, 128), 0.2).travel / (0.2 * 128**2) for kind, scan in KINDS.items()}
    assert travels["spiral"] < 1.6
    assert travels["lines"] < 1.2
    assert travels["line hop"] < 1.5
    assert travels["random"] > 3


def test_a_line_hop_goes_on_by_one_column_and_at_most_one_row():
    scan = masks.line_hop((50, 30), 0.2)
    band = scan.positions.reshape(10, 30, 2)
    steps = np.abs(np.diff(band, axis=1))
    assert (steps[..., 1] == 1).all()
    assert (steps[..., 0] <= 1).all()
    assert ((band[..., 0] // 5) == np.arange(10)[:, None]).all()


def test_blue_noise_leaves_no_large_gaps_and_few_neighbours():
    even, uneven = masks.blue_noise((96, 96), 0.1), masks.random((96, 96), 0.1)
    assert len(even) == len(uneven)
    gaps = [distance_transform_edt(scan.missing).max() for scan in (even, uneven)]
    assert gaps[0] < 0.75 * gaps[1]
    touching = [
        np.count_nonzero(~scan.missing[:, 1:] & ~scan.missing[:, :-1]) / len(scan) for scan in (even, uneven)
    ]
    assert touching[0] < 0.1 * touching[1]


def test_a_scan_that_is_still_running():
    scan = masks.spiral((40, 40), 0.3)
    half = scan.until(0.5)
    assert len(half) == -(-len(scan) // 2)
    np.testing.assert_array_equal(half.positions, scan.positions[: len(half)])
    assert len(scan.until(0.0)) == 0


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ([[0, 9]], "outside of the picture"),
        ([[-1, 0]], "outside of the picture"),
        ([[0, 0], [0, 0]], "visited twice"),
        ([[0.5, 0.0]], "expected integers"),
        ([0, 1, 2], r"expected integers of shape \(n, 2\)"),
    ],
)
def test_positions_that_are_no_scan_are_refused(positions, words):
    with pytest.raises(ValueError, match=words):
        masks.Scan((5, 5), positions)


@pytest.mark.parametrize("dose", [0.0, -0.1, 1.5, np.nan])
@pytest.mark.parametrize("kind", KINDS)
def test_doses_that_are_no_share_are_refused(kind, dose):
    with pytest.raises(ValueError, match="dose"):
        KINDS[kind]((5, 5), dose)


def test_a_shape_of_three_axes_is_refused():
    with pytest.raises(ValueError, match="shape"):
        masks.random((5, 5, 3), 0.5)


def test_inpaint_takes_a_scan_or_its_positions_for_a_mask():
    picture = np.add.outer(np.arange(16.0), np.arange(20.0))
    scan = masks.random(picture.shape, 0.6)
    options = {"patch_size": 4, "n_components": 4, "max_steps": 3, "refine": None, "random_state": 0}
    expected, one, other, listed = (
        inpaint(picture, mask, **options).image
        for mask in (scan.missing, scan, scan.positions, scan.positions.tolist())
    )
    np.testing.assert_array_equal(one, expected)
    np.testing.assert_array_equal(other, expected)
    np.testing.assert_array_equal(listed, expected)


def test_a_scan_of_another_picture_is_refused():
    with pytest.raises(ValueError, match=r"mask: a scan of 5 x 5 pixels; expected 16 x 20"):
        inpaint(np.ones((16, 20)), masks.random((5, 5), 0.5))
    with pytest.raises(ValueError, match="outside of the picture"):
        inpaint(np.ones((16, 20)), np.array([[0, 0], [16, 0]]))


def test_a_scan_of_a_stack_with_channels_is_the_same_for_all_of_them():
    picture = np.random.default_rng(0).random((2, 16, 20, 3))
    scan = masks.lines((16, 20), 0.5)
    options = {"patch_size": 3, "n_components": 4, "max_steps": 2, "refine": None, "random_state": 0}
    result = inpaint(picture, scan, stack_axis=0, channel_axis=-1, **options)
    assert (result.missing == scan.missing[None, :, :, None]).all()


@pytest.mark.parametrize("scan", [masks.lines, masks.line_hop])
def test_patches_of_scanned_lines_are_not_taken_for_panels(scan, monkeypatch):
    """Although some pixels of a patch are never observed together."""

    def refuse(*_):
        raise AssertionError("taken for panels")

    monkeypatch.setattr("bpfa.estimator.findings.linked_rows", refuse)
    picture = np.add.outer(np.sin(np.arange(40) / 3), np.cos(np.arange(36) / 4))
    mask = scan(picture.shape, 0.2)
    result = inpaint(picture, mask, patch_size=8, n_components=16, max_steps=30, refine=None, random_state=0)
    np.testing.assert_array_equal(result.missing, mask.missing)
