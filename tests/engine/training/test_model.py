"""PMSACL in a loop of one's own: it learns, repeats, resumes, and its numbers are those of the studio's training."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder, load_centres, load_encoder
from core.engine.training.model import PMSACL, equidistant_centres, estimate_centres, random_centres
from core.engine.training.pretrain import pretrain
from tests.conftest import ARCH
from tests.engine._images import normals

SMALL = {"preset": "quick", "size": 32, "batch": 4, "schedule": "constant", "epochs": 2}


def trained(model: PMSACL, images: np.ndarray, epochs: int = 2) -> list[dict[str, float]]:
    """The numbers of each step of plain PyTorch, with the images in the studio's order."""
    order, optimiser, numbers = model.order(len(images)), model.optimiser(), []
    loader = DataLoader(images, batch_size=model.config.batch, sampler=order, drop_last=True)
    model.estimate_centres(loader)
    for epoch in range(epochs):
        order.set_epoch(epoch)
        for batch in loader:
            loss = model.loss(batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            numbers.append({"loss": loss.item(), "aug_accuracy": model.accuracy, **model.terms})
    return numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"preset": "sphere", "k": 2, "seed": 5}, {"objective": "pmsacl-local", "size": 64}]
)
def test_its_numbers_are_those_of_the_studios_own_pre_training(settings, tmp_path):
    side = settings.get("size", 32)
    model, images = PMSACL(ARCH, **{**SMALL, "frozen": 0, **settings}), normals(8, side)
    numbers = trained(model, images)
    result = pretrain(images, model.config, tmp_path)
    assert len(numbers) == len(result.history) == 4
    for ours, studios in zip(numbers, result.history, strict=True):
        assert ours == {name: studios[name] for name in ours}
    theirs = result.encoder.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in model.encoder.state_dict().items())
    assert torch.equal(model.centres, result.centres)


@pytest.mark.longest
@pytest.mark.timeout(900)
def test_twelve_lines_on_200_images_tell_the_classes_apart(real):
    """The loop of the documentation on real images: the class head does better at the end than at the beginning."""
    import cv2

    files = sorted((real("hyperkvasir") / "train/normal").iterdir())[:200]
    images = np.stack([cv2.resize(cv2.imread(str(file)), (96, 96), interpolation=cv2.INTER_AREA) for file in files])
    model = PMSACL("efficientnet-lite0", k=3, seed=0)
    loader = DataLoader(images, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(0))
    model.estimate_centres(loader)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    accuracies = []
    for _ in range(4):
        for batch in loader:
            loss = model.loss(batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            accuracies.append(model.accuracy)
    first, last = np.mean(accuracies[:25]), np.mean(accuracies[-25:])
    print(f"class accuracy: {first:.3f} in the first epoch, {last:.3f} in the last")
    assert last > first + 0.1


def test_it_goes_on_from_its_state_as_if_it_had_never_stopped(tmp_path):
    images = torch.from_numpy(normals(4)).permute(0, 3, 1, 2)
    model = PMSACL(ARCH, **SMALL)
    with pytest.raises(RuntimeError, match="estimate_centres"):
        model.loss(images)
    model.estimate_centres([images])
    model.loss(images)
    stored = io.BytesIO()
    torch.save(model.state_dict(), stored)
    stored.seek(0)
    other = PMSACL(ARCH, **SMALL)
    other.load_state_dict(torch.load(stored, weights_only=True))
    assert model.loss(images).item() == other.loss(images).item() != model.loss(images).item()
    model.eval()
    assert model.loss(images).item() == model.loss(images).item()
    assert model(images).shape == (4, 128) and model.outcome is not None
    model.save(tmp_path / "encoder")
    assert torch.equal(load_centres(tmp_path / "encoder"), model.centres)
    assert load_encoder(tmp_path / "encoder").class_head.side == 32
    begun = build_encoder(EncoderConfig(arch=ARCH, init=str(tmp_path / "encoder")))
    assert torch.equal(begun.head[0].weight, model.encoder.head[0].weight)


def test_images_may_come_in_any_form():
    pixels = normals(4)
    model = PMSACL(ARCH, **SMALL)
    model.estimate_centres([(torch.from_numpy(pixels), torch.zeros(4))])  # images and labels
    losses = []
    for images in (pixels, torch.from_numpy(pixels), torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255):
        model.step = 0
        losses.append(copy.deepcopy(model).loss(images, roi=np.ones((4, 32, 32))).item())
    assert losses[0] == losses[1] == pytest.approx(losses[2])


@pytest.mark.slow
def test_an_encoder_is_trained_on_and_frozen_layers_stay():
    first = PMSACL(ARCH, **SMALL)
    model = PMSACL(first.encoder, k=1, **{**SMALL, "frozen": 8})
    assert model.encoder is first.encoder and model.train().still
    assert not all(p.requires_grad for p in model.parameters())
    assert not any(model.encoder.get_submodule(name).training for name in model.still)


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
    with pytest.raises(ValueError, match="each class needs an image"):
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
