"""Marks that hit, FROC and AFROC, and weighted JAFROC against a literal loop."""

import numpy as np
import pytest

from core.studio.trials import localised, mrmc
from core.studio.trials.localised import Mark, Marked, hits
from core.studio.trials.roc import Figure


def lesion(x0: int, x1: int) -> np.ndarray:
    mask = np.zeros((20, 40), bool)
    mask[5:15, x0:x1] = True
    return mask


def test_a_mark_hits_by_centre_or_by_overlap():
    lesions = [lesion(0, 10), lesion(20, 30)]
    marks = [Mark(70, (4.5, 8)), Mark(90, (9, 14)), Mark(50, (15, 8)), Mark(20, (39, 19)), Mark(10, (-1, 8))]
    assert hits(marks, lesions, "centre") == Marked((90, -np.inf), (50, 20, 10))
    near = Mark(60, (15, 8), lesion(8, 18))  # 2 of 18 columns in common
    far = Mark(60, (15, 8), lesion(9, 25))  # 5 of 21 with the second, 1 of 25 with the first
    less = Mark(40, (4, 8), lesion(9, 19))  # 1 of 19
    assert hits([near, less], lesions, "overlap") == Marked((60, -np.inf), (40,))
    assert hits([far], lesions, "overlap") == Marked((-np.inf, 60), ())
    assert hits([near], lesions, "centre") == Marked((-np.inf, -np.inf), (60,))
    assert hits([near], [], "overlap") == Marked((), (60,))
    with pytest.raises(ValueError, match="centre, overlap"):
        hits([], lesions, "touch")


def reads(seed: int = 0, n: int = 24, skill: float = 1.0) -> tuple[list[Marked], np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.5
    truth[:4] = [True, True, False, False]
    out = []
    for sick in truth:
        rated = [
            float(np.round(rng.normal(skill), 1)) if rng.random() < 0.8 else -np.inf
            for _ in range(rng.integers(1, 4) if sick else 0)
        ]
        misses = [float(np.round(rng.normal(), 1)) for _ in range(rng.poisson(0.6))]
        out.append(Marked(tuple(rated), tuple(misses)))
    return out, truth


def literal(read, truth, weights=None) -> float:
    """Chakraborty's sum as it is printed: over normal cases, abnormal cases and their lesions."""
    total = pairs = 0.0
    for i, normal in enumerate(read):
        if truth[i]:
            continue
        worst = max(normal.misses) if normal.misses else -np.inf
        for j, abnormal in enumerate(read):
            if not truth[j]:
                continue
            pairs += 1
            for k, rating in enumerate(abnormal.lesions):
                w = weights[j][k] if weights else 1 / len(abnormal.lesions)
                total += w * (1.0 if rating > worst else 0.5 if rating == worst else 0.0)
    return total / pairs


@pytest.mark.parametrize("seed", range(4))
def test_weighted_jafroc_is_the_literal_sum_and_the_area_below_its_curve(seed):
    read, truth = reads(seed)
    figure = localised.jafroc(read, truth)
    assert figure.value == pytest.approx(literal(read, truth), abs=1e-12)
    x, y = localised.afroc(read, truth)
    assert np.trapezoid(y, x) == pytest.approx(float(figure.value), abs=1e-12)
    weights = {j: np.random.default_rng(j).dirichlet(np.ones(len(read[j].lesions))) for j in np.flatnonzero(truth)}
    assert localised.jafroc(read, truth, weights).value == pytest.approx(literal(read, truth, weights), abs=1e-12)
    with pytest.raises(ValueError, match="sum to 1"):
        localised.jafroc(
            read, truth, {int(np.flatnonzero(truth)[0]): [0.3] * len(read[np.flatnonzero(truth)[0]].lesions)}
        )


def test_the_jackknife_of_jafroc_is_that_of_leaving_cases_out():
    read, truth = reads(9)
    figure = localised.jafroc(read, truth)
    without = []
    for k in range(len(truth)):
        left = [i for i in range(len(truth)) if i != k]
        without.append(literal([read[i] for i in left], truth[left]))
    n = len(truth)
    assert mrmc.covariances(figure)[0, 0] == pytest.approx((n - 1) / n * n * np.var(without), rel=1e-9)


def test_froc_counts_misses_an_image_and_lesions_that_are_hit():
    read = [Marked((3.0, -np.inf), (1.0,)), Marked((), (2.0, 1.0)), Marked((1.0,), ())]
    x, y = localised.froc(read, np.array([True, False, True]))
    assert (x, y) == (pytest.approx([0, 0, 1 / 3, 1]), pytest.approx([0, 1 / 3, 1 / 3, 2 / 3]))


def test_readers_who_localise_better_in_one_arm_are_found():
    rows = [[localised.jafroc(*reads(20, 80, skill)) for skill in (0.3, 0.4, 0.35)], []]
    rows[1] = [localised.jafroc(*reads(20, 80, skill)) for skill in (2.0, 2.1, 2.2)]
    figure = Figure(*(np.stack([np.stack([np.asarray(f[k]) for f in row]) for row in rows]) for k in range(3)))
    found = mrmc.analyse(figure)
    assert found.tests["both"].difference < -0.05 and found.tests["both"].p < 0.01
