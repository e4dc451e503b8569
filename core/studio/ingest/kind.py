"""Guesses from simple statistics which kind of images a study contains, and stores the kind that a user confirms."""

from __future__ import annotations

from collections import Counter

import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.originals import shown
from core.studio.ingest.resize import shrink
from core.studio.ingest.unreadable import Unreadable

KINDS = {  # kind: title
    "endoscopy": "Endoscopy",
    "fundus": "Fundus photographs",
    "xray": "X-ray",
    "ultrasound": "Ultrasound, CT or MRI",
    "other": "Something else",
}
LESIONS = {  # kind: presets of MedMix and the lesion head with fitting synthetic lesions
    "endoscopy": ("endoscopy", "quick"),
    "fundus": ("fundus", "fundus"),
    "xray": ("xray", "xray"),
    "ultrasound": ("ultrasound", "ultrasound"),
}
ANY = ("varied", "varied")  # if the kind is unknown
SAMPLE = 16  # images of a study that are examined
SIDE = 64  # pixels per side at which images are examined
_LIT = 24  # brightness of 255 below which pixels belong to the frame
_RING = 4  # width of the border in pixels
_GREY = 0.2  # median saturation below which an image has no colour
_DARK_RING, _BLACK_RING = 0.6, 0.9  # minimum dark fraction of the border of a grey, or coloured, scan on black
_FUNDUS_BLUE = 0.26  # maximum fraction of red: the retina is orange, the mucosa pink


def kind_of_image(image: np.ndarray) -> str:
    """Guesses the kind (key of KINDS) of an RGB image, uint8 `(H, W, 3)`, from saturation, hue and dark border."""
    small = shrink(image, SIDE, SIDE).astype(np.float32)
    brightest, least = small.max(2), small.min(2)
    lit = brightest > _LIT
    if not lit.any():
        return "other"
    saturation = float(np.median((brightest - least)[lit] / brightest[lit]))
    ring = np.ones((SIDE, SIDE), bool)
    ring[_RING:-_RING, _RING:-_RING] = False
    dark = float((~lit)[ring].mean())
    if saturation < _GREY or dark > _BLACK_RING:
        return "ultrasound" if dark > _DARK_RING else "xray"
    red, green, blue = (float(np.median(small[..., i][lit])) for i in range(3))
    corner = SIDE // 8
    corners = [
        (~lit)[y, x].mean()
        for y in (slice(corner), slice(-corner, None))
        for x in (slice(corner), slice(-corner, None))
    ]
    if blue < _FUNDUS_BLUE * red and green < red and dark > 0.35 and min(corners) > 0.5:
        return "fundus"
    return "endoscopy" if red > 1.1 * max(green, blue) else "other"


def guess(store: Store, study: str) -> str | None:
    """Returns the most frequent kind in a sample of a study's images, or None if none of them can be read."""
    count = store.first("SELECT count(*) AS n FROM cases WHERE study = ?", [study])["n"]
    sample = range(0, count, max(1, count // SAMPLE))[:SAMPLE]  # rows of a study are numbered from 0
    cases = store.query(
        f'SELECT path, frame, scale FROM cases WHERE study = ? AND "row" IN ({",".join(map(str, sample))})', [study]
    )
    kinds: Counter[str] = Counter()
    for case in cases:
        try:
            kinds[kind_of_image(shown(case))] += 1
        except (Unreadable, OSError):
            continue
    return kinds.most_common(1)[0][0] if kinds else None


def kept(store: Store, study: str) -> str | None:
    """Returns the kind of images that a user has confirmed for a study, or None if no kind is confirmed yet."""
    return store.setting(f"kind:{study}")


def lesions(store: Store, study: str) -> tuple[str, str]:
    """Returns the names of the MedMix and lesion head presets for a study's confirmed kind of images (default: ANY)."""
    return LESIONS.get(kept(store, study) or "", ANY)


def keep(store: Store, study: str, kind: str) -> None:
    """Stores the kind of images that a user confirms. Raises ValueError if the kind is not a key of KINDS."""
    if kind not in KINDS:
        raise ValueError(f"the kind of images must be one of {', '.join(KINDS)}, not {kind!r}")
    store.set_setting(f"kind:{study}", kind)
