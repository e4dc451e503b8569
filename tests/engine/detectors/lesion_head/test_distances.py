"""The lesion head's further input, how far each place lies from normal ones, and its early stopping."""

import numpy as np
import pytest
import torch

from core.engine.detectors.base import FitContext
from core.engine.detectors.lesion_head.decoder import Distances
from core.engine.detectors.lesion_head.lesion_head import LesionHead
from core.engine.detectors.lesion_head.train import LesionTraining
from core.engine.detectors.mahalanobis import Mahalanobis, MahalanobisConfig
from core.engine.progress import Stopped
from core.engine.tensors import to_batch
from tests.engine.detectors.lesion_head.test_lesion_head import FAST, encoder, normals, same


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


@pytest.mark.slow
def test_the_best_checked_network_is_kept():
    """Qualities rise, then fall: what is kept is the average of the second check and not of the last."""
    told, seen = iter([0.5, 0.9, 0.4]), []

    def quality(net):
        seen.append({k: v.clone() for k, v in net.state_dict().items()})
        return next(told)

    images = normals()
    net = LesionHead.fit(encoder(), images, FAST.replace(steps=1)).net
    training = LesionTraining(net, images, None, FAST.replace(steps=6, checks=3), quality=quality)
    lines = [training.advance() for _ in range(6)]
    assert [line.get("quality") for line in lines] == [None, 0.5, None, 0.9, None, 0.4]
    kept = training.result().state_dict()
    assert all(torch.equal(kept[k], v) for k, v in seen[1].items())
    assert not all(torch.equal(kept[k], v) for k, v in seen[2].items())


@pytest.mark.slow
def test_checks_stop_early_also_when_resumed(tmp_path):
    images, config, calls = normals(30), FAST.replace(checks=2), []
    lines = []
    whole = LesionHead.fit(encoder(), images, config, FitContext(folder=tmp_path / "whole", report=lines.append))
    found = [line["quality"] for line in lines if "quality" in line]
    assert len(found) == 2 and all(0 < q <= 1 for q in found)

    def after_three():
        calls.append(1)
        return len(calls) > 3

    with pytest.raises(Stopped):
        LesionHead.fit(encoder(), images, config, FitContext(folder=tmp_path / "cut", should_stop=after_three))
    resumed = LesionHead.fit(encoder(), images, config, FitContext(folder=tmp_path / "cut"))
    assert same(whole.net, resumed.net)
