"""MedMix as a transform: what it takes and gives back, and its draws in the workers of a DataLoader."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.transforms import v2

from core.engine.augment.transform import MedMix

X = torch.rand(6, 3, 40, 40, generator=torch.Generator().manual_seed(0))
TYPES = {
    "float": X, "half": X.half(), "double": X.double(), "bfloat16": X.bfloat16(), "uint8": (X * 255).byte(),
    "grey": X[:, :1], "oblong": X[:, :, :24], "last": X.permute(0, 2, 3, 1), "one": X[0],
    "numpy": X.numpy(), "pixels": (X * 255).byte().permute(0, 2, 3, 1).numpy(), "one picture": X[0].numpy(),
    "tv": tv_tensors.Image(X),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_what_comes_back_is_of_the_kind_that_came(name):
    images = TYPES[name]
    first, masks, counts = MedMix(seed=1)(images, counts=2)
    again = MedMix(seed=1)(images, counts=2)[0]
    assert type(first) is type(images) and first.dtype == images.dtype and first.shape == images.shape
    assert (np.asarray(torch.as_tensor(first == again))).all() and (np.asarray(counts) == 2).all()
    last = images.shape[-1] == 3
    shape = (*images.shape[:-3], *(images.shape[-3:-1] if last else images.shape[-2:]))
    assert tuple(masks.shape) == shape and np.asarray(masks).any()
    changed = torch.as_tensor(first != images).any(-1 if last else -3)
    assert not (changed & ~torch.as_tensor(masks)).any() and changed.any()
    assert isinstance(masks, np.ndarray if isinstance(images, np.ndarray) else tv_tensors.Mask)


def test_uint8_is_the_float_rounded():
    pixels = (X * 255).byte()
    whole, parts = MedMix(seed=3)(pixels)[0], MedMix(seed=3)(pixels.float() / 255)[0]
    assert (whole.float() - parts * 255).abs().max() <= 0.5 + 1e-3


def test_a_single_image_takes_its_lesions_from_those_before_it():
    black, white = torch.zeros(3, 32, 32), torch.ones(3, 32, 32)
    medmix = MedMix(seed=0, donor="other", blend="paste", match=(0.0, 0.0))
    assert medmix(black, counts=1)[0].max() < 0.5  # of itself alone
    medmix(white, counts=0)
    assert max(float(medmix(black, counts=1)[0].max()) for _ in range(8)) > 0.5


def test_it_stands_among_other_transforms():
    both = v2.Compose([MedMix(seed=0), v2.RandomHorizontalFlip(1.0), v2.Normalize([0.5] * 3, [0.5] * 3)])
    images, masks, counts, labels = both(X, torch.arange(6))
    mixed, plain, _ = MedMix(seed=0)(X)
    assert torch.allclose(images, mixed.flip(-1) * 2 - 1) and torch.equal(masks, plain.flip(-1))
    assert torch.equal(labels, torch.arange(6)) and counts.shape == (6,)
    assert len(both((X, torch.arange(6)))) == 4  # as a dataset gives a sample


def test_a_region_of_interest_holds_for_any_shape():
    inside = torch.zeros(40, 24)
    inside[:20] = 1
    masks = MedMix(seed=0)(X[..., :24], roi=inside, counts=3)[1]
    assert masks[:, :20].any() and not masks[:, 20:].any()


def test_copies_draw_the_same_and_without_a_seed_torchs_own_counts():
    first, rest = MedMix(seed=4), MedMix(seed=4)
    copies = [pickle.loads(pickle.dumps(rest)), copy.deepcopy(rest)]
    rest(X)
    copies.append(MedMix(seed=4))
    wanted = first(X)[0]
    assert all(torch.equal(each(X)[0], wanted) for each in copies)
    found = []
    for _ in range(2):
        torch.manual_seed(7)
        found.append(MedMix()(X)[0])
    assert torch.equal(*found) and not torch.equal(MedMix()(X)[0], found[0])


class Same(Dataset):
    """One image, many times: what differs was drawn."""

    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.transform(torch.linspace(0.2, 0.8, 32).expand(3, 32, 32), counts=2)


class Batched:
    """The same at once, as a collate function."""

    def __init__(self, transform):
        self.transform = transform

    def __call__(self, several):
        return self.transform(torch.stack(several), counts=2)


class Plain(v2.Transform):
    def forward(self, image, counts):
        return image


def two_epochs(place: str, seed: int | None, workers: int, start: str | None, persistent: bool) -> torch.Tensor:
    """The images of two epochs of a new loader, one after the other."""
    medmix = MedMix(seed=seed)
    collate = Batched(medmix) if place == "collate" else None
    loader = DataLoader(
        Same(Plain() if collate else medmix), 3, num_workers=workers, multiprocessing_context=start,
        persistent_workers=persistent, collate_fn=collate,
    )  # fmt: skip
    return torch.cat([batch[0] for _ in range(2) for batch in loader])


@pytest.mark.longest
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 2, 4])
def test_workers_draw_apart_and_the_same_seed_gives_the_same_epochs(workers):
    """Fork and spawn, workers kept or not, in the dataset and in the collate function."""
    ways = list(itertools.product(("fork", "spawn"), (False, True))) if workers else [(None, False)]
    for (start, persistent), place in itertools.product(ways, ("dataset", "collate")):
        if start == "spawn" and place == "collate" and workers == 4:
            continue  # as with two, and each process takes seconds to start
        first, again = (two_epochs(place, 0, workers, start, persistent) for _ in range(2))
        assert len(torch.unique(first.flatten(1), dim=0)) == 24, (start, persistent, place)
        assert torch.equal(first, again), (start, persistent, place)


@pytest.mark.slow
def test_forked_workers_draw_apart_with_torchs_seed_and_with_its_own():
    for seed in (None, 0):
        found = []
        for _ in range(2):
            torch.manual_seed(1)
            found.append(two_epochs("dataset", seed, 2, "fork", False))
        assert torch.equal(*found) and len(torch.unique(found[0].flatten(1), dim=0)) == 24
