"""The bench of a threshold's promise, on scores whose coverage is known."""

import numpy as np
import pytest

from tests.benches import promise


@pytest.mark.slow
def test_exchangeable_scores_break_the_promise_as_often_as_is_expected():
    rng = np.random.default_rng(0)
    drawn = [promise.promised(rng.normal(size=200), rng.normal(2, 1, 50), 20)[1] for _ in range(60)]
    assert {row["alpha"] for row in drawn} == {0.1} and all(row["possible"] for row in drawn)
    assert np.mean([row["broken"] for row in drawn]) == pytest.approx(drawn[0]["expected"], abs=0.04)
    assert 0 < np.mean([row["flagged"] for row in drawn]) < 0.1
    assert np.mean([row["found"] for row in drawn]) > 0.5


def test_too_few_held_out_images_promise_nothing():
    row = promise.promised(np.arange(60.0), np.arange(99.0), 5)[0]
    assert (row["held"], row["possible"], row["flagged"], row["found"], row["expected"]) == (30, False, 0, 0, None)


def test_patients_are_split_where_they_are_known():
    """Thirty images of each of sixty patients: thirty patients are held out, and one image of each counts."""
    rng = np.random.default_rng(0)
    whose = np.repeat(np.arange(60), 30)
    row = promise.promised(3 * rng.normal(size=60)[whose] + rng.normal(size=1800), np.zeros(5), 10, whose)[1]
    assert (row["held"], row["others"], row["possible"]) == (30, 30, True)


def test_what_planted_lesions_let_expect_of_real_ones_goes_by_their_size():
    one = object.__new__(promise._Set)
    one.sizes, one.scores, one.threshold = {1: 0.05, 2: 0.15, 3: 0.15}, {1: 0.0, 2: 1.0, 3: 0.0}, 0.5
    rows = [{"kind": "planted", "contrast": 1.0, "root": root, "flagged": flagged, "images": 10}
            for root, flagged in ((0.1, 2), (0.2, 6))]  # fmt: skip
    small, middle, every = promise._believed(one, rows)
    assert (small["found"], small["expected at 1"]) == (0.0, pytest.approx(0.2))
    assert (middle["found"], middle["expected at 1"]) == (0.5, pytest.approx(0.4))
    assert every["images"] == 3 and every["size"] == (0, 1.0)


def test_what_is_not_exchangeable_raises_the_alarm_in_any_order():
    rng, whose = np.random.default_rng(0), np.arange(60)
    held, same = (rng.normal(size=60), whose), (rng.normal(size=60), whose)
    still, shifted = (promise.alarms(held, new, True) for new in (same, (same[0] + 3, whose)))
    assert still["alarmed"] == [0.0] and still["median"] == [None] and still["images"] == 60
    assert shifted["alarmed"] == [1.0] and shifted["median"][0] < 40
