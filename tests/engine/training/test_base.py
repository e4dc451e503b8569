"""Optimisers are put back as they were; averaged weights; draws and fingerprints are the same in every process."""

import copy

import numpy as np
import pytest
import torch

from core.engine.training.base import Average, fingerprint, generator, optimiser_state, restore_optimiser


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_optimiser_goes_on_bit_for_bit(kind):
    def build():
        torch.manual_seed(0)
        net = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        extra = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        return net, kind(net.parameters(), lr=0.01, **extra)

    def step(net, optimiser, seed):
        x = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(seed))
        optimiser.zero_grad()
        net(x).square().mean().backward()
        optimiser.step()

    (one, first), (two, second) = build(), build()
    for seed in range(3):
        step(one, first, seed)
    two.load_state_dict(one.state_dict())
    restore_optimiser(second, optimiser_state(first))
    for seed in range(3, 6):
        step(one, first, seed), step(two, second, seed)
    assert torch.equal(one.weight, two.weight)
    kept = next(iter(v for v in second.state_dict()["state"][0].values() if v is not None and v.ndim == 4))
    assert kept.is_contiguous(memory_format=torch.channels_last)


def first(*numbers):
    return float(torch.rand(1, generator=generator(*numbers)))


def test_each_seed_purpose_and_step_has_draws_of_its_own():
    assert first(1, 2, 3) == first(1, 2, 3)
    assert len({first(s, p, i) for s in range(3) for p in range(3) for i in range(20)}) == 180


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError):
        generator(-1, 0)


IMAGES = np.random.default_rng(0).integers(0, 256, (150, 8, 8, 3), dtype=np.uint8)


def test_any_pixel_counts():
    found = {fingerprint(IMAGES)}
    for i in (0, 63, 64, 100, 149):
        other = IMAGES.copy()
        other[i, 7, 7, 2] ^= 1
        found.add(fingerprint(other))
    assert len(found) == 6 and fingerprint(IMAGES.copy()) in found


def test_shape_type_order_and_absence_count():
    same_bytes = IMAGES.reshape(75, 16, 8, 3)
    parts = [(IMAGES,), (same_bytes,), (IMAGES.view(np.int8),), (IMAGES, None), (None, IMAGES), (IMAGES[:-1],)]
    assert len({fingerprint(*p) for p in parts}) == len(parts)


def test_a_view_of_a_mapped_file_counts_as_its_values(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert fingerprint(mapped[::2]) == fingerprint(IMAGES[::2])


def test_weights_by_name():
    net = torch.nn.BatchNorm2d(3).to(memory_format=torch.channels_last)
    before = fingerprint(net.state_dict())
    assert before == fingerprint(dict(reversed(net.state_dict().items())))
    with torch.no_grad():
        net.weight[1] += 1e-7
    assert fingerprint(net.state_dict()) != before
    assert fingerprint({"a": torch.ones(2, dtype=torch.bfloat16)}) != fingerprint({"a": torch.ones(2)})


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_against_a_slow_average(decay):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    optimiser, average = torch.optim.SGD(net.parameters(), 0.1), Average(net, decay)
    expected = {k: v.clone() for k, v in net.state_dict().items()}
    for step in range(1, 6):
        optimiser.zero_grad()
        net(torch.rand(4, 2, 8, 8)).square().mean().backward()
        optimiser.step()
        average.update_parameters(net)
        kept = min(decay, 1 - 1 / (step + 1))
        for name, value in net.state_dict().items():
            whole = not value.is_floating_point()
            expected[name] = value.clone() if whole else kept * expected[name] + (1 - kept) * value
    for name, value in average.module.state_dict().items():
        torch.testing.assert_close(value, expected[name])


def test_a_copy_goes_on_the_same():
    net = torch.nn.Linear(2, 2)
    one = Average(net, 0.9)
    one.update_parameters(net)
    two = Average(copy.deepcopy(net), 0.9)
    two.load_state_dict(one.state_dict())
    net.weight.data.fill_(3.0)
    for average in (one, two):
        average.update_parameters(net)
    assert torch.equal(one.module.weight, two.module.weight)
