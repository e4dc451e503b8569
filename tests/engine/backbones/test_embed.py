"""Features of images and of places in them: against the encoder asked image by image."""

import numpy as np
import pytest
import torch

from core.engine.backbones import embed
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.progress import Stopped


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(seed=3))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 255, (7, 32, 32, 3), np.uint8)


def test_features_do_not_depend_on_the_batch_and_equal_the_encoders_own(encoder, images):
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    encoder.eval()
    with torch.no_grad():
        z, h = encoder(x).numpy(), encoder.backbone(x).numpy()
    for kind, right in (("projected", z), ("backbone", h)):
        for batch in (3, 64):
            found = embed.encode(encoder, images, kind, batch=batch)
            np.testing.assert_allclose(found, right, atol=2e-5)
    assert z.shape == (7, 128) and h.shape == (7, 512)


def test_encode_reports_and_stops(encoder, images):
    reported = []
    embed.encode(encoder, images, batch=4, report=lambda i, n: reported.append((i, n)))
    assert reported == [(4, 7), (7, 7)]
    with pytest.raises(Stopped):
        embed.encode(encoder, images, should_stop=lambda: True)
    with pytest.raises(ValueError, match="projected or backbone"):
        embed.encode(encoder, images, "centred")
    with pytest.raises(ValueError, match="at least 1 image"):
        embed.encode(encoder, images[:0])
