"""The side of the images that detectors on pretrained features use for a study.

It depends only on the number and the sizes of the images, and never on their content.
"""

from __future__ import annotations

import numpy as np

from core.studio.db.store import Store

ARCH = "efficientnet-lite0"  # its ImageNet weights are installed; others may be slower, or accept a single side only
SIZE, STEP, MOST = 224, 32, 384  # side at which its weights were trained, step of larger sides, and the largest side
CLOSEST = 512  # largest side for small marked lesions; decoders learn from crops of such images
USUAL = 0.05  # diameter of a lesion, as a share of the short side, that is clearly visible at SIZE
PIXELS = 500 * SIZE**2  # pixels of all images together that two cores process within a minute


def side_for(store: Store, study: str) -> int:
    """Chooses the image side in pixels for detectors on a study: SIZE, or more for few and large images.

    A larger side shows small lesions. It is limited by the median short side of the study's images, by MOST, and by
    PIXELS for all images together.
    """
    shorts = _shorts(store, study)
    if not shorts:
        return SIZE
    most = min(MOST, shorts[len(shorts) // 2], int((PIXELS / len(shorts)) ** 0.5))
    return max(SIZE, most // STEP * STEP)


def _shorts(store: Store, study: str) -> list[int]:
    """Returns the short sides of a study's images in pixels, ascending."""
    rows = store.query("SELECT min(width, height) AS s FROM cases WHERE study = ? ORDER BY s", [study])
    return [row["s"] or SIZE for row in rows]


def closer(store: Store, study: str, config: dict) -> int:
    """Chooses the image side for detectors on an encoder whose configuration has the option `fit_closer`.

    Returns 0 for the encoder's side.
    """
    usual = config.get("fit_size") or config.get("size", 0)
    arch = config.get("encoder", {}).get("arch")
    side = side_for(store, study) if config.get("fit_closer") and arch == ARCH else 0
    return side if side > usual else 0


def side_for_marks(store: Store, study: str, diameters: np.ndarray, side: int) -> int:
    """Chooses the image side in pixels for learning from marked lesions: a multiple of STEP from `side` to CLOSEST.

    At that side the median lesion has a diameter of at least SIZE * USUAL pixels, unless this needs a larger side than
    the median short side of the images. diameters: (L,), of lesions, as fractions of the image's short side.
    """
    shorts = _shorts(store, study)
    if not len(diameters) or not shorts:
        return side
    ideal = SIZE * USUAL / max(float(np.median(diameters)), 1e-6)
    most = min(CLOSEST, shorts[len(shorts) // 2] // STEP * STEP)
    return int(np.clip(-(-ideal // STEP) * STEP, side, max(side, most)))
