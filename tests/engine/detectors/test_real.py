"""Detectors on real colonoscopy frames, untrained encoder: figures that a broken detector could not reach."""

import cv2
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.calibration.conformal import by_images
from core.engine.calibration.heatmap import upsample
from core.engine.detectors.igd.igd import IGD
from core.engine.detectors.igd.model import PRESETS
from core.engine.detectors.padim import PaDiM, PaDiMConfig

SIZE = 64


@pytest.fixture(scope="module")
def frames(real):
    folder = real("hyperkvasir")

    def read(place):
        files = sorted((folder / place).iterdir())
        return np.stack([cv2.resize(cv2.imread(str(f))[:, :, ::-1], (SIZE, SIZE), interpolation=3) for f in files])

    return {"train": read("train/normal"), "normal": read("test/normal"), "abnormal": read("test/abnormal")} | {
        "mask": read("test/mask")[..., 0] > 127
    }


def labelled(frames):
    images = np.concatenate([frames["normal"], frames["abnormal"]])
    return images, np.repeat([0, 1], [len(frames["normal"]), len(frames["abnormal"])])


@pytest.mark.slow
def test_padim_finds_polyps_and_keeps_its_threshold(frames):
    order = np.random.default_rng(0).permutation(len(frames["train"]))
    held, train = frames["train"][order[:107]], frames["train"][order[107:]]
    padim = PaDiM.fit(build_encoder(EncoderConfig()), train, PaDiMConfig())
    images, labels = labelled(frames)
    prediction = padim.predict(images)
    scores = padim.image_score(prediction)
    assert roc_auc_score(labels, scores) > 0.88
    masks = np.concatenate([np.zeros_like(frames["normal"][..., 0], bool), frames["mask"]])
    maps = upsample(prediction.maps, SIZE)
    assert roc_auc_score(masks.ravel(), maps.ravel()) > 0.72  # all images; over abnormal ones alone it is 0.64

    made = by_images(np.sort(padim.image_score(padim.predict(held))), 0.05)
    normals = scores[labels == 0]
    # Test normals share one threshold: the share above rank k of n held-out scores is Beta(n + 1 - k, k).
    rank = int(np.ceil(108 * 0.95))
    most = stats.betabinom(len(normals), 108 - rank, rank).ppf(0.995)
    assert (normals > made.threshold).sum() <= most


@pytest.mark.long
def test_igd_quick_sees_polyps(frames):
    igd = IGD.fit(build_encoder(EncoderConfig()), frames["train"][:80], PRESETS["quick"].replace(max_steps=60))
    images, labels = labelled(frames)
    assert roc_auc_score(labels, igd.image_score(igd.predict(images))) > 0.7
