"""PaDiM: against a plain loop, and scored inside a region of interest."""

import numpy as np
import pytest
import torch

from core.engine.config import BadConfig
from core.engine.detectors.base import FitContext
from core.engine.detectors.padim import PaDiM, PaDiMConfig, draw_channels
from core.engine.detectors.reference import joined, s_padim
from tests.engine.detectors.conftest import with_spot

PLAIN = PaDiMConfig(channels=20, sigma=0.0, batch=7)


@pytest.mark.slow
def test_maps_are_numpys_mahalanobis_distances(encoder, images):
    padim = PaDiM.fit(encoder, images, PLAIN)
    got = padim.predict(images[:2]).maps

    drawn = torch.randperm(448, generator=torch.Generator().manual_seed(PLAIN.seed))[:20].sort().values

    def features(batch):
        with torch.inference_mode():
            maps = encoder.maps(torch.from_numpy(batch).permute(0, 3, 1, 2).float() / 255)
        return joined([maps[stride] for stride in (4, 8, 16)])[:, drawn]

    expected = s_padim(features(images), features(images[:2]), epsilon=0.01)
    np.testing.assert_allclose(got, expected, rtol=1e-3)


@pytest.mark.slow
def test_batches_do_not_matter(encoder, images):
    a = PaDiM.fit(encoder, images, PLAIN).predict(images[:3], batch=1)
    b = PaDiM.fit(encoder, images, PLAIN.replace(batch=24)).predict(images[:3])
    np.testing.assert_allclose(a.maps, b.maps, rtol=2e-3)


def test_a_spot_is_found(encoder, images):
    padim = PaDiM.fit(encoder, images[:20], PaDiMConfig())
    plain, spotted = padim.predict(images[20:]), padim.predict(with_spot(images[20:], 40))
    assert padim.image_score(spotted).min() > padim.image_score(plain).max()
    y, x = np.unravel_index(spotted.maps[0].argmax(), spotted.maps[0].shape)
    assert 9 <= y <= 13 and 9 <= x <= 13  # pixels 40..50 are cells 10..12


def test_score_in_a_region_of_interest(encoder, images):
    padim = PaDiM.fit(encoder, images[:20], PaDiMConfig())
    spotted = padim.predict(with_spot(images[20:], 40))
    with_it, without = np.ones((4, 64, 64), np.uint8), np.ones((4, 64, 64), np.uint8)
    without[:, 24:, 24:] = 0
    whole = padim.image_score(spotted)
    assert np.array_equal(padim.image_score(spotted, with_it), whole)
    inside = padim.image_score(spotted, without)
    assert (inside < 0.7 * whole).all()
    cells = np.ones((16, 16), bool)
    cells[6:, 6:] = False
    np.testing.assert_array_equal(inside, [m[cells].max() for m in spotted.maps])


def test_channels_are_drawn_once_from_the_seed():
    widths = {4: 64, 8: 128, 16: 256}
    a, b, c = (draw_channels(widths, 100, seed, torch.device("cpu")) for seed in (0, 0, 1))
    assert all(torch.equal(a[name], b[name]) for name in widths)
    assert any(a[name].tolist() != c[name].tolist() for name in widths)
    assert sum(map(len, a.values())) == 100
    assert all(len(a[name].unique()) == len(a[name]) and a[name].max() < width for name, width in widths.items())


def test_progress(encoder, images):
    seen = []
    PaDiM.fit(encoder, images, PLAIN, FitContext(report=seen.append))
    assert [v["step"] for v in seen] == [1, 2, 3, 4] and seen[-1]["steps"] == 4 and seen[-1]["images"] == 24


def test_mistakes_are_named(encoder, images):
    with pytest.raises(ValueError, match="448"):
        PaDiM.fit(encoder, images, PLAIN.replace(channels=500))
    for bad in ({"strides": (8, 4)}, {"strides": ()}, {"strides": (3,)}, {"epsilon": 0.0}, {"channels": 0}):
        with pytest.raises(BadConfig):
            PaDiMConfig(**bad)
