"""The lesion head learns, saves, loads, stops and resumes; and it finds what it was taught to find."""

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from core.engine.augment.strong import family
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.heatmap import roi_at
from core.engine.detectors.base import FitContext
from core.engine.detectors.lesion_head import synth as validation
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.detectors.lesion_head.decoder import Distances, LesionNet
from core.engine.detectors.lesion_head.lesion_head import (
    SUMMARIES,
    LesionHead,
    ScoreRule,
    choose_rule,
    summaries,
)
from core.engine.detectors.lesion_head.synth import Pairs, SyntheticValidation, jitter_view, visible
from core.engine.detectors.lesion_head.train import LesionTraining, lesion_loss
from core.engine.detectors.mahalanobis import Mahalanobis, MahalanobisConfig
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch
from core.engine.training.base import Diverged
from tests.conftest import ARCH

FAST = LesionHeadConfig(steps=4, batch=4, width=16, validation=0.2, autocast=False)


def normals(n=20, side=32, seed=0):
    """Smooth coloured grounds: something a growth stands out from."""
    rng = np.random.default_rng(seed)
    ground = 90 + 60 * rng.random((n, 1, 1, 3)) + 20 * np.sin(np.linspace(0, 6, side))[None, :, None, None]
    return np.clip(ground + rng.normal(0, 4, (n, side, side, 3)), 0, 255).astype(np.uint8)


def encoder():
    return build_encoder(EncoderConfig(arch=ARCH, seed=0))


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@pytest.mark.slow
def test_registered_and_shapes():
    assert DETECTORS.get("lesion-head") is LesionHead
    images = normals(30)  # enough to leave normals out for choosing the score
    roi = np.ones(images.shape[:3], np.uint8)
    head = LesionHead.fit(encoder(), images, FAST, FitContext(roi=roi))
    prediction = head.predict(images[:5], batch=2)
    assert prediction.maps.shape == (5, 16, 16) and prediction.maps.dtype == np.float32
    assert prediction.extras["classes"].shape == (5, 4)
    assert np.allclose(prediction.extras["classes"].sum(1), 1, atol=1e-5)
    assert head.image_score(prediction, roi[:5]).shape == (5,)
    assert set(head.rule.auroc) >= {"top 2.0%", "largest component", "area", "combined"}


def test_loss_against_a_loop():
    rng = torch.Generator().manual_seed(0)
    logits, masks = torch.randn(2, 4, 4, generator=rng), torch.rand(2, 8, 8, generator=rng) > 0.5
    bce, dice = 0.0, 0.0
    for b in range(2):
        overlap = total = 0.0
        for i in range(4):
            for j in range(4):
                t = masks[b, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].float().mean().item()
                p = 1 / (1 + np.exp(-logits[b, i, j].item()))
                bce -= (t * np.log(p) + (1 - t) * np.log(1 - p)) / 32
                overlap += p * t
                total += p + t
        dice += (1 - (2 * overlap + 1) / (total + 1)) / 2
    assert lesion_loss(logits, masks, FAST).item() == pytest.approx(bce + 0.5 * dice, rel=1e-5)


@pytest.mark.parametrize("mode", ["frozen", "finetune", "joint"])
def test_modes_train_what_they_say(mode):
    """Frozen leaves the encoder as it was, running statistics included; the others change it; joint has four terms."""
    start, images = encoder(), normals()
    training = LesionTraining(LesionNet(start, 16, 4), images, None, FAST.replace(mode=mode))
    before = encoder()
    terms = training.advance()
    assert same(training.net.encoder, before) == (mode == "frozen")
    assert ({"l_ctr", "l_con"} <= set(terms)) == (mode == "joint")
    assert all(np.isfinite(v) for v in terms.values())


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["image", "roi", "encoder"])
def test_a_stopped_fit_of_other_arguments_begins_anew(tmp_path, changed):
    images, net, seen = normals(), encoder(), []
    roi = np.ones(images.shape[:3], np.uint8)
    stop = FitContext(roi=roi, folder=tmp_path, report=seen.append, should_stop=lambda: len(seen) >= 2)
    with pytest.raises(Stopped):
        LesionHead.fit(net, images, FAST, stop)
    if changed == "encoder":
        with torch.no_grad():
            next(net.net.parameters())[0, 0, 0, 0] += 1e-3
    else:
        array = images.copy() if changed == "image" else roi.copy()
        array[7, 0, 0] ^= 1
        images, roi = (array, roi) if changed == "image" else (images, array)
    resumed = LesionHead.fit(net, images, FAST, FitContext(roi=roi, folder=tmp_path, report=seen.append))
    assert [line["step"] for line in seen] == [1, 2, 1, 2, 3, 4]
    assert same(resumed.net, LesionHead.fit(net, images, FAST, FitContext(roi=roi)).net)


def test_a_training_that_diverges_is_no_head(tmp_path):
    seen = []
    with pytest.raises(Diverged, match="lesion head broke down at step .*Start again with a learning rate below"):
        LesionHead.fit(encoder(), normals(), FAST.replace(lr=1e30), FitContext(folder=tmp_path, report=seen.append))
    assert seen and not (tmp_path / "lesion-head.json").exists()


@pytest.mark.long
def test_finds_what_it_was_taught():
    """A hundred and twenty steps on plain grounds: pasted growths of new images are found, and their place too."""
    config = LesionHeadConfig(
        steps=120, batch=8, width=32, lr=2e-3, ema=0.9, validation=0.0, families=("growth:growth",)
    )
    head = LesionHead.fit(encoder(), normals(40), config)
    x = torch.from_numpy(normals(16, seed=9)).permute(0, 3, 1, 2).float() / 255
    pair = Pairs(("growth:growth",), 3)(
        x, None, torch.Generator().manual_seed(3), counts=torch.ones(16, dtype=torch.long)
    )
    shown = (pair.images * 255).byte().permute(0, 2, 3, 1).numpy()
    maps = head.predict(shown).maps
    truth = roi_at(pair.masks.numpy().astype(np.uint8), maps.shape[1:])
    assert roc_auc_score(truth.ravel(), maps.ravel()) > 0.8


def test_distances_are_those_of_the_detector_and_standardised():
    images = normals(24, 64)
    seen = encoder().eval()
    distances = Distances(seen, trained=False)
    distances.learn(seen, images, FitContext())

    def told(images):
        x = to_batch(images, torch.device("cpu"))
        return distances(x, seen.maps(x))

    far = told(images)
    assert far.shape == (24, 1, 4, 4) and abs(float(far.mean())) < 1e-4 and abs(float(far.std()) - 1) < 1e-3
    config = MahalanobisConfig(strides=(16, 32), map_strides=(16, 32), sigma=0)
    maps = Mahalanobis.fit(encoder(), images, config).predict(images).maps
    np.testing.assert_allclose(maps, (far * distances.spread + distances.level)[:, 0].numpy(), rtol=1e-2)
    strange = images.copy()
    strange[:, 32:, 32:] = np.random.default_rng(5).integers(0, 255, (24, 32, 32, 3))
    moved = told(strange) - far
    assert moved[:, 0, 3, 3].mean() > 1 and moved[:, 0, 3, 3].mean() > moved[:, 0, 0, 0].mean()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["frozen", "finetune"])
def test_the_reference_stays_as_it_was_and_is_kept(mode, tmp_path):
    images = normals()
    head = LesionHead.fit(encoder(), images, FAST.replace(distances=True, mode=mode))
    assert same(head.net.encoder, encoder()) == (mode == "frozen")
    apart = head.net.distances.encoder
    assert apart is None if mode == "frozen" else same(apart, encoder())
    head.save(tmp_path)
    again = LesionHead.load(tmp_path)
    assert np.array_equal(head.predict(images[:4]).maps, again.predict(images[:4]).maps)
    plain = LesionHead.fit(encoder(), images, FAST.replace(mode=mode))
    assert not np.array_equal(head.predict(images[:4]).maps, plain.predict(images[:4]).maps)
    head.net.distances.level += 5
    assert not np.allclose(head.predict(images[:4]).maps, again.predict(images[:4]).maps), "the decoder looks at it"


def test_summaries_of_a_known_map():
    maps = np.full((1, 20, 20), -5.0, np.float32)
    maps[0, 2:6, 2:6] = 3.0
    maps[0, 10:12, 10:12] = 4.0
    classes, margin = torch.tensor([[0.2, 0.5, 0.2, 0.1]]), torch.tensor([0.7])
    values = {"maps": torch.from_numpy(maps), "classes": classes, "margin": margin}
    out = {name: value.numpy() for name, value in summaries(SUMMARIES, values, None, threshold=0.0).items()}
    assert out["area"][0] == pytest.approx(np.log1p(20))
    assert out["largest component"][0] == pytest.approx(np.log1p(16))
    assert out["top 0.5%"][0] == pytest.approx(4.0)
    assert out["top 5.0%"][0] == pytest.approx((4 * 4 + 16 * 3) / 20)
    assert out["class"][0] == pytest.approx(np.log(0.8 / 0.2))
    roi = torch.zeros(1, 20, 20)
    roi[0, 8:, 8:] = 1
    found = summaries(("largest component",), values, roi, 0.0)["largest component"]
    assert found.tolist() == pytest.approx([np.log1p(4)])


def test_the_separating_summary_is_taken():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    values = {"noise": rng.normal(size=120), "sharp": labels + 0.01 * rng.normal(size=120)}
    rule = choose_rule(values, labels, 0.0)
    assert rule.name == "sharp" and rule.auroc["sharp"] == 1.0
    assert np.allclose(rule(values), values["sharp"], atol=1e-6)


def test_two_halves_of_the_truth_are_combined():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 200)
    values = {name: labels + rng.normal(size=400) for name in ("a", "b", "c")}
    rule = choose_rule(values, labels, 0.0)
    assert rule.name == "combined" and set(rule.terms) == {"a", "b", "c"}
    assert rule.auroc["combined"] > max(rule.auroc[n] for n in "abc")
    assert ScoreRule.from_dict(json.loads(rule.to_json())) == rule


def test_with_hardly_any_images_the_default_rule_stands():
    values = {"top 2.0%": np.arange(12.0), "area": np.zeros(12)}
    rule = choose_rule(values, np.r_[np.zeros(2, int), np.ones(10, int)], 0.5)
    assert rule.name == "top 2.0%" and rule.auroc == {} and rule.threshold == 0.5


def test_what_the_map_does_not_show_must_win_clearly():
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1], 300)
    near, clear = labels + rng.normal(size=600), 9 * labels + rng.normal(size=600)
    shown = near + 0.5 * rng.normal(size=600)
    rule = choose_rule({"top 2.0%": shown, "class": near}, labels, 0.0)
    assert rule.name == "top 2.0%" and rule.auroc["class"] > rule.auroc["top 2.0%"]
    assert choose_rule({"top 2.0%": shown, "class": clear}, labels, 0.0).name == "class"


@pytest.mark.parametrize("roi", [False, True])
def test_many_images_are_judged_by_a_part_of_them_that_is_the_same_each_time(monkeypatch, roi):
    monkeypatch.setattr(validation, "AT_MOST", 6)
    images = np.random.default_rng(0).integers(0, 255, (40, 32, 32, 3), dtype=np.uint8)
    inside = np.ones((40, 32, 32), np.uint8) * np.arange(40, dtype=np.uint8)[:, None, None] if roi else None
    config = LesionHeadConfig(k=2, seed=3)
    first, again = (SyntheticValidation.draw(images, inside, config) for _ in range(2))
    assert first.normals == 6 and len(first.images) == len(first.masks) == 6 * 3
    rows = [int(np.flatnonzero((images == one).all((1, 2, 3)))[0]) for one in first.images[:6]]
    assert len(set(rows)) == 6 and rows != list(range(6)), "drawn, not the first ones"
    assert (first.images == again.images).all()
    if roi:
        assert first.roi is not None and first.roi[:, 0, 0].tolist() == rows * 3, "each with its own region"
    few = SyntheticValidation.draw(images[:5], None, config)
    assert few.normals == 5 and (few.images[:5] == images[:5]).all()


def frames(batch=8, side=32):
    return torch.rand(batch, 3, side, side, generator=torch.Generator().manual_seed(1))


def test_masks_lie_where_the_image_changed():
    x = frames()
    pair = Pairs(("growth:growth", "medmix:soft"), 3)(x, None, torch.Generator().manual_seed(2))
    changed = (pair.images - x).abs().amax(1) > 0
    assert pair.masks.any() and not (pair.masks & ~changed).any()
    assert not pair.masks[pair.counts == 0].any()
    assert torch.equal(pair.images[pair.counts == 0], x[pair.counts == 0])


def test_an_unseen_patch_is_not_asked_for():
    x = frames()
    faint = x.clone()
    faint[:, :, 8:16, 8:16] += 0.005
    clear = x.clone()
    clear[:, :, 8:16, 8:16] += 0.3
    assert not visible(x, faint, 0.02).any()
    assert visible(x, clear, 0.02)[:, 10:14, 10:14].all()


def test_the_schedule_goes_from_clear_lesions_to_all_that_can_be_seen():
    pairs, x = Pairs(("medmix:xray", "medmix:soft"), 3), frames(24, 64)
    hard, half, easy = (pairs(x, None, torch.Generator().manual_seed(2), ease=e) for e in (0.0, 0.5, 1.0))
    assert torch.equal(hard.images, easy.images), "what is pasted is the same"
    assert not (easy.masks & ~half.masks).any() and not (half.masks & ~hard.masks).any()
    assert easy.masks.sum() < half.masks.sum() < hard.masks.sum()


def test_view_moves_mask_with_image():
    """An image that is its own mask must still be, where the light alone changes its value."""
    masks = torch.zeros(4, 32, 32, dtype=torch.bool)
    masks[:, 8:20, 12:26] = True
    x = masks[:, None].float().expand(-1, 3, -1, -1).contiguous()
    view, mask = jitter_view(x, masks, torch.Generator().manual_seed(4))
    bright = view.mean(1) > view.mean(1).amax((1, 2), keepdim=True) / 2
    assert (bright == mask).float().mean() > 0.97


def test_a_grey_image_gives_a_grey_view_and_a_coloured_one_does_not():
    grey = torch.rand(4, 1, 32, 32).expand(-1, 3, -1, -1)
    x = torch.cat([grey, torch.rand(2, 3, 32, 32)])
    view, _ = jitter_view(x, torch.zeros(6, 32, 32, dtype=torch.bool), torch.Generator().manual_seed(4))
    apart = (view[:, 0] - view[:, 1]).abs().amax((1, 2))
    assert apart[:4].max() < 1e-5 and apart[4:].min() > 0.05


def test_less_blur_leaves_small_lesions_their_contrast():
    x = torch.full((8, 3, 32, 32), 0.3)
    x[:, :, 15:17, 15:17] = 0.9
    masks = x[:, 0] > 0.5

    def contrast(blur):
        view, _ = jitter_view(x, masks, torch.Generator().manual_seed(4), blur=blur, grain=0.0)
        return (view.amax((1, 2, 3)) - view.mean((1, 2, 3))).mean()

    assert contrast(0.0) > contrast(0.3) > contrast(1.0)


def test_unknown_preset_names_those_that_exist():
    with pytest.raises(ValueError, match="it has: .*soft"):
        family("medmix:none-such")
