"""What is said of an experiment's rows: marks needed, and which way outlines better."""

import numpy as np
import pytest

from tests.benches.experiments.marks import marks
from tests.benches.experiments.taught import gaps, needed, words


def row(label, seed, cases):
    cases = list(cases)
    return {"label": label, "seed": seed, "dice": float(np.mean(cases)), "cases": cases, "whose": [0, 0, 1, 2, 3, 4]}


def curve(way, seed, dice):
    return [row(f"{count} marks{way}", seed, [value] * 6) for count, value in dice.items()]


def test_marks_needed_lie_between_counts_in_proportion():
    rows = curve("", 0, {0: 0.3, 3: 0.5, 5: 0.7}) + curve("", 1, {5: 0.4, 3: 0.3}) + curve("", 2, {3: 0.6, 10: 0.5})
    assert needed(marks(), rows) == {"marks": [pytest.approx(4), float("inf"), 3]}
    by_order = ", the encoder stays, by score"
    assert needed(marks(), curve(by_order, 0, {5: 0.5, 10: 0.6})) == {f"marks{by_order}": [10]}
    shared = curve(", the encoder stays", 0, {3: 0.4}) + curve(by_order, 0, {5: 0.8, 10: 0.9})
    assert needed(marks(), shared) == {f"marks{by_order}": [pytest.approx(4)]}, "it begins where chance ends"
    assert not needed(marks(), [row("20 marks, nothing pasted", 0, [0.9] * 6)]), "one count says nothing"


def test_every_pair_is_of_arms_that_there_are():
    from tests.benches.experiments.marks import PAIRS

    assert {label for pair in PAIRS for label in pair} <= {arm.label for arm in marks()}


def test_a_gap_is_of_the_same_images_and_seeds():
    noise = np.random.default_rng(0).uniform(0, 0.1, (3, 6))
    better = [row("a", seed, 0.6 + noise[seed]) for seed in (0, 1, 2)]
    rows = [*better, *(row("b", seed, 0.4 + noise[seed]) for seed in (0, 1)), row("b", 7, [0.9] * 6)]
    [gap] = gaps(rows, [("a", "b"), ("a", "c")])
    assert (gap.seeds, gap.images) == (2, 6)
    assert gap.difference == pytest.approx(0.2) and gap.interval == pytest.approx((0.2, 0.2)) and gap.p < 0.01
    [other] = gaps(rows, [("b", "a")])
    assert other.difference == pytest.approx(-0.2)
    assert "a, less b: Dice +0.200" in str(gap) and "2 draws" in str(gap)


def test_images_of_one_patient_are_drawn_together():
    gain = [0.9, 0.9, 0, 0, 0, 0]
    [gap] = gaps([row("a", 0, gain), row("b", 0, [0] * 6)], [("a", "b")])
    assert gap.interval[0] == 0 and gap.p > 0.3  # one patient of five: some draws have none of it


def test_a_case_without_a_dice_has_no_part_in_a_gap():
    better, than = row("a", 0, [0.5] * 5 + [np.nan]), row("b", 0, [0.4] * 6)
    [gap] = gaps([better, than], [("a", "b")])
    assert gap.images == 5 and gap.difference == pytest.approx(0.1) and gap.interval == pytest.approx((0.1, 0.1))


def test_the_words_hold_both():
    text = words(curve("", 0, {10: 0.5, 20: 0.7}) + [row("20 marks, nothing pasted", 0, [0.6] * 6)])
    assert "20 marks, less 20 marks, nothing pasted: Dice +0.100" in text
    assert "marks: Dice 0.6 needs 15.0, the median of 1 draw (15.0 to 15.0)" in text
    assert "marks: Dice 0.4 needs 10.0, the median" in text
    text = words(curve("", 0, {10: 0.3, 20: 0.5}) + curve("", 1, {10: 0.3, 20: 0.35}))
    assert "Dice 0.4 needs more than there were, the median of 2 draws (15.0 to more than there were)" in text
