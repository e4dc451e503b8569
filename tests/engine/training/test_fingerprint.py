"""The fingerprint changes with any value, shape, type or order of what it is taken of."""

from __future__ import annotations

import numpy as np
import torch

from core.engine.training.base import fingerprint

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
