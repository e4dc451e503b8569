"""The lesion head learns, saves, loads, stops and resumes; and it finds what it was taught to find."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.heatmap import roi_at
from core.engine.detectors.base import FitContext
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.detectors.lesion_head.synth import Pairs
from core.engine.detectors.lesion_head.train import LesionTraining, lesion_loss
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
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


@pytest.mark.slow
def test_another_backbone(tmp_path):
    images = normals()
    head = LesionHead.fit(build_encoder(EncoderConfig(arch="efficientnet-lite0")), images, FAST)
    head.save(tmp_path)
    maps = head.predict(images[:3]).maps
    assert maps.shape == (3, 16, 16)
    np.testing.assert_allclose(LesionHead.load(tmp_path).predict(images[:3]).maps, maps, rtol=1e-4, atol=1e-5)


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
def test_given_encoder_is_not_changed():
    start = encoder()
    LesionHead.fit(start, normals(), FAST)
    assert same(start, encoder())


@pytest.mark.slow
def test_stopped_and_resumed_is_not_stopped(tmp_path):
    images, calls = normals(), []
    whole = LesionHead.fit(encoder(), images, FAST, FitContext(folder=tmp_path / "whole"))

    def after_two():
        calls.append(1)
        return len(calls) > 2

    with pytest.raises(Stopped):
        LesionHead.fit(encoder(), images, FAST, FitContext(folder=tmp_path / "cut", should_stop=after_two))
    steps = []
    resumed = LesionHead.fit(
        encoder(), images, FAST, FitContext(folder=tmp_path / "cut", report=lambda r: steps.append(r["step"]))
    )
    assert steps == [3, 4]
    assert same(whole.net, resumed.net)


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


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="at least 8"):
        LesionHead.fit(encoder(), normals(4), FAST)
