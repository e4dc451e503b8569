"""p-values that are even without a change, capital that grows after one, and plain measures of images."""

import numpy as np
import pytest

from core.engine.calibration import drift


def test_p_values_of_images_in_any_order_are_even_and_independent():
    rng = np.random.default_rng(0)
    drawn = []
    for seed in range(400):
        scores = rng.choice(rng.normal(size=8), 40)  # with many ties
        drawn.append(drift.online_p_values(scores[:10], scores[10:], seed))
    p = np.array(drawn)
    counts = np.histogram(p, 10, (0, 1))[0] / p.size
    assert abs(counts - 0.1).max() < 0.01
    assert abs(np.corrcoef(p[:, 0], p[:, 1])[0, 1]) < 0.15


def literal_jumper(p, jump) -> list[float]:
    """Capital as the book writes it: one account for each bet, a share of which changes hands before each bet."""
    accounts = {-1: 1 / 3, 0: 1 / 3, 1: 1 / 3}
    out = []
    for value in p:
        total = sum(accounts.values())
        accounts = {e: (1 - jump) * a + jump * total / 3 for e, a in accounts.items()}
        accounts = {e: a * (1 + e * (value - 0.5)) for e, a in accounts.items()}
        out.append(sum(accounts.values()))
    return out


@pytest.mark.slow
def test_the_capital_is_the_literal_one_and_its_mean_stays():
    rng = np.random.default_rng(2)
    p = rng.random(50)
    assert drift.jumper(p) == pytest.approx(literal_jumper(p, drift.JUMP))
    ends = [drift.jumper(rng.random(60))[-1] for _ in range(3000)]
    assert np.mean(ends) == pytest.approx(1, abs=0.1)


@pytest.mark.long
def test_false_alarms_are_rare_and_changes_are_found():
    rng = np.random.default_rng(3)
    quiet = [drift.first_alarm(drift.jumper(rng.random(2000))) for _ in range(300)]
    assert np.mean([a is not None for a in quiet]) <= 0.02  # at most 1 / ALARM is promised
    for change in (1.0, -1.0):  # brighter or darker scores
        alarms = []
        for seed in range(20):
            new = rng.normal(change, 1, 300)
            alarms.append(drift.first_alarm(drift.jumper(drift.online_p_values(rng.normal(size=100), new, seed))))
        assert all(a is not None for a in alarms) and np.median(alarms) < 120


def test_plain_measures_say_what_differs():
    rng = np.random.default_rng(0)
    usual = np.clip(rng.normal(120, 30, (40, 16, 16, 3)), 0, 255).astype(np.uint8)
    same, dark = (np.clip(rng.normal(m, 30, (40, 16, 16, 3)), 0, 255).astype(np.uint8) for m in (120, 80))
    assert not any(row.matters for row in drift.compare(drift.measures(usual), drift.measures(same)))
    first = drift.compare(drift.measures(usual), drift.measures(dark))[0]
    assert (first.measure, first.matters) == ("brightness", True) and first.new < first.usual
    assert drift.compare(drift.measures(usual[:5]), drift.measures(dark)) == []
