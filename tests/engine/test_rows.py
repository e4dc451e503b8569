"""Rows that are read when they are asked for."""

import numpy as np

from core.engine.rows import Some


def test_chosen_rows_are_those_of_the_array():
    whole = np.arange(60).reshape(10, 2, 3)
    index = np.array([7, 1, 4])
    some = Some(whole, index)
    assert (len(some), some.shape) == (3, (3, 2, 3))
    for asked in (slice(1, 3), np.array([2, 0]), slice(0, 64)):
        assert np.array_equal(some[asked], whole[index][asked])
