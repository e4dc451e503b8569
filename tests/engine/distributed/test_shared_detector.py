"""PaDiM fitted and read by two processes, each passing a part of the images, is that of one."""

import numpy as np
import pytest

from tests.engine.distributed import work
from tests.engine.distributed.group import together


def of_both(counts):
    return [work.padim(count) for count in counts]


@pytest.mark.long
def test_statistics_and_maps_are_those_of_one_process():
    counts = [7, 8]
    both = together(of_both, counts)
    for i, count in enumerate(counts):
        alone = work.padim(count)
        for found in (both[0][i], both[1][i]):
            assert found.keys() == alone.keys() and found["maps"].shape == (5, 8, 8)
            for name, value in alone.items():
                most = np.abs(value).max(initial=0)
                np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4 * most, err_msg=name)
