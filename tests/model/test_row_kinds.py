"""Kinds of rows."""

import numpy as np

from bpfa.model.row_kinds import log_totals


def test_the_bits_of_a_row_do_not_depend_on_the_others():
    density = np.random.default_rng(0).normal(size=(12, 50))
    alone = [log_totals(density[:, row : row + 1])[0] for row in range(50)]
    np.testing.assert_array_equal(alone, log_totals(density))
