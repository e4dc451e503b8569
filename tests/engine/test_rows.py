"""Rows that are read when they are asked for."""

import numpy as np
import pytest

from core.engine import rows
from core.engine.rows import Joined, Some, resized


def test_chosen_rows_are_those_of_the_array():
    whole = np.arange(60).reshape(10, 2, 3)
    index = np.array([7, 1, 4])
    some = Some(whole, index)
    assert (len(some), some.shape) == (3, (3, 2, 3))
    for asked in (slice(1, 3), np.array([2, 0]), slice(0, 64)):
        assert np.array_equal(some[asked], whole[index][asked])


def test_joined_arrays_are_read_as_one():
    whole = np.arange(60, dtype=np.uint8).reshape(10, 2, 3)
    joined = Joined([whole[:4], whole[4:5], whole[5:]])
    assert (len(joined), joined.shape, joined.ndim, joined.dtype) == (10, (10, 2, 3), 3, np.uint8)
    mask = np.arange(10) % 3 == 0
    for asked in (0, 4, -1, np.int64(7), slice(2, 9), slice(None, None, -2), np.array([9, 0, 4, 4]), mask, slice(3, 3)):
        assert np.array_equal(joined[asked], whole[asked])
    assert np.array_equal(joined, whole) and np.array_equal(np.asarray(joined, np.int64), whole)
    with pytest.raises(IndexError):
        joined[10]


def test_rows_within_one_of_several_arrays_are_a_view():
    whole = np.arange(10)
    joined = Joined([whole[:4], whole[4:]])
    inside = joined.within(5, 8)
    assert inside is not None and inside.base is whole and list(inside) == [5, 6, 7]
    assert joined.within(3, 5) is None and np.array_equal(joined.within(0, 4), whole[:4])


def test_chosen_rows_of_joined_arrays():
    whole = np.arange(20).reshape(10, 2)
    some = Some(Joined([whole[:4], whole[4:]]), np.array([9, 3, 4]))
    assert np.array_equal(some, whole[[9, 3, 4]]) and some.dtype == whole.dtype and some.ndim == 2


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_scattered_rows_are_copied_up_to_a_number_of_bytes(monkeypatch, kind):
    whole = np.zeros((10, 4, 4), kind)
    monkeypatch.setattr(rows, "AT_ONCE", 3 * whole[0].nbytes)
    assert isinstance(rows.rows_of(whole, np.array([7, 1, 4])), np.ndarray)
    assert isinstance(rows.rows_of(whole, np.array([7, 1, 4, 9])), Some)


def test_images_and_regions_are_brought_to_a_smaller_side_as_they_are_read():
    images = np.arange(5 * 8 * 8 * 3, dtype=np.uint32).reshape(5, 8, 8, 3).astype(np.uint8)
    small = resized(images, 4)
    want = images.reshape(5, 4, 2, 4, 2, 3).astype(float).mean((2, 4))
    assert small.shape == (5, 4, 4, 3) and np.abs(np.asarray(small) - want).max() <= 0.5
    for asked in (slice(1, 3), np.array([4, 0]), 2, slice(2, 2)):
        assert np.array_equal(small[asked], np.asarray(small)[asked])
    regions = np.zeros((2, 8, 8), np.uint8)
    regions[0, :, :4], regions[1, :, :3] = 1, 1
    assert np.array_equal(resized(regions, 4)[:][:, 0], [[1, 1, 0, 0], [1, 1, 0, 0]])
    assert resized(images, 8) is images and resized(images, 9) is images
