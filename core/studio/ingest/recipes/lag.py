"""LAG (Li et al. 2019): 2,343 + 800 fundus images without glaucoma, 1,711 with it and an attention map.

The paper does not say which 800 are for testing: they are drawn here by a hash of their names. An attention map shows
where ophthalmologists looked: at import, pixels brighter than half of white become the mask.
"""

from __future__ import annotations

from pathlib import Path

from core.studio.ingest.recipes import Parts, alone, drawn, found, images_in

TITLE = "LAG"
SOURCE = "https://github.com/smilell/AG-CNN (the LAG database, on request)"
EXPECTED = "folders non_glaucoma/image, suspicious_glaucoma/image and suspicious_glaucoma/attention_map"
COUNTS = {"train normal": 2343, "test normal": 800, "test abnormal": 1711}
MASKS = True


def gather(folder: Path) -> Parts:
    normal = images_in(found(folder, "non_glaucoma", "image"))
    test, train = drawn(normal, COUNTS["test normal"])
    sick = found(folder, "suspicious_glaucoma", "image")
    maps = {p.stem: p for p in images_in(sick.parent / "attention_map")}
    abnormal = [(p, maps.get(p.stem)) for p in images_in(sick)]
    return {"train normal": alone(train), "test normal": alone(test), "test abnormal": abnormal}
