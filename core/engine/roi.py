"""The region of interest of an image (the visible tissue), detected from the pixels.

The region excludes the black border around an octagonal or round field of view, a black picture-in-picture inset in a
corner, and burned-in text. This matters: in hyperkvasir, 98 % of the normal images but 55 % of the images with polyps
have the inset, so a detector that looks at the frame seems to find polyps. Doubtful pixels are inside: a lumen is as
black as a border, and cutting off a lesion is worse than including a border.
"""

from __future__ import annotations

from statistics import median

import cv2
import numpy as np

WORKING_SIDE = 288  # shorter side of the resized image in which regions are detected; lengths below are in its pixels
BLACK = 16  # largest channel value of a border: 0 to 5 measured on three data sets, more near edges due to JPEG
GLYPH = (4, 14)  # smallest and largest height of a line of burned-in text
EVEN = 0.7  # smallest brightness of the darkest letter of a line, relative to the brightest letter
TINT = 30  # largest median channel difference in a short line, grey levels; glints have the colour of the tissue
ROUGH, SMOOTH = 22, 8  # most fine detail around a line of text, and around fewer than four letters, grey levels
FRAME = 44  # largest value of the dark grey frame (15 to 40) that some insets have
RIM = 5  # largest distance of an inset from the edge of the image
SMALLEST_VIEW = 0.2  # fraction of the image below which a field of view is considered a detection error


def find_roi(image: np.ndarray) -> np.ndarray:
    """Returns the region of interest of an image as uint8 `(H, W)`, 1 inside and 0 outside.

    The image must be uint8 `(H, W, 3)` or `(H, W)`; other arrays raise ValueError. The region is never empty: if
    nothing is detected, it is the entire image.
    """
    if image.dtype != np.uint8 or not image.size or image.shape[2:] not in ((), (3,)) or image.ndim < 2:
        raise ValueError(f"find_roi needs a uint8 image (H, W, 3) or (H, W), not {image.dtype} {image.shape}")
    height, width = image.shape[:2]
    scale = WORKING_SIDE / min(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = image if scale == 1 else cv2.resize(image, size, interpolation=cv2.INTER_AREA if scale < 1 else 1)
    small = small if small.ndim == 3 else np.repeat(small[..., None], 3, 2)
    red, green, blue = cv2.split(small)  # OpenCV's maximum over three channels is thirty times as fast as NumPy's
    bright = cv2.max(cv2.max(red, green), blue)
    text = find_text(small)
    view = field_of_view(np.where(text, 0, bright).astype(np.uint8))
    for top, bottom, left, right in insets(bright, view):
        view[top:bottom, left:right] = 0
    view[text] = 0
    if scale != 1:
        view = cv2.resize(view, (width, height), interpolation=cv2.INTER_NEAREST)
    return view if view.any() else np.ones((height, width), np.uint8)


def field_of_view(bright: np.ndarray) -> np.ndarray:
    """Returns the field of view, uint8 `(h, w)`, 1 inside: the convex hull of all pixels except the black border.

    `bright`, uint8 `(h, w)`, is the maximum over the channels. All common fields of view (octagon, circle, rectangle)
    are convex, so the hull includes a dark lumen at the border. A morphological opening first removes text and icons.
    """
    lit = (cv2.medianBlur(bright, 3) > BLACK).astype(np.uint8)
    if lit.all():
        return np.ones_like(bright)
    opened = cv2.morphologyEx(lit, cv2.MORPH_OPEN, np.ones((11, 11), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(opened)
    if count < 2:
        return np.ones_like(bright)
    area = stats[1:, cv2.CC_STAT_AREA]
    keep = np.concatenate(([0], area >= 0.02 * area.max())).astype(np.uint8)
    view_mask = keep[labels]
    # The opening rounds off corners, so lit pixels next to the opened mask are added back.
    view_mask = np.asarray(cv2.dilate(view_mask, np.ones((5, 5), np.uint8)), np.uint8) & lit
    rows = np.flatnonzero(view_mask.any(1))  # the two end points of each row suffice for the hull
    first, last = view_mask[rows].argmax(1), view_mask.shape[1] - 1 - view_mask[rows, ::-1].argmax(1)
    points = np.stack([np.concatenate([first, last]), np.concatenate([rows, rows])], 1).astype(np.int32)
    view = np.zeros_like(bright)
    cv2.fillConvexPoly(view, cv2.convexHull(points), 1)
    if view.mean() < SMALLEST_VIEW:
        return np.ones_like(bright)
    return view


def insets(bright: np.ndarray, view: np.ndarray) -> list[tuple[int, int, int, int]]:
    """Returns the black rectangles in the corners of an image as (top, bottom, left, right), with exclusive ends."""
    regions = []
    height, width = bright.shape
    view_mask = view > 0
    # Pixels outside the view are already excluded, so they may belong to a rectangle.
    lit = [mask for mask in ((bright > level) & view_mask for level in (BLACK, FRAME)) if not mask.all()]
    for down in (False, True):
        for mirrored in (False, True):
            flip = (slice(None, None, -1 if down else 1), slice(None, None, -1 if mirrored else 1))
            boxes = [_inset_at_origin(mask[flip], view_mask[flip]) for mask in lit]
            h, w = max(boxes, key=lambda box: box[0] * box[1], default=(0, 0))
            if h * w == 0:
                continue
            rows = (height - h, height) if down else (0, h)
            columns = (width - w, width) if mirrored else (0, w)
            regions.append((*rows, *columns))
    return regions


def _inset_at_origin(lit: np.ndarray, view: np.ndarray) -> tuple[int, int]:
    """Returns (height, width) of the black rectangle in the upper left corner, or (0, 0).

    It is the largest rectangle with lit pixels along its two inner sides, because insets have straight, sharp sides and
    a lumen does not. Lit pixels less than RIM from the edge of the image are ignored.
    """
    height, width = lit.shape
    first = lit[:, RIM:].argmax(1) + RIM  # first lit column of each row
    first[:RIM] = width
    first[~lit[np.arange(height), np.minimum(first, width - 1)]] = width
    reach = np.minimum.accumulate(first)  # width of the black rectangle that is y + 1 rows high
    steps = np.flatnonzero(np.diff(reach, append=0))  # rows after which the rectangle must become narrower
    best, best_area = (0, 0), 0
    for y in steps:
        h, w = int(y) + 1, int(reach[y])
        if h < 0.1 * height or w < 0.1 * width or h * w <= best_area or h * w > 0.35 * height * width:
            continue
        if np.count_nonzero(view[:h, :w]) < 0.1 * h * w:  # the rectangle is already outside the field of view
            continue
        beyond = slice(w + 2, w + 5), slice(h + 2, h + 5)  # two pixels off, because JPEG blurs the edge
        right = np.count_nonzero(lit[RIM:h, beyond[0]]), np.count_nonzero(view[:h, beyond[0]])
        below = np.count_nonzero(lit[beyond[1], RIM:w]), np.count_nonzero(view[beyond[1], :w])
        sides = [bordering / all_of_it for bordering, all_of_it in (right, below) if all_of_it]
        if len(sides) == 2 and min(sides) > 0.4 and sum(sides) > 1.2:
            best, best_area = (h, w), h * w
    return best


def find_text(image: np.ndarray) -> np.ndarray:
    """Returns a mask of burned-in text in an image uint8 `(h, w, 3)`: bool `(h, w)`, True in a box around each line.

    Letters are thin and equally bright, on one baseline and a smooth background; up to three letters must also be
    white. Highlights and speckle are too crowded to be letters, and bright rims lack their strokes.
    """
    red, green, blue = cv2.split(image)
    white = cv2.min(cv2.min(red, green), blue)
    thin = cv2.morphologyEx(white, cv2.MORPH_TOPHAT, np.ones((9, 9), np.uint8))
    strokes = ((thin > 60) & (white > 110)).astype(np.uint8)
    text = np.zeros(white.shape, bool)
    if not strokes.any():
        return text
    _, labels, stats, _ = cv2.connectedComponentsWithStats(strokes)
    lines = []
    for line in _lines(stats):
        width, height = stats[line[0], [cv2.CC_STAT_WIDTH, cv2.CC_STAT_HEIGHT]]
        if len(line) == 1 and width < 1.2 * height:  # a single letter according to `_letters`
            continue
        boxes = [_box(stats[i]) for i in line]
        letters = [labels[box] == i for i, box in zip(line, boxes, strict=True)]
        count = sum(map(_letters, letters))
        if count < 2:
            continue
        peaks = [int(white[box][letter].max()) for box, letter in zip(boxes, letters, strict=True)]
        if min(peaks) < EVEN * max(peaks):
            continue
        if count < 4:
            if min(peaks) < 180 or np.ptp(stats[line, cv2.CC_STAT_HEIGHT]) > 1:
                continue
            tints = [np.ptp(image[box][letter], axis=1) for box, letter in zip(boxes, letters, strict=True)]
            if np.median(np.concatenate(tints)) > TINT:
                continue
        top, left = (min(box[axis].start for box in boxes) for axis in (0, 1))
        bottom, right = (max(box[axis].stop for box in boxes) for axis in (0, 1))
        lines.append((ROUGH if count >= 4 else SMOOTH, top, bottom, left, right))
    elsewhere = np.ones(text.shape, np.uint8)  # pixels outside all lines, which must not count as detail
    for _, top, bottom, left, right in lines:
        elsewhere[max(0, top - 2) : bottom + 2, max(0, left - 2) : right + 2] = 0
    detail = thin * elsewhere
    for most, top, bottom, left, right in lines:
        margin = bottom - top + 2
        surroundings = slice(max(0, top - margin), bottom + margin), slice(max(0, left - margin), right + margin)
        if detail[surroundings].sum() <= most * elsewhere[surroundings].sum():
            text[max(0, top - 2) : bottom + 2, max(0, left - 3) : right + 3] = True
    return text


def _box(stats: np.ndarray) -> tuple[slice, slice]:
    left, top, width, height = (int(v) for v in stats[:4])
    return slice(top, top + height), slice(left, left + width)


def _lines(stats: np.ndarray) -> list[list[int]]:
    """Groups components that form a line on a common baseline; returns the component numbers of each line."""
    heights = stats[:, cv2.CC_STAT_HEIGHT]
    fits = (heights >= GLYPH[0]) & (heights <= GLYPH[1]) & (stats[:, cv2.CC_STAT_WIDTH] <= 9 * heights)
    numbers = np.flatnonzero(fits[1:]) + 1  # 0 is the background
    lines: list[list[int]] = []
    latest: dict[int, list[int]] = {}  # the line that was extended last, by the baseline of its last letter
    for i in numbers[np.argsort(stats[numbers, cv2.CC_STAT_LEFT], kind="stable")]:
        left, top, _, tall = (int(v) for v in stats[i, :4])
        foot = top + tall
        for line in (latest[f] for f in (foot, foot - 1, foot + 1) if f in latest):
            before = stats[line[-1]]
            gap = left - (before[cv2.CC_STAT_LEFT] + before[cv2.CC_STAT_WIDTH])
            height_before = before[cv2.CC_STAT_HEIGHT]
            if 0.6 <= tall / height_before <= 1.7 and gap <= max(4, 1.2 * max(tall, height_before)):
                line.append(int(i))
                break
        else:
            line = [int(i)]
            lines.append(line)
        latest[foot] = line
    return lines


def _letters(component: np.ndarray) -> int:
    """Estimates the number of letters in a component bool `(h, w)`: width / (0.8 height), but at most its strokes."""
    height, width = component.shape
    middle = component[height // 4 : height - height // 4].astype(np.int8)
    strokes = median((np.count_nonzero(middle[:, 1:] > middle[:, :-1], axis=1) + middle[:, 0]).tolist())
    return max(1, min(round(width / (0.8 * height)), int(strokes)))
