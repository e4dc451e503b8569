"""The four kinds of centre."""

from __future__ import annotations

import pytest
import torch

from core.engine.training.centres import equidistant_centres, estimate_centres, random_centres


def test_estimate_is_the_mean_of_each_class_whatever_the_batches():
    x = torch.rand(11, 3, 4, 4)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 2])

    def features(images):
        return images.mean(3).flatten(1)

    def batches(size):
        return zip(x.split(size), labels.split(size), strict=True)

    slow = torch.stack(
        [torch.stack([features(x[i : i + 1])[0] for i in range(11) if labels[i] == n]).mean(0) for n in range(3)]
    )
    for size in (1, 4, 11):
        assert torch.allclose(estimate_centres(features, batches(size), 3), slow, atol=1e-6)


def test_estimate_refuses_a_class_without_images():
    with pytest.raises(ValueError, match="without a single image"):
        estimate_centres(lambda x: x.flatten(1), [(torch.rand(2, 3, 2, 2), torch.tensor([0, 0]))], 2)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_equidistant_centres_are(count):
    c = equidistant_centres(count, 16, 1.5, torch.Generator().manual_seed(0))
    apart = torch.cdist(c[None], c[None])[0][~torch.eye(count, dtype=torch.bool)]
    assert torch.allclose(apart, apart[0].expand_as(apart), atol=1e-5)
    assert float(apart[0]) == pytest.approx(1.5 * (2 * count / (count - 1)) ** 0.5, rel=1e-5)
    assert torch.allclose(c.norm(dim=1), torch.full((count,), 1.5), atol=1e-5)


def test_equidistant_centres_need_room():
    with pytest.raises(ValueError, match="at least 4 dimensions"):
        equidistant_centres(4, 3, 1.0, torch.Generator())


def test_random_centres_come_from_the_seed():
    one, two, other = (random_centres(4, 8, 2.0, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one, two) and not torch.equal(one, other)
    assert 1 < float(random_centres(50, 50, 2.0, torch.Generator().manual_seed(0)).std()) < 3
