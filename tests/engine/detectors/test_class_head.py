"""The class head of a pre-training: stored with the encoder, a detector, and a reading of the blend."""

import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import ClassHead, Encoder, build_encoder, load_encoder, save_encoder
from core.engine.detectors.class_head import ClassHeadConfig, ClassHeadDetector
from core.engine.detectors.ensemble import ensemble
from core.engine.detectors.ensemble.ensemble import Blend
from core.engine.exported.graphs import Graph
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.tensors import to_batch
from core.engine.training.pretrain import pretrain
from tests.conftest import ARCH
from tests.engine._images import normals
from tests.engine.detectors.ensemble.test_blend import SMALL


@pytest.fixture(scope="module", params=["z", "features"])
def encoder(request) -> Encoder:
    """An encoder with a random class head that was trained at 48 pixels."""
    made = build_encoder(EncoderConfig(arch=ARCH, seed=2)).eval()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        width = made.config.dim if request.param == "z" else made.features
        made.class_head = ClassHead(width, 4, request.param, 48)
        made.class_head.linear.reset_parameters()
    return made


def test_pretrain_stores_the_trained_class_head(tmp_path):
    config = PRETRAIN_PRESETS["quick"].replace(size=32, batch=4, epochs=1, k=2, **{"encoder.arch": ARCH})
    images = normals(8)
    encoder = pretrain(images, config, tmp_path).encoder
    assert encoder.class_head.to_dict() == {"width": encoder.features, "classes": 3, "on": "features", "side": 32}
    untrained = load_encoder(tmp_path / "epochs" / "0000").class_head
    assert not torch.equal(encoder.class_head.linear.weight.half(), untrained.linear.weight.half())


def test_pretrain_without_classes_stores_none(tmp_path):
    config = PRETRAIN_PRESETS["quick"].replace(objective="simclr", size=32, batch=4, epochs=1, **{"encoder.arch": ARCH})
    assert pretrain(normals(8), config, tmp_path).encoder.class_head is None


def test_score_is_the_log_odds_of_any_lesion(encoder):
    images = normals(5, 48)
    detector = ClassHeadDetector.fit(encoder, normals(4, 48), ClassHeadConfig())
    with torch.no_grad():
        h = encoder.backbone(to_batch(images, torch.device("cpu")))
        of_class = encoder.class_head.linear(encoder.project(h) if encoder.class_head.on == "z" else h).softmax(1)
    expected = ((1 - of_class[:, 0]) / of_class[:, 0]).log().numpy()
    prediction = detector.predict(images, batch=2)
    np.testing.assert_allclose(detector.image_score(prediction), expected, rtol=1e-4, atol=1e-5)
    assert prediction.maps.shape == (5, 2, 2)


def test_save_encoder_keeps_the_head_of_an_encoder_that_has_one(encoder, tmp_path):
    save_encoder(encoder, tmp_path)
    assert torch.equal(load_encoder(tmp_path).class_head.linear.weight, encoder.class_head.linear.weight)


def test_fit_without_a_class_head_is_refused():
    with pytest.raises(ValueError, match="has no class head"):
        ClassHeadDetector.fit(build_encoder(EncoderConfig(arch=ARCH)), normals(4, 48), ClassHeadConfig())


@pytest.mark.parametrize("gain", [-0.2, 0.0, 0.004, 0.006, 0.2])
def test_class_head_counts_where_it_helps_to_tell_pasted_lesions(encoder, monkeypatch, gain):
    def judged(detector, images, roi):
        assert len(images) == 4, "normal images that no member has seen"
        return {"a": {"auroc": 0.7 + gain * ("classes" in detector.members)}, "b": {"auroc": 0.7}}

    monkeypatch.setattr(ensemble, "judge", judged)
    monkeypatch.setattr(ensemble, "CLEARLY", 0.005 / 2)  # of the mean over both kinds
    images, plain = normals(24, 64), SMALL.replace(class_head=0.0)
    blend = Blend.fit(encoder, images, SMALL)
    assert ("classes" in blend.reading_weights) == ("classes" in blend.members) == (gain >= 0.005)
    if gain < 0.005:
        without = Blend.fit(encoder, images, plain)
        assert blend.config == without.config and blend.about() == without.about()
        assert np.array_equal(blend.predict(images).maps, without.predict(images).maps)


def test_blend_reads_the_class_head_at_the_side_of_its_training(encoder, monkeypatch):
    monkeypatch.setattr(ensemble, "CLEARLY", -1.0)
    blend = Blend.fit(encoder, normals(24, 64), SMALL)
    assert blend.config.members["classes"].side == 48
    assert blend.reading_weights["classes"] == pytest.approx(1 / 5)
    assert sum(blend.reading_weights.values()) == pytest.approx(1)
    images = normals(6, 64, 3)
    read = {name: value.numpy() for name, value in blend.standardised(blend.predict(images).values()).items()}
    others = [value for name, value in read.items() if name != "classes"]
    np.testing.assert_allclose(
        blend.image_score(blend.predict(images)), np.mean(others, 0) * 4 / 5 + read["classes"] / 5, rtol=1e-4, atol=1e-4
    )


def test_blend_without_a_class_head_is_as_one_that_asks_for_none():
    plain, images = build_encoder(EncoderConfig(arch=ARCH, seed=2)), normals(24, 64)
    asked, unasked = (Blend.fit(plain, images, config) for config in (SMALL, SMALL.replace(class_head=0.0)))
    assert asked.config == unasked.config
    assert np.array_equal(asked.image_score(asked.predict(images)), unasked.image_score(unasked.predict(images)))


def test_graph_of_a_blend_reads_the_class_head_too(encoder, monkeypatch):
    monkeypatch.setattr(ensemble, "CLEARLY", -1.0)
    blend, images = Blend.fit(encoder, normals(24, 64), SMALL), normals(4, 64, 5)
    roi = np.ones(images.shape[:3], np.uint8)
    with torch.no_grad():
        _, score, _ = Graph(blend)(torch.from_numpy(images), torch.from_numpy(roi))
    np.testing.assert_allclose(score.numpy(), blend.image_score(blend.predict(images)), rtol=1e-3, atol=1e-3)
