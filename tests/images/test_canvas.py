"""Pictures come in as they are and go out as they came."""

import numpy as np
import pytest

from bpfa.images.canvas import Canvas


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "float16", "float32", "float64"])
def test_there_and_back_is_the_same_picture(dtype):
    limits = (0, 1) if dtype.startswith("f") else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    image = np.random.default_rng(0).uniform(*limits, size=(6, 5)).astype(dtype)
    canvas = Canvas.of(image)
    back = canvas.image(canvas.values)
    assert back.dtype == image.dtype
    if dtype == "int32":  # single precision has not all of its digits
        np.testing.assert_allclose(back, image, rtol=1e-6, atol=1e3)
    else:
        np.testing.assert_allclose(back, image, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "channel_axis", "stack_axis", "spread"),
    [
        ((5, 4), None, None, (1, 5, 4, 1)),
        ((5, 4, 3), 2, None, (1, 5, 4, 3)),
        ((5, 4, 3), -1, None, (1, 5, 4, 3)),
        ((3, 5, 4), 0, None, (1, 5, 4, 3)),
        ((7, 5, 4), None, 0, (7, 5, 4, 1)),
        ((5, 7, 4), None, 1, (7, 5, 4, 1)),
        ((7, 5, 4, 3), 3, 0, (7, 5, 4, 3)),
        ((3, 5, 4, 7), 0, -1, (7, 5, 4, 3)),
    ],
)
def test_axes(shape, channel_axis, stack_axis, spread):
    image = np.random.default_rng(0).normal(size=shape)
    mask = np.random.default_rng(1).random(shape) < 0.3
    canvas = Canvas.of(image, mask, channel_axis=channel_axis, stack_axis=stack_axis)
    assert canvas.values.shape == canvas.observed.shape == spread
    np.testing.assert_array_equal(canvas.missing, mask)
    back = canvas.image(canvas.values)
    np.testing.assert_allclose(back[~mask], image[~mask], atol=1e-6)
    assert canvas.deviation(np.ones(spread)).shape == shape
    assert canvas.has_channels == (channel_axis is not None)


def test_each_channel_has_mean_and_deviation_of_its_observed_pixels():
    rng = np.random.default_rng(0)
    image = rng.normal(size=(20, 30, 3)) * [1.0, 10.0, 0.1] + [5.0, -3.0, 1e6]
    mask = rng.random(image.shape) < 0.5
    canvas = Canvas.of(image, mask, channel_axis=2)
    for channel in range(3):
        seen = image[..., channel][~mask[..., channel]]
        np.testing.assert_allclose(canvas.mean[channel], seen.mean())
        np.testing.assert_allclose(canvas.scale[channel], seen.std())
        np.testing.assert_allclose(
            canvas.values[0, ..., channel][~mask[..., channel]],
            (seen - seen.mean()) / seen.std(),
            atol=1e-6,
        )
    assert (canvas.values[0][mask] == 0).all()
    np.testing.assert_allclose(canvas.deviation(np.ones((1, 20, 30, 3)))[0, 0], canvas.scale)


def test_a_mask_without_channels_holds_for_all():
    image = np.ones((5, 4, 3))
    mask = np.random.default_rng(0).random((5, 4)) < 0.5
    canvas = Canvas.of(image, mask, channel_axis=2)
    np.testing.assert_array_equal(canvas.missing, np.repeat(mask[..., None], 3, axis=2))
    stacked = Canvas.of(image[None], mask[None], channel_axis=-1, stack_axis=0)
    np.testing.assert_array_equal(stacked.missing[0], canvas.missing)


def test_nan_mask_and_masked_array_are_the_same():
    image = np.random.default_rng(0).normal(size=(6, 5))
    mask = np.random.default_rng(1).random((6, 5)) < 0.4
    ways = (
        Canvas.of(np.where(mask, np.nan, image)),
        Canvas.of(image, mask),
        Canvas.of(image, mask.astype(int)),
        Canvas.of(np.ma.masked_array(image, mask)),
        Canvas.of(np.ma.masked_array(image, mask & (image > 0)), mask & (image <= 0)),
        Canvas.of(np.where(mask & (image > 0), np.nan, image), mask & (image <= 0)),
        Canvas.of(np.where(mask, np.inf, image), mask),
    )
    for canvas in ways:
        np.testing.assert_array_equal(canvas.values, ways[0].values)
        np.testing.assert_array_equal(canvas.missing, mask)


def test_integers_are_rounded_and_kept_in_range():
    canvas = Canvas.of(np.array([[0, 255], [100, 50]], dtype=np.uint8))
    values = (np.array([[-20.0, 300.0], [100.6, 49.4]]) - canvas.mean) / canvas.scale
    np.testing.assert_array_equal(canvas.image(values[None, ..., None]), [[0, 255], [101, 49]])
    largest = Canvas.of(np.array([[0, 2**63 - 1]], dtype=np.int64))
    assert largest.image(np.full((1, 1, 2, 1), 10.0)).min() > 9e18


def test_floats_are_not_clipped():
    canvas = Canvas.of(np.array([[0.0, 1.0], [0.2, 0.4]]))
    assert canvas.image(np.full((1, 2, 2, 1), 10.0)).min() > 1


def test_a_constant_picture_keeps_its_level():
    canvas = Canvas.of(np.full((3, 4), 7, dtype=np.uint8))
    assert (canvas.values == 0).all()
    assert (canvas.image(canvas.values) == 7).all()


@pytest.mark.parametrize("value", [1, 255, 65535, -1])
def test_masks_of_zero_and_one_other_integer(value):
    """As image programs write them: 0 is known, anything else is missing."""
    image, mask = np.arange(30.0).reshape(6, 5), np.arange(30).reshape(6, 5) % 3 == 0
    canvas = Canvas.of(image, mask * value)
    np.testing.assert_array_equal(canvas.missing, mask)
    colours = Canvas.of(np.stack([image] * 3, axis=2), mask * value, channel_axis=2)
    np.testing.assert_array_equal(colours.missing[..., 1], mask)
    hidden = Canvas.of(np.ma.masked_array(image, image == 1), mask * value)
    np.testing.assert_array_equal(hidden.missing, mask | (image == 1))


@pytest.mark.parametrize("mask", [np.arange(4).reshape(2, 2), np.array([[0.0, 0.5], [0, 0]])])
def test_other_masks_are_refused(mask):
    with pytest.raises(TypeError, match=r"mask: dtype .* expected booleans, or 0 and one other integer"):
        Canvas.of(np.eye(2), mask)


def test_boolean_pictures_are_zeros_and_ones():
    image = np.arange(30).reshape(6, 5) % 3 == 0
    canvas, numbers = Canvas.of(image), Canvas.of(image.astype(float))
    np.testing.assert_array_equal(canvas.values, numbers.values)
    restored = canvas.image(canvas.values.astype(float))
    assert restored.dtype == bool
    np.testing.assert_array_equal(restored, image)
