"""An arm is chosen for a set by the others alone."""

import itertools

import numpy as np
import pytest

from tests.benches.experiments.choice import METRICS, leave_one_out, markdown, mean_ranks


def lines(**arms):
    return [{"label": k, **dict(zip(METRICS, v, strict=True))} for k, v in arms.items()]


SETS = {
    "eyes": lines(a=(0.9, 0.8, 0.3, 0.4), b=(0.8, 0.7, 0.2, 0.3)),
    "lungs": lines(a=(0.6, None, None, None), b=(0.7, None, None, None)),
    "brains": lines(a=(0.5, 0.5, 0.5, 0.5), b=(0.9, 0.9, 0.9, 0.9)),
}


def test_ranks_are_averaged_over_the_metrics_of_a_set_and_then_over_sets():
    assert mean_ranks({k: SETS[k] for k in ("eyes", "lungs")}, ["a", "b"]) == {"a": 1.5, "b": 1.5}
    assert mean_ranks(SETS, ["a", "b"]) == pytest.approx({"a": 5 / 3, "b": 4 / 3})


def test_figures_are_those_of_the_set_left_out_and_it_has_no_say():
    chosen = {c.left_out: c for c in leave_one_out(SETS)}
    assert chosen["eyes"].chosen == "b"  # lungs and brains prefer b, eyes themselves a
    assert chosen["eyes"].figures == {"auroc": 0.8, "pixel_auroc": 0.7, "dice": 0.2, "pro": 0.3}
    assert chosen["eyes"].best["auroc"] == 0.9
    assert chosen["lungs"].figures == {"auroc": 0.6}, "a tie goes to the first arm"
    turned = {**SETS, "eyes": lines(a=(0, 0, 0, 0), b=(1, 1, 1, 1))}
    assert {c.left_out: c.chosen for c in leave_one_out(turned)}["eyes"] == "b"


def test_the_choice_is_that_of_a_slow_count():
    rng = np.random.default_rng(0)
    sets = {s: lines(**{a: tuple(rng.random(4)) for a in "pqrs"}) for s in "xyz"}
    for c in leave_one_out(sets):
        worse = dict.fromkeys("pqrs", 0)
        for other, metric in itertools.product(
            [s for s in sets if s != c.left_out], ("auroc", "pixel_auroc", "dice", "pro")
        ):
            value = {line["label"]: line[metric] for line in sets[other]}
            for arm in worse:
                worse[arm] += sum(value[o] > value[arm] for o in value)
        assert c.ranks == pytest.approx({a: 1 + n / 8 for a, n in worse.items()})
        assert c.chosen == min(worse, key=lambda a: worse[a])


def test_too_little_to_choose_by_is_said():
    with pytest.raises(ValueError, match="two sets"):
        leave_one_out({"eyes": SETS["eyes"]})
    with pytest.raises(ValueError, match="in common"):
        leave_one_out({"eyes": SETS["eyes"], "lungs": lines(c=(1, 1, 1, 1))})


def test_the_table_shows_the_best_beside_the_chosen():
    table = markdown(leave_one_out(SETS))
    assert "| eyes | b | 0.800 (0.900) |" in table and "| lungs | a | 0.600 (0.700) | - | - | - |" in table
