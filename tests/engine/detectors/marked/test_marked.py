"""Learning from marks: the closed form against scikit-learn, the base where nothing is marked, images left out."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import FitContext, Marks
from core.engine.detectors.marked import learning
from core.engine.detectors.marked.cells import chosen_channels, covered
from core.engine.detectors.marked.choice import Folds, choose, folds
from core.engine.detectors.marked.config import MarkedConfig
from core.engine.detectors.marked.discriminant import Moments, discriminant
from core.engine.detectors.marked.marked import Marked
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.registry import DETECTORS
from tests.conftest import ARCH
from tests.engine._images import normals

SIDE = 64


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch=ARCH, seed=3))


@pytest.fixture(scope="module")
def images():
    return normals(24, SIDE)


@pytest.fixture(scope="module")
def base(encoder, images, tmp_path_factory):
    """The folder of a fitted PaDiM."""
    folder = tmp_path_factory.mktemp("base")
    PaDiM.fit(encoder, images, PaDiMConfig(channels=20)).save(folder)
    return folder


def marked(count: int, seed: int = 9) -> Marks:
    """Images with a square that differs little from what surrounds it, each at a place of its own."""
    shown, masks = normals(count, SIDE, seed), np.zeros((count, SIDE, SIDE), np.uint8)
    draw = np.random.default_rng(seed)
    for image, mask in zip(shown, masks, strict=True):
        y, x = draw.integers(8, 32, 2)
        mask[y : y + 20, x : x + 20] = 1
        image[mask > 0] = np.clip(image[mask > 0] + draw.normal(0, 40, (400, 3)), 0, 255)
    return Marks(shown, masks)


def config_of(base, **changes) -> MarkedConfig:
    return MarkedConfig(base="padim", base_run=str(base), channels=64, folds=4, **changes)


def test_the_closed_form_is_scikit_learns_weighted_ridge():
    draw, shrinkage = np.random.default_rng(0), 0.3
    groups = [[(60, 0.0, 60.0)], [(20, 0.4, 1.0), (30, 0.2, 1.0)], [(5, 1.5, 1.0), (9, 1.0, 1.0)]]
    moments, rows, weights, lesion = [], [], [], []
    for number, group in enumerate(groups):
        total = Moments.empty(6)
        for count, shift, weight in group:
            x = draw.normal(shift, [1, 2, 3, 1, 0.5, 4], (count, 6))
            total.add(torch.from_numpy(x[: count // 2]), weight * (count // 2) / count)  # batch by batch
            total.add(torch.from_numpy(x[count // 2 :]), weight * (count - count // 2) / count)
            rows.append(x)
            weights.append(np.full(count, weight / sum(w for *_, w in group) / len(groups) / count))
            lesion.append(np.full(count, number == 2))
        moments.append(total)
    x, weight, y = np.concatenate(rows), np.concatenate(weights), np.concatenate(lesion).astype(float)
    middle = weight @ x
    deviation = np.sqrt(weight @ (x - middle) ** 2)
    want = Ridge(alpha=shrinkage).fit((x - middle) / deviation, y, sample_weight=weight)
    got = discriminant(*moments, shrinkage)
    np.testing.assert_allclose(got.weights, want.coef_ / deviation, rtol=1e-4)
    np.testing.assert_allclose(
        got(torch.from_numpy(x).float()), want.predict((x - middle) / deviation) - y @ weight, atol=1e-5
    )


def test_a_feature_that_never_varies_has_no_say_and_no_lesion_is_refused():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(30, 3)))
    x[:, 1] = 7.0
    parts = [Moments.empty(3) for _ in range(3)]
    for part, shift in zip(parts, (0, 0, 2), strict=True):
        part.add(x + torch.tensor([shift, 0, 0]), 1.0)
    assert discriminant(*parts, 0.1).weights[1] == 0
    with pytest.raises(ValueError, match="lesion"):
        discriminant(parts[0], parts[1], Moments.empty(3), 0.1)


def test_a_mask_and_its_cells():
    masks = np.zeros((2, 32, 32), np.uint8)
    masks[0, 8:24, 8:20] = 1
    masks[1, 9:11, 9:11] = 1  # covers no cell by half
    lesion, free = covered(masks, (4, 4))
    assert lesion[0].sum() == 4 and lesion[1].sum() == 1 and lesion[1, 1, 1]
    assert not (lesion & free).any() and free[1].sum() == 15 and free[0].sum() == 16 - 4


def test_channels_are_drawn_only_where_there_are_more_than_are_kept():
    assert chosen_channels(64, 64, 0) is None
    some = chosen_channels(100, 10, 1)
    assert len(some) == 10 and (some.diff() > 0).all() and some.max() < 100


@pytest.mark.parametrize("count", [0, 1])
def test_without_marks_to_leave_out_it_is_the_base(encoder, images, base, count, tmp_path):
    marks = marked(count) if count else None
    detector = Marked.fit(encoder, images, config_of(base), FitContext(marks=marks))
    assert f"{count} marked" in detector.remarks[0] and detector.rule.share == 0
    detector.save(tmp_path)
    again, alone = DETECTORS.get("marked").load(tmp_path), PaDiM.load(base)
    roi = np.ones((6, SIDE, SIDE), np.uint8)
    roi[:, :20] = 0
    others = normals(6, SIDE, 5)
    for one in (detector, again):
        found, want = one.predict(others, roi=roi), alone.predict(others, roi=roi)
        np.testing.assert_array_equal(found.maps, want.maps)
        np.testing.assert_array_equal(one.image_score(found, roi), alone.image_score(want, roi))


def test_it_finds_on_other_images_what_was_marked(encoder, images, base, tmp_path):
    reported = []
    detector = Marked.fit(encoder, images, config_of(base), FitContext(marks=marked(8), report=reported.append))
    assert detector.rule.share > 0 and detector.rule.images == 8
    assert detector.rule.dice + detector.rule.pro > detector.rule.base_dice + detector.rule.base_pro
    assert reported[-1]["step"] == reported[-1]["steps"]
    others = marked(12, seed=77)

    def contrast(one) -> float:
        maps = one.predict(others.images).maps
        hit = covered(others.masks, maps.shape[1:])[0]
        return float((maps[hit].mean() - maps[~hit].mean()) / maps.std())

    assert contrast(detector) > contrast(detector.base) + 0.1
    detector.save(tmp_path)
    again = Marked.load(tmp_path)
    np.testing.assert_allclose(again.predict(others.images).maps, detector.predict(others.images).maps, atol=1e-4)
    assert again.rule == detector.rule and again.size == SIDE


def test_the_mixture_has_the_scale_of_the_base_on_unseen_normal_images(encoder, images, base):
    detector = Marked.fit(encoder, images, config_of(base), FitContext(marks=marked(8)))
    unseen = images[learning.unseen_normals(detector.base, len(images), 0, None)]
    mixture, alone = detector.predict(unseen).maps, detector.base.predict(unseen).maps
    assert mixture.mean() == pytest.approx(alone.mean(), rel=0.02)
    assert mixture.std() == pytest.approx(alone.std(), rel=0.1)


def test_images_of_one_patient_are_left_out_together():
    patients = np.array([0, 0, 1, 2, 2, 2, 3, 4])
    of = folds(len(patients), 3, 0, patients)
    assert all(len(set(of[patients == one])) == 1 for one in range(5)) and set(of) == {0, 1, 2}
    assert len(set(folds(5, 10, 0, None))) == 5


def test_what_does_not_help_on_images_left_out_is_not_used():
    draw = np.random.default_rng(0)
    lesion = np.zeros((6, 8, 8), bool)
    lesion[:, 2:5, 2:5] = True
    inside = np.ones_like(lesion)
    good, noise = lesion * 4.0 + draw.normal(size=lesion.shape), draw.normal(size=lesion.shape)
    normal = draw.normal(size=(5, 8, 8))
    tried = Folds(np.arange(6) % 3, good, normal, lesion, inside)
    spread = np.stack([normal] * 3)
    assert choose(tried, {1.0: (noise, spread)}, (0.0, 0.5, 1.0)).share == 0
    tried = Folds(np.arange(6) % 3, noise, normal, lesion, inside)
    rule = choose(tried, {1.0: (noise, spread), 0.1: (good, spread)}, (0.0, 0.5, 1.0))
    assert rule.share > 0 and rule.shrinkage == 0.1 and rule.dice > rule.base_dice


def test_it_is_not_among_the_detectors_that_normal_images_suffice_for():
    assert "marked" not in DETECTORS.names() and DETECTORS.title("marked") == "Learnt from marks"
