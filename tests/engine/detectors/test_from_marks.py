"""Learning from marks: what is pasted, what is ignored, marks left out, the base where nothing is marked."""

import copy

import numpy as np
import pytest
import torch

from core.engine.augment.medmix.donors import pasted
from core.engine.backbones import embed
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.outlines import level_of
from core.engine.calibration.percentiles import Calibration
from core.engine.detectors.base import FitContext, Marks
from core.engine.detectors.learnt import learnt
from core.engine.detectors.learnt.config import LearntConfig
from core.engine.detectors.learnt.learnt import (
    DOUBT,
    NOT_PASTED,
    SCORE_WEIGHTS,
    Learnt,
    Rule,
    better,
    by_others,
    chosen_score_weight,
    chosen_spot,
    chosen_weight,
    pooled_odds,
)
from core.engine.detectors.learnt.teaching import VIEW, ViewSampler, _moved, lesion_loss
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from tests.conftest import ARCH
from tests.engine._images import normals

pytestmark = pytest.mark.slow

SIDE = 64


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(arch=ARCH, seed=3))


@pytest.fixture(scope="module")
def base(encoder, tmp_path_factory):
    """The folder of a fitted PaDiM."""
    folder = tmp_path_factory.mktemp("base")
    PaDiM.fit(encoder, normals(24, SIDE), PaDiMConfig(channels=20)).save(folder)
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


def config_of(base, **changes) -> LearntConfig:
    quick = {"width": 16, "steps": 25}
    return LearntConfig(base="padim", base_run=str(base), **{**quick, **changes})


@pytest.fixture(scope="module")
def fitted(encoder, base):
    return Learnt.fit(encoder, normals(24, SIDE), config_of(base), FitContext(marks=marked(6)))


def test_a_lesion_is_pasted_in_its_own_outline_inside_the_region():
    under, donor = np.full((64, 64, 3), 90, np.uint8), np.full((64, 64, 3), 120, np.uint8)
    mask, roi = np.zeros((64, 64), np.uint8), np.zeros((64, 64), np.uint8)
    mask[26:38, 26:38], roi[:, 20:] = 1, 1
    donor[mask > 0] = 200
    pastes = [pasted(under, roi, donor, mask, np.random.default_rng(seed)) for seed in range(8)]
    for image, there in pastes:
        assert 12 <= there.sum() <= mask.sum() and (there & roi).sum() >= 0.8 * there.sum()
        changed = np.abs(image.astype(int) - under).max(2)
        assert changed[there > 0].mean() > 4 * changed[there == 0].mean()
    assert np.mean([there.sum() for _, there in pastes]) > 0.8 * mask.sum(), "mostly whole"
    image, there = pasted(under, roi, donor, np.zeros_like(mask), np.random.default_rng(0))
    assert (image == under).all() and not there.any()
    image, there = pasted(under, np.zeros_like(roi), donor, mask, np.random.default_rng(0))
    assert (image == under).all() and not there.any(), "no place in the region"


def test_a_pasted_lesion_goes_where_it_looks_at_home_and_takes_on_the_colour_there():
    under, donor = np.full((64, 64, 3), 20, np.uint8), np.full((64, 64, 3), 120, np.uint8)
    under[:, 32:] = 110  # like what surrounds the donor's lesion
    mask = np.zeros((64, 64), np.uint8)
    mask[28:36, 28:36] = 1
    donor[mask > 0] = 160
    right = 0
    for seed in range(16):
        image, there = pasted(under, None, donor, mask, np.random.default_rng(seed))
        at_home = there[:, 34:].sum() > 0.9 * there.sum()
        right += bool(at_home)
        if at_home:
            assert 148 <= image[there > 0].max() <= 155, (
                "40 above its surroundings, as in its own image, for the most part"
            )
    assert right >= 13


def test_no_mirrored_lesion_is_cut_from_a_donor():
    image, mask = np.zeros((SIDE, SIDE, 3), np.uint8), np.zeros((SIDE, SIDE), np.uint8)
    mask[2:12, 2:12] = 1  # near the corner, where what comes in is mirrored from inside
    for seed in range(12):
        view, there = _moved(image, (mask,), np.random.default_rng(seed), mask, donor=True)
        rows, columns = np.nonzero(there)
        assert there.sum() < 1.4**2 * mask.sum() * 1.1 and abs(rows.mean() - SIDE / 2) < 3 > abs(
            columns.mean() - SIDE / 2
        )


def test_what_is_ignored_has_no_part_in_the_loss():
    draw = torch.Generator().manual_seed(0)
    y = torch.randn(2, 8, 8, generator=draw, requires_grad=True)
    target, valid = (torch.rand(2, 8, 8, generator=draw) > 0.5).float(), torch.rand(2, 8, 8, generator=draw) > 0.5
    lesion_loss(y, target, valid).backward()
    assert (y.grad[~valid] == 0).all() and (y.grad[valid] != 0).all()
    loss = lesion_loss(y, target, torch.zeros_like(valid))
    assert torch.isfinite(loss)


def test_the_largest_weight_that_is_not_clearly_worse():
    levels = 73
    curve = np.zeros((levels, 6))
    curve[24:40] = 0.6
    clearly = curve.copy()
    clearly[24:40] = 0.4
    near = curve.copy()
    near[24:40] = [[0.58, 0.62, 0.55, 0.63, 0.59, 0.61]]
    assert chosen_weight({0.0: curve, 1.0: near, 2.0: clearly}, dict.fromkeys((0.0, 1.0, 2.0), 0.0))[0] == 1.0
    weight, level, dice = chosen_weight({2.0: curve}, {2.0: 0.0})
    assert weight == 2.0 and dice.tolist() == [0.6] * 6
    assert 0 < level < (24 + 39) / 2 * 0.25 - 6, "drawn towards 0, for six marks are few"
    lower = chosen_weight({2.0: curve}, {2.0: -5.0})[1]
    assert lower == pytest.approx(level - 5 * DOUBT / (6 + DOUBT))


@pytest.mark.long
def test_it_finds_what_was_marked_and_says_by_how_much(fitted, encoder, tmp_path):
    rule = fitted.rule
    assert rule.folds == 3 and rule.images == rule.patients == 6 and len(rule.cases) == 6
    assert rule.difference == pytest.approx(np.mean([after - before for _, before, after in rule.cases]))
    assert rule.interval[0] < rule.difference < rule.interval[1] and "better by" in rule.words
    others, roi = marked(5, 3), np.ones((5, SIDE, SIDE), np.uint8)
    roi[:, :6] = 0
    found = fitted.predict(others.images, roi=roi)
    inside = others.masks[:, 2::4, 2::4] > 0
    assert found.maps[inside].mean() > found.maps[~inside].mean() + 2
    well = fitted.image_score(fitted.predict(normals(5, SIDE, 7)))
    assert fitted.image_score(fitted.predict(others.images)).min() > well.mean()
    assert found.extras["unsure"].shape == found.extras["novelty"].shape == (5,)
    assert fitted.predict(others.images[:0]).maps.shape == (0, 16, 16)
    fitted.save(tmp_path)
    again = DETECTORS.get("learnt").load(tmp_path)
    assert again.rule == rule and again.outline_level() == (rule.threshold, max(rule.spot, rule.threshold))
    same = again.predict(others.images, roi=roi)
    np.testing.assert_allclose(same.maps, found.maps, atol=1e-4)
    np.testing.assert_allclose(again.image_score(same, roi), fitted.image_score(found, roi), atol=1e-3)
    repeated = Learnt.fit(encoder, normals(24, SIDE), fitted.config, FitContext(marks=marked(6)))
    assert repeated.rule == rule, "the same marks and seed give the same"


def test_an_image_is_read_once_for_itself_and_its_base(fitted, monkeypatch):
    """Beside it only its mirror image is read; by an encoder that has learnt too both are."""
    (still,), (tuned,) = (copy.deepcopy(fitted.decoders[-1:]) for _ in range(2))
    still.encoder, tuned.encoder = None, build_encoder(EncoderConfig(arch=ARCH, seed=4)).eval()
    known = fitted.rule, fitted.scales, fitted.bank
    seen = []
    plain = embed.to_batch
    monkeypatch.setattr(embed, "to_batch", lambda x, device: seen.append(len(x)) or plain(x, device))
    for decoder, readings in ((still, 2), (tuned, 3)):
        detector = Learnt(fitted.config, fitted.base, fitted.encoder, SIDE, [decoder], *known)
        seen.clear()
        detector.predict(marked(3, seed=4).images)
        assert seen == [3] * readings and detector.tuned == (readings == 3)


def test_an_image_and_its_mirror_image_are_read_alike(fitted):
    shown = marked(3, seed=4).images
    assert np.allclose(
        fitted._logits(shown[:, :, ::-1].copy(), fitted.decoders),
        fitted._logits(shown, fitted.decoders)[..., ::-1],
        atol=1e-4,
    )
    once = Learnt(fitted.config.replace(mirror=False), fitted.base, fitted.encoder, SIDE, fitted.decoders)
    assert not np.allclose(once._logits(shown, once.decoders), fitted._logits(shown, fitted.decoders), atol=1e-2)


@pytest.mark.long
def test_the_encoder_learns_too_where_that_costs_no_marks_left_out_and_the_one_given_stays(
    encoder, base, tmp_path, monkeypatch
):
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    asked = config_of(base, tune=1e-3, tune_steps=25, folds=2), FitContext(marks=marked(5))
    monkeypatch.setattr("core.engine.detectors.learnt.learnt.better", lambda tries: len(tries) - 1)
    detector = Learnt.fit(encoder, normals(24, SIDE), *asked)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    (decoder,) = detector.decoders
    own = decoder.encoder.state_dict()
    changed = {name for name, value in before.items() if not torch.equal(own[name], value)}
    assert changed and all(name.startswith("net.") for name in changed)
    assert detector.tuned and detector.rule.folds == 2 and detector.rule.dice is not None
    assert detector.remarks[-1] == "The encoder was fine-tuned as well."
    detector.save(tmp_path)
    shown = marked(3, seed=4).images
    again = Learnt.load(tmp_path)
    assert again.tuned and np.allclose(again.predict(shown).maps, detector.predict(shown).maps, atol=1e-5)
    monkeypatch.setattr("core.engine.detectors.learnt.learnt.better", lambda tries: 0)
    stays = Learnt.fit(encoder, normals(24, SIDE), *asked)
    plain = Learnt.fit(encoder, normals(24, SIDE), asked[0].replace(tune=0.0), asked[1])
    assert not stays.tuned and np.array_equal(stays.predict(shown).maps, plain.predict(shown).maps)

    plain.save(tmp_path / "first")
    later = asked[1].replace(first=Learnt.load(tmp_path / "first"))
    assert np.array_equal(
        Learnt.fit(encoder, normals(24, SIDE), asked[0], later).predict(shown).maps, plain.predict(shown).maps
    )
    monkeypatch.setattr("core.engine.detectors.learnt.learnt.better", lambda tries: len(tries) - 1)
    continued = Learnt.fit(encoder, normals(24, SIDE), asked[0], later)
    assert np.allclose(continued.predict(shown).maps, detector.predict(shown).maps, atol=1e-4), "as without a pause"
    assert continued.tuned and continued.config == detector.config


def test_one_mark_several_kinds_normal_cases_and_places_ignored(encoder, base):
    marks = marked(1)
    one = Learnt.fit(encoder, normals(24, SIDE), config_of(base, steps=2), FitContext(marks=marks))
    assert one.rule.weight == 2.0 and one.rule.folds == 0 and "too few" in one.rule.words
    many = marked(4)
    many.masks[3] = 0
    kinds = many.masks * np.array([1, 2, 1, 0], np.uint8)[:, None, None]
    ignored = (1 - many.masks) * np.array([1, 0, 0, 0], np.uint8)[:, None, None]
    marks = Marks(many.images, many.masks, ignored=ignored, kinds=kinds, names=("polyp", "bleeding"))
    found = Learnt.fit(encoder, normals(24, SIDE), config_of(base, steps=2), FitContext(marks=marks))
    assert found.rule.images == 3 and {number for number, *_ in found.rule.cases} == {1, 2}, "the first is unfinished"
    shares = found.predict(many.images).extras["kinds"]
    assert shares.shape == (4, 2) and np.allclose(shares.sum(1), 1)


def test_a_single_mark_is_learnt_from(encoder, base):
    one, others = marked(1), marked(5, 3)
    found = Learnt.fit(encoder, normals(24, SIDE), config_of(base), FitContext(marks=one))
    learnt, inside = found.predict(others.images).extras["learnt"], others.masks[:, 2::4, 2::4] > 0
    assert learnt[inside].mean() > learnt[~inside].mean() + 1
    assert found.rule.threshold == found.rule.spot < 0, "what it is sure of is little but the mark itself"


def test_marks_outside_the_region_of_interest_leave_the_level_to_normal_images(encoder, base):
    marks, shown = marked(4), normals(24, SIDE)
    roi = np.repeat(1 - marks.masks.max(0, keepdims=True), 24, 0)
    asked = FitContext(roi, marks=Marks(marks.images, marks.masks, roi[:4]))
    found = Learnt.fit(encoder, shown, config_of(base, steps=8, tune=0.0), asked)
    assert "none of them in the region of interest" in found.rule.words
    assert found.rule.threshold == found.rule.spot < 0


def test_few_marks_leave_the_level_to_normal_images(encoder, base, monkeypatch):
    """From few marks a map is below 0 nearly everywhere; with enough of them 0 says what it should."""
    asked = config_of(base, steps=8, tune=0.0, weights=(2.0,)), FitContext(marks=marked(4))
    few = Learnt.fit(encoder, normals(24, SIDE), *asked)
    monkeypatch.setattr("core.engine.detectors.learnt.learnt.FEW", 4)
    enough = Learnt.fit(encoder, normals(24, SIDE), *asked)
    shown = normals(24, SIDE)
    peaks = few.predict(shown).maps.reshape(24, -1).max(1)
    assert np.median(peaks) < 0
    assert few.rule.threshold == pytest.approx(enough.rule.threshold + np.median(peaks) / 2, abs=0.5)


def test_without_marks_it_is_the_base(encoder, base, tmp_path):
    empty = marked(2)
    empty.masks[:] = 0
    for marks in (None, empty):
        detector = Learnt.fit(encoder, normals(24, SIDE), config_of(base), FitContext(marks=marks))
        assert "Nothing is annotated" in detector.remarks[0] and detector.outline_level() is None
    detector.save(tmp_path)
    others, alone = normals(3, SIDE, 5), PaDiM.load(base)
    found, want = Learnt.load(tmp_path).predict(others), alone.predict(others)
    np.testing.assert_allclose(found.maps, want.maps, atol=1e-5)
    np.testing.assert_allclose(detector.image_score(found), alone.image_score(want), atol=1e-5)


def test_it_stops_when_asked_and_reports_how_far_it_is(encoder, base):
    reports = []

    def stop() -> bool:
        return len(reports) > 3

    with pytest.raises(Stopped):
        Learnt.fit(
            encoder, normals(24, SIDE), config_of(base), FitContext(None, "cpu", reports.append, stop, marks=marked(3))
        )
    assert [r["step"] for r in reports] == sorted(r["step"] for r in reports) and reports[-1]["steps"] == 1000


def test_its_level_is_that_of_the_outlines():
    held = Calibration.of(np.zeros(4), np.random.default_rng(0).normal(size=(4, 8, 8)))
    pixels = held.outlined_by(None, None, (4.0, 5.0)).pixels
    assert pixels.threshold == 5.0 and pixels.hi > 5.0 and pixels.share is None and pixels.level == 4.0
    assert level_of(np.array([4.5, 6.0]), pixels).tolist() == [5.0, 4.0], (
        "where nothing rises above it, nothing is outlined"
    )
    assert held.outlined_by(0.5, None).pixels.threshold == held.pixels.threshold
    assert Rule().interval is None


def test_a_decoder_never_sees_the_marks_that_are_left_out_for_it(encoder):
    many, folds = marked(6), [np.array(fold) for fold in ([0, 3], [1, 4], [2, 5])]
    lessons = ViewSampler(encoder, normals(8, SIDE), None, many, LearntConfig(), folds)
    views = lessons()
    parts = views.part.tolist()
    assert [parts.count(p) for p in (0, 1, 2, -1)] == [3, 3, 3, 2], "four marked and two pasted for each decoder"
    assert views.target.shape == (11, SIDE, SIDE) and not views.target[views.part == -1].any()
    drawn = [sorted({next(order) for _ in range(8)}) for order in lessons.orders]
    assert drawn == [[0, 3], [1, 4], [2, 5]], "each fold draws its own marks"
    taught_views = views.of(torch.nonzero(views.part != 1)[:, 0])
    asked = taught_views.part.tolist()
    assert 1 not in asked and len(asked) == 8 == len(taught_views.target) == len(taught_views.maps[4])
    plain = ViewSampler(encoder, normals(8, SIDE), None, many, LearntConfig(paste=False), [np.arange(6)])
    assert [role for role, _ in plain.plan] == ["marked"] * 6 + ["normal"] * 2, "nothing pasted: marked ones instead"


def test_from_ten_marks_on_lesions_are_pasted_only_if_marks_left_out_lose_without(encoder, base, monkeypatch):
    drawn_with, quick = [], config_of(base, tune=0.0, steps=3)

    def lessons(reader, shown, roi, marks, config, folds):
        drawn_with.append(config.paste)
        return ViewSampler(reader, shown, roi, marks, config, folds)

    monkeypatch.setattr(learnt, "ViewSampler", lessons)
    few = Learnt.fit(encoder, normals(24, SIDE), quick, FitContext(marks=marked(9)))
    assert drawn_with == [True] and NOT_PASTED not in few.remarks
    context = FitContext(marks=marked(10))
    Learnt.fit(encoder, normals(24, SIDE), quick.replace(paste=False), context)
    assert drawn_with[1:] == [False], "where nothing is to be pasted nothing is tried"
    for without, remarked in ((0.5, True), (0.295, True), (0.285, False)):  # Dice; with them 0.3
        dice = iter((0.3, without))

        def told(detector, *known, joined=Learnt._joined_by_marks, dice=dice):
            joined(detector, *known)
            value = next(dice)
            detector.rule = detector.rule.replace(cases=tuple((i, 0.2, value) for i, *_ in detector.rule.cases))

        with monkeypatch.context() as only:
            only.setattr(Learnt, "_joined_by_marks", told)
            chosen = Learnt.fit(encoder, normals(24, SIDE), quick, context)
        assert drawn_with[-2:] == [True, False]
        assert (NOT_PASTED in chosen.remarks) == remarked
        assert f"0.300 with lesions pasted, {without:.3f} with nothing pasted." in chosen.remarks[1]
        assert chosen.tried == pytest.approx({"with lesions pasted": 0.3, "with nothing pasted": without})
        assert chosen.rule.dice == pytest.approx(without if remarked else 0.3)


def test_of_large_images_a_view_is_a_part_mostly_round_a_lesion():
    draw, held = np.random.default_rng(0), 0
    image, mask = np.zeros((VIEW * 2, VIEW * 2, 3), np.uint8), np.zeros((VIEW * 2, VIEW * 2), np.uint8)
    mask[20:40, 20:40] = 1
    for _ in range(30):
        view, there = _moved(image, (mask,), draw, mask)
        assert view.shape == (VIEW, VIEW, 3) and there.shape == (VIEW, VIEW)
        held += bool(there.any())
    assert held >= 16


def test_faint_parts_are_left_out_as_far_as_that_costs_nothing_and_normals_ask_for_it():
    maps, truth = np.full((2, 40, 40), -5.0), np.zeros((2, 40, 40), np.uint8)
    truth[:, 5:15, 5:15] = 1
    maps[:, 5:15, 5:15], maps[:, 25:30, 25:30] = 6, 2  # the second part is none
    valid = np.ones(truth.shape, bool)
    spot, dice = chosen_spot(maps, 0.0, 9.0, truth, valid)
    assert 2 <= spot < 6 and (dice == 1).all()
    assert chosen_spot(maps, 0.0, 3.0, truth, valid)[0] == 1.5, "no higher than normals ask for"
    assert chosen_spot(maps, 0.0, -1.0, truth, valid)[0] == 0.0


def test_the_gain_that_is_told_has_no_part_in_the_choice_of_what_is_kept():
    """Two tries that differ by chance alone: the better one's own mean is higher, what the other folds tell is not."""
    draw, folds = np.random.default_rng(0), [i % 5 for i in range(20)]
    own, told = [], []
    for _ in range(400):
        dice = draw.normal(0.6, 0.15, (2, 20))
        tries = [tuple((i, 0.5, float(value)) for i, value in enumerate(row)) for row in dice]
        own.append(np.mean([case[2] for case in tries[better(tries)]]))
        told.append(np.mean([case[2] for case in by_others(tries, folds)]))
    assert np.mean(own) > 0.61 and abs(np.mean(told) - 0.6) < 0.005
    clear = [tuple((i, 0.5, value) for i in range(20)) for value in (0.6, 0.7)]
    assert better(clear) == 1 and by_others(clear, folds) == clear[1]
    for dice, taken in ((0.595, 1), (0.585, 0)):
        assert better([clear[0], tuple((i, 0.5, dice) for i in range(20))]) == taken
    assert better([(), ()]) == 0


def test_the_score_pools_odds_inside_the_region():
    maps, roi = np.full((3, 16, 16), -4.0, np.float32), np.ones((3, 64, 64), np.uint8)
    maps[0, 2:4, 2:4], maps[1, :8], maps[2, :4] = 6, 2, 9
    roi[2, :16] = 0
    sure, wide, outside = pooled_odds(maps, roi)
    assert sure == pytest.approx(np.log((4 * np.exp(6) + 252 * np.exp(-4)) / 256), abs=1e-5)
    assert wide == pytest.approx(np.log((np.exp(2) + np.exp(-4)) / 2), abs=1e-5) and outside == pytest.approx(
        -4, abs=1e-5
    )
    assert pooled_odds(maps, None)[2] > 7


def test_the_base_has_as_large_a_part_in_the_score_as_costs_nothing():
    normal, sick = np.linspace(-2, 2, 40), np.linspace(1, 4, 20)
    pooled = [normal, sick]
    assert chosen_score_weight(pooled, [np.zeros(40), np.zeros(20)]) == SCORE_WEIGHTS[-1]
    assert chosen_score_weight(pooled, [-normal, -sick]) < SCORE_WEIGHTS[-1], "the base tells the other way round"
    assert chosen_score_weight(pooled, [normal, 3 + sick]) == SCORE_WEIGHTS[-1]
