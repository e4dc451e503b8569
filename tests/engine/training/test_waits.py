"""A step of a training waits for its device once, for its numbers, and copies a handful of tensors to it.

Tensors on `meta` have no values: whatever would look at one (`nonzero`, a boolean index, ...) raises, and what gives
numbers or brings a tensor back (`tolist`, `item`, `float`, `cpu`) is counted as a wait. A dispatch mode counts what
goes there from the CPU: copies by way of pinned memory, which nothing waits for, and all others.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from core.engine import tensors
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.detectors.comparators.nets import NetTraining
from core.engine.detectors.igd.items import Grid, Items
from core.engine.detectors.igd.model import PRESETS as IGD_PRESETS
from core.engine.detectors.igd.model import IGDModel
from core.engine.detectors.igd.train import IGDTraining
from core.engine.detectors.lesion_head.config import LESION_PRESETS
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.train import LesionTraining
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.engine.training.pretraining import Data, Pretraining
from tests.conftest import ARCH
from tests.engine._images import normals

META = torch.device("meta")


class Traffic(TorchDispatchMode):
    """What a device that computes on its own would get from the CPU: `pinned` copies, and `blocking` ones."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = [t for t in trees.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        made = [t for t in trees.tree_leaves(out) if isinstance(t, torch.Tensor)]
        # a number in a tensor without dimensions is passed along with the call
        if any(t.device.type == "cpu" and t.ndim for t in given) and any(t.is_meta for t in (*given, *made)):
            self.counts["pinned" if _within("to_device") else "blocking"] += 1
        return out


def _within(name: str) -> bool:
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame is not None


@pytest.fixture
def traffic(monkeypatch):
    """traffic(step) runs a step twice and counts the second: what is copied once and kept lies there by then."""
    counts: Counter[str] = Counter()

    def waiting(name: str, given: Any) -> None:
        usual = getattr(torch.Tensor, name)

        def read(self, *args, **kwargs):
            if not self.is_meta:
                return usual(self, *args, **kwargs)
            counts["waits"] += 1
            return given(self)

        monkeypatch.setattr(torch.Tensor, name, read)

    waiting("tolist", lambda t: [0.0] * len(t))
    waiting("item", lambda t: 0.0)
    waiting("__int__", lambda t: 1)
    waiting("__float__", lambda t: 0.0)
    waiting("cpu", lambda t: torch.ones(t.shape, dtype=t.dtype))
    monkeypatch.setattr(tensors, "generator_on", lambda device, draws: None)
    monkeypatch.setattr(torch, "autocast", lambda *args, **kwargs: contextlib.nullcontext())

    def run(step: Any) -> dict[str, int]:
        step()
        counts.clear()
        with Traffic() as mode:
            step()
        return dict(mode.counts + counts)

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "objective", "most"),
    [
        ("as-printed", "pmsacl", 18),
        ("quick", "pmsacl", 18),
        ("published-ccd", "ccd", 26),
        ("published-droc", "droc", 14),
        ("as-printed", "csi", 13),
    ],
)
def test_a_step_of_pre_training(preset, objective, most, traffic):
    config = PRETRAIN_PRESETS[preset].replace(
        size=64, batch=4, objective=objective, autocast=False, **{"encoder.arch": ARCH}
    )
    images = normals(8, 64)
    training = Pretraining(config, Data(images, (images[..., 0] >= 0).astype("uint8")), META)
    if training.objective.uses_centres:
        training.centres = torch.empty(training.objective.classes, config.encoder.dim, device="meta")

    def step() -> None:
        outcome, views = training.joint(training.views(), training.centres)
        measured = training.measured(outcome, views)
        outcome.loss.backward()
        training.optimiser.step()
        assert all(t.is_meta for t in (*measured.values(), outcome.z, views.images))
        torch.cat([t.reshape(-1).float() for t in measured.values()]).tolist()

    found = traffic(step)
    assert found["waits"] == 1 and found.get("blocking", 0) == 0 and found["pinned"] <= most, found


@pytest.mark.long
@pytest.mark.parametrize(
    ("preset", "changes", "most"),
    [("quick", {}, 15), ("fundus", {"mode": "frozen", "distances": True}, 20), ("joint", {}, 16)],
)
def test_a_step_of_the_lesion_head(preset, changes, most, traffic):
    config = LESION_PRESETS[preset].replace(batch=9, width=8, steps=10, autocast=False, **changes)
    net = LesionNet(build_encoder(EncoderConfig(arch=ARCH)), config.width, config.k + 1, config.distances, True)
    images = normals(12, 64)
    training = LesionTraining(net.to(META), images, (images[..., 0] >= 0).astype("uint8"), config, META)
    found = traffic(training.advance)
    assert found["waits"] == 1 and found.get("blocking", 0) == 0 and found["pinned"] <= most, found


@pytest.mark.parametrize(("local", "flip", "most"), [(False, 0.0, 4), (True, 0.0, 5), (True, 0.5, 4)])
def test_a_step_of_igd(local, flip, most, traffic):
    config = IGD_PRESETS["quick"].replace(width=4, critic_width=4, batch=4, flip=flip, epochs=4, autocast=False)
    encoder, images = build_encoder(EncoderConfig(arch=ARCH)), normals(8, 96)
    size = config.patch if local else 96
    model = IGDModel(encoder, config, size, local).to(META)
    items = Items(images, Grid(96, config.patch, config.stride) if local else None, META, flip)
    if not flip:
        items.features = torch.empty(len(images), items.patches, encoder.features, device=META)
    found = traffic(IGDTraining(model, items, config).advance)
    assert found["waits"] == 1 and found.get("blocking", 0) == 0 and found["pinned"] <= most, found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dae", "ms-ssim-ae", "ocgan", "f-anogan", "adgan"])
def test_a_step_of_a_detector_with_networks_of_its_own(name, traffic):
    kind = DETECTORS.get(name)
    config = kind.presets["quick"].replace(batch=4, width=4, latent=8)
    net = kind.build(build_encoder(EncoderConfig(arch=ARCH)), config, 32).to(META)
    training: NetTraining = kind.Training(net, normals(8, 32), config, META, name)
    found = traffic(training.advance)
    assert found["waits"] == 1 and found.get("blocking", 0) == 0 and found["pinned"] <= 2, found
