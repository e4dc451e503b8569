"""Each fault of the bench, a few times: nothing lost, nothing leaked."""

import pytest

from tests.benches import faults

TRAINS = ("disk-full-in-training", "sigterm-in-training")
EACH = [pytest.param(name, marks=pytest.mark.longest if name in TRAINS else pytest.mark.slow) for name in faults.FAULTS]


@pytest.mark.parametrize("name", EACH)
def test_nothing_is_lost_and_nothing_leaks(name):
    (row,) = faults.faults(quick=True, only=(name,))["faults"]
    assert row["tries"] >= faults.QUICK and (row["lost"], row["leaked"]) == (0, 0), row


def test_a_fault_that_is_not_there_is_a_sentence():
    with pytest.raises(ValueError, match="choose from: killed-while-deciding"):
        faults.faults(only=("rain",))
