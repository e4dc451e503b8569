"""The learning rate is a function of the step."""

import numpy as np
import pytest
import torch
from torch import nn

from core.engine.backbones.config import STRIDES, EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training.pretraining import Data, Pretraining
from core.engine.training.schedule import (
    build_optimiser,
    learning_rate,
    parameter_groups,
    polynomial,
    set_rate,
    stages,
    still_layers,
    train_mode,
    warm_cosine,
)


def rates(schedule, steps):
    config = PRETRAIN_PRESETS["quick"].replace(schedule=schedule, lr=0.01)
    return [learning_rate(config, step, steps) for step in range(steps)]


def test_onecycle_is_torchs():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=0.01)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=50, cycle_momentum=False)
    expected = []
    for _ in range(50):
        expected.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        theirs.step()
    assert rates("onecycle", 50) == pytest.approx(expected, rel=1e-6)


def test_cosine_falls_and_constant_stays():
    cosine = rates("cosine", 20)
    assert cosine[0] == 0.01 and cosine == sorted(cosine, reverse=True) and 1e-5 < cosine[-1] < 0.0002
    assert set(rates("constant", 20)) == {0.01}
    assert all(rates(schedule, 1) == [0.01] for schedule in ("constant", "cosine", "onecycle"))


def test_warm_cosine_rises_then_falls_to_its_least():
    shares = [warm_cosine(step, 100, 0.2) for step in range(100)]
    assert shares[20] == 1 and shares[0] == shares[-1] == 0.02
    assert shares[:21] == sorted(shares[:21]) and shares[20:] == sorted(shares[20:], reverse=True)
    assert shares[10] == pytest.approx(0.5) and shares[60] == pytest.approx(0.5)
    assert warm_cosine(0, 10, 0.0) == 1


def test_polynomial_is_torchs():
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.PolynomialLR(optimiser, total_iters=12, power=0.9)
    for step in range(12):
        assert polynomial(step, 12, 0.9) == pytest.approx(optimiser.param_groups[0]["lr"])
        optimiser.step()
        theirs.step()


def test_one_rate_for_all_parameters():
    optimiser = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)], lr=1.0)
    set_rate(optimiser, 0.25)
    assert [group["lr"] for group in optimiser.param_groups] == [0.25, 0.25]


def test_optimisers_are_those_named():
    parameter = torch.nn.Parameter(torch.zeros(1))
    sgd = build_optimiser(PRETRAIN_PRESETS["as-printed"], [parameter])
    assert isinstance(sgd, torch.optim.SGD)
    assert sgd.param_groups[0]["lr"] == 0.01 and sgd.param_groups[0]["momentum"] == 0.9
    assert isinstance(build_optimiser(PRETRAIN_PRESETS["quick"], [parameter]), torch.optim.AdamW)


# A start from pretrained weights: which layers are frozen, at what share of the rate the others learn.


ARCHS = ("resnet18", "efficientnet-lite0", "vit_tiny_patch16_224")


@pytest.mark.parametrize("arch", ARCHS)
def test_every_parameter_belongs_to_one_stage(arch):
    encoder = build_encoder(EncoderConfig(arch=arch))
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    found = [p for layers in stages(encoder).values() for layer in layers for p in layer.parameters(recurse=False)]
    assert len(found) == len(set(found)) and set(found) == set(encoder.net.parameters())
    assert encoder.training and all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())


@pytest.mark.parametrize("arch", ARCHS[:2])
@pytest.mark.parametrize("stride", STRIDES[1:])
def test_a_stage_is_what_a_map_adds_to_the_map_before(arch, stride):
    encoder = build_encoder(EncoderConfig(arch=arch)).eval()
    finer = [s for s in STRIDES if s < stride]
    maps = encoder.maps(torch.rand(1, 3, 64, 64), (*finer, stride))
    for layer in stages(encoder)[stride]:
        for p in layer.parameters(recurse=False):
            assert torch.autograd.grad(maps[stride].sum(), p, retain_graph=True, allow_unused=True)[0] is not None
            assert all(
                torch.autograd.grad(maps[s].sum(), p, retain_graph=True, allow_unused=True)[0] is None for s in finer
            )


def test_rates_fall_with_depth_and_the_frozen_learn_nothing():
    encoder = build_encoder(EncoderConfig())
    groups = parameter_groups(encoder, frozen=4, rate=0.1, decay=0.5)
    assert [g["scale"] for g in groups] == pytest.approx([0.1, 0.05, 0.025, 1.0]), "strides 32, 16, 8, then the head"
    learning = {p for g in groups for p in g["params"]}
    assert learning == {p for p in encoder.parameters() if p.requires_grad}
    assert not encoder.net.conv1.weight.requires_grad and not encoder.net.layer1[0].conv1.weight.requires_grad
    assert encoder.net.layer2[0].conv1.weight.requires_grad


def test_frozen_layers_and_norms_stay_in_evaluation_mode():
    encoder = build_encoder(EncoderConfig())
    norms = [m for m in encoder.net.modules() if isinstance(m, nn.BatchNorm2d)]
    train_mode(encoder, still_layers(encoder, 0, True))
    assert not any(m.training for m in norms) and encoder.net.layer4[0].conv1.training
    train_mode(encoder, still_layers(encoder, 8, False))
    assert not encoder.net.layer2[0].bn1.training and encoder.net.layer3[0].bn1.training
    assert still_layers(encoder, 0, False) == []


@pytest.fixture
def training():
    config = PRETRAIN_PRESETS["quick"].replace(
        size=32, batch=2, epochs=1, k=1, frozen=8, backbone_rate=0.1, layer_decay=0.5, lr=0.01, schedule="constant"
    )
    rng = np.random.default_rng(0)
    return Pretraining(config, Data(rng.integers(0, 255, (8, 32, 32, 3), np.uint8), None), torch.device("cpu"))


@pytest.mark.slow
def test_a_step_changes_what_learns_and_nothing_else(training):
    encoder = training.encoder
    frozen = {n for stride in (2, 4, 8) for layer in stages(encoder)[stride] for n in _names(encoder, layer)}
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    training.prepare()
    training.advance()
    changed = {k for k, v in encoder.state_dict().items() if not torch.equal(v, before[k])}
    assert not changed & frozen and any(k.startswith("net.layer4") for k in changed)
    assert [g["lr"] for g in training.optimiser.param_groups] == pytest.approx([1e-3, 5e-4, 1e-2, 1e-2])


@pytest.mark.slow
def test_resumed_with_groups_it_goes_on_bit_for_bit(training):
    training.prepare()
    training.advance()
    about, tensors = training.state()
    other = Pretraining(training.config, training.data, torch.device("cpu"))
    other.restore(about, {k: v.clone() for k, v in tensors.items()})
    for t in (training, other):
        t.prepare()
        t.advance()
    assert all(
        torch.equal(a, b) for a, b in zip(training.encoder.parameters(), other.encoder.parameters(), strict=True)
    )


def _names(encoder, layer) -> list[str]:
    name = next(n for n, m in encoder.named_modules() if m is layer)
    return [
        f"{name}.{k}" for k in dict(layer.named_parameters(recurse=False)) | dict(layer.named_buffers(recurse=False))
    ]
