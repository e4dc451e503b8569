"""Detectors fit images that are read row by row, as those of a large study are, as they fit an array of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.base import FitContext
from core.engine.registry import DETECTORS
from core.engine.rows import Some
from tests.conftest import ARCH

SIDE = 32
COUNTS = ("steps", "max_steps", "critic_steps")
NARROW = {"width": 4, "critic_width": 4, "latent": 16, "patches": 20, "batch": 4}
FAKES = {"families": ["medmix"], "held_out": ["medmix:lens"]}
ALIKE = {  # they read images by what one of the others reads them by: members of others, and those of `learnt`
    *("combined", "ensemble", "padim", "nearest", "mahalanobis", "adgan", "f-anogan", "ms-ssim-ae", "ocgan"),
}
SHORT = {**dict.fromkeys(COUNTS, 2), **NARROW, **FAKES}


def short(config):
    """The same configuration with few steps, narrow networks and one kind of fake lesions, where it has them.

    Those of an ensemble's members are shortened too.
    """
    return config.replace(**{path: SHORT[path.rpartition(".")[2]] for path in shortened(config.to_dict())})


def shortened(settings: dict, above: str = "") -> Iterator[str]:
    """Dotted paths of the settings that SHORT names."""
    for name, value in settings.items():
        if name in SHORT:
            yield above + name
        elif isinstance(value, dict):
            yield from shortened(value, f"{above}{name}.")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(DETECTORS.names()) - ALIKE))
def test_scattered_rows_are_fitted_as_an_array_is(name, tmp_path: Path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (30, SIDE, SIDE, 3), np.uint8)
    roi = np.ones((30, SIDE, SIDE), np.uint8)
    roi[:, :3] = 0
    index = np.r_[0:9, 12:27]
    kind = DETECTORS.get(name)
    scores = []
    for i, (x, inside) in enumerate([(images[index], roi[index]), (Some(images, index), Some(roi, index))]):
        encoder = build_encoder(EncoderConfig(arch=ARCH)).eval()
        context = FitContext(inside, "cpu", folder=tmp_path / str(i))
        detector = kind.fit(encoder, x, short(kind.Config()), context)
        scores.append(detector.image_score(detector.predict(images[:4], roi=roi[:4]), roi[:4]))
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5)
