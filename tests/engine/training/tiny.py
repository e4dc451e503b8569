"""A pre-training small enough to be run many times."""

import torch
from safetensors.torch import load_file

from core.engine.objectives.presets import PRETRAIN_PRESETS
from tests.conftest import ARCH
from tests.engine._images import normals

TINY = PRETRAIN_PRESETS["as-printed"].replace(
    size=32, batch=3, epochs=2, k=1, snapshot_every=1, **{"encoder.arch": ARCH}
)
IMAGES = normals(10)  # 3 steps an epoch, one image left over


def weights_of(folder):
    return load_file(folder / "encoder.safetensors")


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[n], two[n]) for n in one)
