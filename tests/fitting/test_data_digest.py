"""The digest of a data set: it depends on shape, values and holes, and costs a few chunks of a file."""

import numpy as np
import pytest

from bpfa.data import ArrayRows
from bpfa.data.formats.files import FileRows
from bpfa.fitting.data_digest import data_digest

VALUES = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def digest(values):
    return data_digest(ArrayRows(values))


def test_it_depends_on_values_shape_and_holes():
    changed, holed = VALUES.copy(), VALUES.copy()
    changed[20, 1] += 1e-3
    holed[20, 1] = np.nan
    zeroed = np.where(np.isnan(holed), 0.0, holed)
    digests = {digest(values) for values in (VALUES, changed, holed, zeroed, VALUES[:-1], VALUES[:, :-1])}
    assert len({*digests, digest(VALUES.reshape(100, 2))}) == 7


def test_it_does_not_depend_on_how_numbers_are_stored():
    assert digest(VALUES) == digest(VALUES.astype(np.float64)) == digest(np.asfortranarray(VALUES))
    assert digest(np.array([[0.0, 1.0]])) == digest(np.array([[-0.0, 1.0]]))


@pytest.mark.parametrize("n_columns", [3, 20_000])
def test_a_large_file_is_read_in_a_few_chunks(n_columns):
    class Counted(FileRows):
        n_read = 0

        def _read(self, start, stop):
            self.n_read += 1
            ids = np.arange(start, stop)[:, None]
            return np.broadcast_to(ids, (stop - start, self.n_columns)).astype(np.float64)

    rows = Counted("rows", (10_000_000, n_columns), np.dtype(np.float64))
    data_digest(rows)
    assert 1 <= rows.n_read <= 16
