"""Making views never waits for the device that holds the images.

On the device `meta` tensors have no values, so whatever would have to look at one (`item`, `nonzero`, a boolean index,
a copy to the CPU) raises. What is drawn lives on the CPU, as with a GPU, where those copies go by pinned memory.
"""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.augment.medmix import groups
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.weak import WeakViews
from core.engine.backbones.encoder import build_encoder
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import OBJECTIVES, STRONG
from tests.conftest import ARCH
from tests.engine.augment.pictures import classes, seeded, tissue


def region(count: int, side: int) -> torch.Tensor:
    roi = torch.zeros(count, side, side)
    roi[:, 4:-4, 6:-4] = 1
    return roi


@pytest.mark.slow
@pytest.mark.parametrize("with_roi", [False, True])
@pytest.mark.parametrize("name", sorted(MEDMIX_PRESETS))
def test_medmix(name, with_roi):
    x = torch.empty(8, 3, 48, 48, device="meta")
    roi = region(8, 48) if with_roi else None
    images, masks = classes(MedMix(MEDMIX_PRESETS[name]), x, seeded(), roi)
    assert images.shape == (8, 4, 3, 48, 48) and masks.shape == (8, 4, 48, 48) and images.is_meta


@pytest.mark.slow
@pytest.mark.parametrize("name", STRONG.names())
def test_strong_augmentations(name):
    mixed = STRONG.get(name)()(torch.empty(6, 3, 48, 48, device="meta"), torch.arange(6) % 4, seeded(), region(6, 48))
    assert mixed.images.is_meta and mixed.masks.is_meta


def test_weak_views():
    masks = torch.zeros(6, 48, 48, dtype=torch.bool, device="meta")
    views, warped = WeakViews().with_masks(torch.empty(6, 3, 48, 48, device="meta"), seeded(), masks)
    assert views.is_meta and warped.is_meta


def test_meta_would_show_waiting():
    x = torch.empty(3, device="meta")
    for look in (lambda: x.sum().item(), lambda: x.nonzero(), lambda: x[x > 0], lambda: x.cpu()):
        with pytest.raises((RuntimeError, NotImplementedError)):
            look()


class Count(TorchDispatchMode):
    """Counts the operations done in its block, in all and those that look at a value."""

    def __init__(self) -> None:
        super().__init__()
        self.all = self.looks = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.all += 1
        self.looks += func.overloadpacket.__name__ in ("_local_scalar_dense", "nonzero")
        return func(*args, **(kwargs or {}))


@pytest.mark.slow
@pytest.mark.parametrize("with_roi", [False, True])
def test_a_batch_is_drawn_in_bulk(with_roi):
    """Operations do not grow with the batch, and few look at a value even on the CPU, where that costs little."""
    found = []
    for batch in (8, 32):
        roi = region(batch, 64) if with_roi else None
        x = torch.empty(batch, 3, 64, 64, device="meta")
        with Count() as count:
            classes(MedMix(MEDMIX_PRESETS["paper"]), x, seeded(), roi)
        assert count.looks <= 8  # of numbers drawn; there were 75 for one batch
        found.append(count.all)
    assert found[1] < 1.2 * found[0]


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "most"), [("paper", 700), ("sphere", 750), ("imagenet", 950)])
def test_operations_of_medmix_and_views(preset, most):
    """Each operation costs a GPU's driver about as much as the pixels of a small batch cost the GPU."""
    config = PRETRAIN_PRESETS[preset].replace(size=64, **{"encoder.arch": ARCH})
    objective = OBJECTIVES.get(config.objective)(config, build_encoder(config.encoder))
    x, roi = torch.empty(8, 3, 64, 64, device="meta"), region(8, 64)
    objective.views(x, seeded(), roi)  # what is copied once lies there from then on
    with Count() as count:
        views = objective.views(x, seeded(), roi)
    assert views.images.is_meta and count.all <= most, count.all


def test_windows_by_slice_and_by_index_are_the_same():
    x, image = tissue(5, 32), torch.tensor([3, 0, 4, 4])
    top, left = torch.tensor([0, 7, 22, 12]), torch.tensor([22, 3, 1, 5])
    found = groups.read(x, image, top, left, 10)
    assert torch.equal(found, x.unfold(-2, 10, 1).unfold(-2, 10, 1)[image, :, top, left])
    values = found.clone()
    values[3] *= torch.arange(10)[:, None] < 4  # where it meets the one before, it is 0
    values[2] *= torch.arange(10)[:, None] > 3
    ours, plain = x.clone(), x.clone()
    groups.add(ours, image, top, left, values)
    plain.view(-1).index_add_(0, groups._places(x, image, top, left, 10).flatten(), values.flatten())
    assert torch.equal(ours, plain) and not torch.equal(ours, x)
