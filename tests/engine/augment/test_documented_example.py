"""The strong augmentation that CONTRIBUTING.md prints as an example works as printed: one file, one decorator."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.views import build_strong
from core.engine.registry import STRONG
from tests.engine.augment.pictures import classes, seeded, tissue

GUIDE = Path(__file__).parents[3] / "CONTRIBUTING.md"


def test_the_example_is_a_strong_augmentation(tmp_path, monkeypatch):
    (source,) = (s for s in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S) if "STRONG.register" in s)
    (tmp_path / "posterise_example.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    known = set(STRONG.names())
    members, about = dict(STRONG._members), dict(STRONG._about)
    try:
        __import__("posterise_example")
        (name,) = set(STRONG.names()) - known
        strong = build_strong(PretrainConfig(strong=name, strong_options={"shades": 16}))
        x = tissue(3, 24)
        images, masks = classes(strong, x, seeded())
        assert torch.equal(images[:, 0], x) and not masks[:, 0].any() and masks[:, 1:].all()
        shades = [len(images[:, n].unique()) for n in range(1, 4)]
        assert shades[0] > shades[1] > shades[2] >= 2
    finally:
        STRONG._members, STRONG._about = members, about
