"""Patches are gathered where they are, cover the picture, and take no memory of their own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from bpfa.data import Rows
from bpfa.data.patches import starts
from bpfa.images import PatchRows


def stack(shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape), rng.random(shape) < 0.5


def windows(array, size):
    """All patches of a stack, each as y, x, channel."""
    patches = sliding_window_view(array, size, axis=(1, 2))
    return patches.transpose(0, 1, 2, 4, 5, 3).reshape(-1, size[0] * size[1] * array.shape[3])


@pytest.mark.parametrize("shape", [(1, 7, 9, 1), (1, 6, 5, 3), (3, 5, 8, 2), (2, 4, 4, 1)])
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (2, 4), (4, 4)])
def test_gathering_equals_a_sliding_window(shape, size):
    values, observed = stack(shape)
    rows = PatchRows(values, observed, size)
    assert isinstance(rows, Rows)
    batch = rows.take(np.arange(rows.n_rows))
    expected, seen = windows(values, size), windows(observed, size)
    assert batch.values.shape == (rows.n_rows, rows.n_columns) == expected.shape
    np.testing.assert_array_equal(batch.observed, seen)
    np.testing.assert_array_equal(batch.values, np.where(seen, expected, 0))


def test_any_ids_in_any_order():
    values, observed = stack((2, 7, 6, 2))
    rows = PatchRows(values, observed, (3, 2))
    ids = np.random.default_rng(0).permutation(rows.n_rows)[:11]
    batch = rows.take(ids)
    np.testing.assert_array_equal(batch.ids, ids)
    np.testing.assert_array_equal(batch.observed, windows(observed, (3, 2))[ids])
    np.testing.assert_array_equal(batch.values, windows(np.where(observed, values, 0), (3, 2))[ids])


def test_a_picture_that_is_no_block_of_memory():
    values, observed = stack((1, 8, 12, 1))
    rows = PatchRows(values[:, ::2, ::3], observed[:, ::2, ::3], (2, 2))
    expected = windows(np.where(observed, values, 0)[:, ::2, ::3], (2, 2))
    np.testing.assert_array_equal(rows.take(np.arange(rows.n_rows)).values, expected)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_starts_cover_the_axis_and_end_at_the_border(length, size, stride):
    size, stride = min(size, length), min(stride, size, length)
    first = starts(length, size, stride)
    covered = np.zeros(length, dtype=int)
    for start in first:
        assert 0 <= start <= length - size
        covered[start : start + size] += 1
    assert (covered > 0).all()
    assert (np.diff(first) > 0).all()
    assert (np.diff(first) <= stride).all()
    # No more patches than are needed at this stride.
    assert len(first) == -(-(length - size) // stride) + 1


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("n_patches", [1, 5, 20, 1000])
def test_strips_are_all_patches_once(stride, n_patches):
    values, observed = stack((3, 8, 7, 1))
    rows = PatchRows(values, observed, (3, 3), stride)
    strips = rows.strips(n_patches)
    np.testing.assert_array_equal(np.concatenate([strip.ids for strip in strips]), np.arange(rows.n_rows))
    for strip in strips:
        assert len(strip.ids) == len(strip.y) * len(rows.x)
        assert len(strip.ids) <= max(n_patches, len(rows.x))
        corner = rows.take(strip.ids).values[0, 0]
        pixel = (strip.slice, strip.y[0], 0, 0)
        assert corner == (values[pixel] if observed[pixel] else 0)
