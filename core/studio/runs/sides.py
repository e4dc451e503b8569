"""Side length to which a study's images are resized for detectors on pretrained features.

The side length depends only on the number and sizes of the images, never on their content.
"""

from __future__ import annotations

import numpy as np

from core.studio.db.store import Store

ARCH = "efficientnet-lite0"  # the network whose ImageNet weights are installed
SIZE, STEP, MOST = 224, 32, 384  # side length at which ARCH was trained, step and maximum of larger sides
CLOSEST = 512  # largest side length for small annotated lesions; decoders learn from crops of such images
USUAL = 0.05  # diameter of a clearly visible lesion at SIZE, as a fraction of the short side
PIXELS = 500 * SIZE**2  # number of pixels in all images that two cores process within a minute


def side_for(store: Store, study: str) -> int:
    """Returns the side length in pixels to which a study's images are resized: SIZE, or more for few, large images.

    A larger side length preserves small lesions. It is at most MOST and at most the median short side of the images,
    and all images together have at most PIXELS pixels.
    """
    shorts = _shorts(store, study)
    if not shorts:
        return SIZE
    most = min(MOST, shorts[len(shorts) // 2], int((PIXELS / len(shorts)) ** 0.5))
    return max(SIZE, most // STEP * STEP)


def _shorts(store: Store, study: str) -> list[int]:
    """Returns the short sides of a study's images in pixels, in ascending order."""
    rows = store.query("SELECT min(width, height) AS s FROM cases WHERE study = ? ORDER BY s", [study])
    return [row["s"] or SIZE for row in rows]


def closer_side(store: Store, study: str, config: dict) -> int:
    """Returns the side length in pixels of images for a detector, or 0 to use the side length of its encoder.

    A larger result of `side_for` is used if the encoder's `config` has the option `fit_closer` and the network ARCH.
    """
    usual = config.get("fit_size") or config.get("size", 0)
    arch = config.get("encoder", {}).get("arch")
    side = side_for(store, study) if config.get("fit_closer") and arch == ARCH else 0
    return side if side > usual else 0


def side_for_marks(store: Store, study: str, diameters: np.ndarray, side: int) -> int:
    """Returns the side length in pixels for learning from annotated lesions: a multiple of STEP from `side` to CLOSEST.

    The median lesion then has a diameter of at least SIZE * USUAL pixels, unless this needs a larger side than the
    median short side of the images. `diameters` (L,) are the lesions' diameters as fractions of the image's short side.
    """
    shorts = _shorts(store, study)
    if not len(diameters) or not shorts:
        return side
    ideal = SIZE * USUAL / max(float(np.median(diameters)), 1e-6)
    most = min(CLOSEST, shorts[len(shorts) // 2] // STEP * STEP)
    return int(np.clip(-(-ideal // STEP) * STEP, side, max(side, most)))
