"""How closely detectors on pretrained features look at a study: the side of the images that they see.

It follows from the number and the sizes of the images alone, so that nothing of what they show has a say in it.
"""

from __future__ import annotations

import numpy as np

from core.studio.db.store import Store

ARCH = "efficientnet-lite0"  # its ImageNet weights come with the installation; others may be slower, or take one side
SIZE, STEP, MOST = 224, 32, 384  # the side that they were trained at; and how far from it they are used
CLOSEST = 512  # for small lesions that readers marked; what learns from them sees parts of such images
USUAL = 0.05  # diameter of a lesion, in parts of the short side, that SIZE shows well; smaller ones ask for more
PIXELS = 500 * SIZE**2  # of all images together, what two cores look at within a minute


def side_for(store: Store, study: str) -> int:
    """Chooses the side at which detectors see a study: SIZE, or more for few and large images, as small lesions need.

    It is no more than the short side of the study's usual image, than MOST, and than keeps all images within PIXELS.
    """
    shorts = _shorts(store, study)
    if not shorts:
        return SIZE
    most = min(MOST, shorts[len(shorts) // 2], int((PIXELS / len(shorts)) ** 0.5))
    return max(SIZE, most // STEP * STEP)


def _shorts(store: Store, study: str) -> list[int]:
    """Short sides of a study's images, ascending."""
    rows = store.query("SELECT min(width, height) AS s FROM cases WHERE study = ? ORDER BY s", [study])
    return [row["s"] or SIZE for row in rows]


def closer(store: Store, study: str, config: dict) -> int:
    """Chooses the side at which detectors see a study if an encoder of that configuration lets them look closer.

    Returns 0 for the side that the encoder has.
    """
    usual = config.get("fit_size") or config.get("size", 0)
    arch = config.get("encoder", {}).get("arch")
    side = side_for(store, study) if config.get("fit_closer") and arch == ARCH else 0
    return side if side > usual else 0


def side_for_marks(store: Store, study: str, diameters: np.ndarray, side: int) -> int:
    """Chooses the side at which a detector learns from marked lesions: a multiple of STEP from `side` to CLOSEST.

    diameters (L,): of the lesions, as fractions of the image's short side; at the side chosen, their median spans as
    many pixels as USUAL does at SIZE. The side is no larger than the short side of the study's usual image, unless
    `side` is.
    """
    shorts = _shorts(store, study)
    if not len(diameters) or not shorts:
        return side
    wanted = SIZE * USUAL / max(float(np.median(diameters)), 1e-6)
    most = min(CLOSEST, shorts[len(shorts) // 2] // STEP * STEP)
    return int(np.clip(-(-wanted // STEP) * STEP, side, max(side, most)))
