"""Drawn objects that always lie alike, a cloth without fixed places, and their defects: unlike the studio's own images.

Each image is drawn anew from a generator: turned by at most 1.5 degrees, shifted by two pixels, in another light, with
grain. A defect is missing, bent, added or stained; some of them show only to whoever knows the place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

SIDE = 224  # pixels
Drawing = tuple[np.ndarray, np.ndarray]  # image uint8 (SIDE, SIDE, 3) and mask uint8 (SIDE, SIDE) of its defect


def objects(kind: str, count: int, defect: bool, draw: np.random.Generator) -> Drawing:
    """Draws images uint8 (count, SIDE, SIDE, 3) of one of KINDS, masks uint8 (count, SIDE, SIDE) of their defects."""
    drawn = [_photographed(*KINDS[kind](draw, defect), draw, moves=kind != "cloth") for _ in range(count)]
    images, masks = (np.stack(column) for column in zip(*drawn, strict=True))
    return images, masks


def _photographed(image: np.ndarray, mask: np.ndarray, draw: np.random.Generator, moves: bool) -> Drawing:
    if moves:
        turned: Any = cv2.getRotationMatrix2D((SIDE / 2, SIDE / 2), draw.uniform(-1.5, 1.5), draw.uniform(0.99, 1.01))
        turned[:, 2] += draw.uniform(-2, 2, 2)
        image = cv2.warpAffine(image, turned, (SIDE, SIDE), borderMode=cv2.BORDER_REFLECT)
        mask = cv2.warpAffine(mask, turned, (SIDE, SIDE), flags=cv2.INTER_NEAREST)
    coarse = draw.normal(0, 4, (SIDE // 24 + 2, SIDE // 24 + 2)).astype(np.float32)
    shade = cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)[..., None]
    lit = image * draw.uniform(0.92, 1.08) + shade + draw.normal(0, 5, image.shape)
    return np.clip(cv2.GaussianBlur(lit.astype(np.float32), (0, 0), 0.7), 0, 255).astype(np.uint8), mask


def _plain(colour: tuple[int, int, int]) -> Drawing:
    return np.full((SIDE, SIDE, 3), colour, np.uint8), np.zeros((SIDE, SIDE), np.uint8)


def _stain(image: np.ndarray, mask: np.ndarray, draw: np.random.Generator, near: tuple[int, int], far: int) -> None:
    """A spot of another colour, at most `far` pixels away from a place."""
    angle, away = draw.uniform(0, 2 * np.pi), draw.uniform(0, far)
    place = (int(near[0] + away * np.cos(angle)), int(near[1] + away * np.sin(angle)))
    axes, turn = (int(draw.integers(5, 16)), int(draw.integers(4, 10))), draw.uniform(0, 180)
    colour = tuple(int(v) for v in draw.integers(60, 190, 3))
    cv2.ellipse(image, place, axes, turn, 0, 360, colour, -1, cv2.LINE_AA)
    cv2.ellipse(mask, place, axes, turn, 0, 360, 1, -1)


def _ring(draw: np.random.Generator, defect: bool) -> Drawing:
    """Looks at a bottle's neck from above; defects: a chip of the rim, an interrupted ring, a stain."""
    image, mask = _plain((205, 205, 200))
    centre = (SIDE // 2, SIDE // 2)
    for radius, colour in ((90, (60, 45, 30)), (72, (120, 85, 40)), (60, (40, 30, 22)), (30, (90, 70, 50))):
        cv2.circle(image, centre, radius, colour, -1, cv2.LINE_AA)
    for angle in np.arange(24) * np.pi / 12:
        ends = [tuple(int(112 + r * f(angle)) for f in (np.cos, np.sin)) for r in (62, 70)]
        cv2.line(image, ends[0], ends[1], (150, 120, 70), 2, cv2.LINE_AA)
    kind, angle = (int(draw.integers(3)) if defect else -1), draw.uniform(0, 2 * np.pi)
    if kind == 0:
        place, radius = tuple(int(112 + 86 * f(angle)) for f in (np.cos, np.sin)), int(draw.integers(7, 15))
        cv2.circle(image, place, radius, (205, 205, 200), -1, cv2.LINE_AA)
        cv2.circle(mask, place, radius, 1, -1)
    elif kind == 1:
        first, last = np.degrees(angle), np.degrees(angle) + draw.uniform(15, 40)
        cv2.ellipse(image, centre, (66, 66), 0, first, last, (60, 45, 30), 11, cv2.LINE_AA)
        cv2.ellipse(mask, centre, (66, 66), 0, first, last, 1, 11)
    elif kind == 2:
        _stain(image, mask, draw, centre, 55)
    return image, mask


def _board(draw: np.random.Generator, defect: bool) -> Drawing:
    """Draws a board of pads and traces, always the same; defects: a pad missing or added, a bridge, a stain."""
    image, mask = _plain((40, 95, 55))
    layout = np.random.default_rng(5)
    pads = []
    for place in ((20 + i * 30, 20 + j * 30) for i in range(7) for j in range(7)):
        if layout.random() < 0.7:
            pads.append(place)
        for end in ((place[0] + 30, place[1]), (place[0], place[1] + 30)):
            if layout.random() < 0.4:
                cv2.line(image, place, end, (70, 130, 80), 3, cv2.LINE_AA)
    cv2.rectangle(image, (80, 80), (140, 140), (25, 25, 25), -1)
    kind = int(draw.integers(4)) if defect else -1
    pads = [p for p in pads if not (74 < p[0] < 146 and 74 < p[1] < 146)]
    faulty = pads[draw.integers(len(pads))]
    if kind == 1:
        faulty = (35 + 30 * int(draw.integers(6)), 35 + 30 * int(draw.choice([0, 4, 5])))
    for place in [p for p in pads if kind != 0 or p != faulty] + ([faulty] if kind == 1 else []):
        cv2.circle(image, place, 7, (200, 190, 150), -1, cv2.LINE_AA)
        cv2.circle(image, place, 3, (40, 60, 40), -1, cv2.LINE_AA)
    if kind in (0, 1):
        cv2.circle(mask, faulty, 8, 1, -1)
    elif kind == 2:
        end = (faulty[0] + int(draw.choice([-1, 1]) * draw.integers(12, 30)), faulty[1] + int(draw.integers(-30, 30)))
        cv2.line(image, faulty, end, (190, 190, 190), 4, cv2.LINE_AA)
        cv2.line(mask, faulty, end, 1, 5)
    elif kind == 3:
        _stain(image, mask, draw, (112, 112), 90)
    return image, mask


def _legged(draw: np.random.Generator, defect: bool) -> Drawing:
    """Draws a part with three legs; defects: a leg bent or missing, a stain."""
    image, mask = _plain((230, 228, 225))
    cv2.rectangle(image, (70, 30), (154, 110), (45, 45, 48), -1)
    cv2.rectangle(image, (78, 38), (146, 60), (75, 75, 78), -1)
    kind, leg = (int(draw.integers(3)) if defect else -1), int(draw.integers(3))
    for number, x in enumerate((86, 112, 138)):
        bent = int(draw.choice([-22, 22])) if kind == 0 and number == leg else 0
        if kind == 1 and number == leg:
            cv2.line(mask, (x, 112), (x, 190), 1, 9)
            continue
        cv2.line(image, (x, 110), (x + bent, 190), (160, 160, 165), 7, cv2.LINE_AA)
        if bent:
            cv2.line(mask, (x, 112), (x + bent, 190), 1, 9)
    if kind == 2:
        _stain(image, mask, draw, (112, 70), 34)
    return image, mask


def _cloth(draw: np.random.Generator, defect: bool) -> Drawing:
    """Weaves a cloth whose threads lie elsewhere in each image; defects: shifted threads, a stain."""
    y, x = np.mgrid[:SIDE, :SIDE] + draw.uniform(0, 12, 2)[:, None, None]
    weave = 120 + 35 * np.sin(x * 2 * np.pi / 12) * np.sin(y * 2 * np.pi / 12)
    image = np.stack([weave * 0.9, weave, weave * 1.05], -1).clip(0, 255).astype(np.uint8)
    mask = np.zeros((SIDE, SIDE), np.uint8)
    if defect:
        shifted = np.roll(image, 6, 0)
        place = tuple(int(v) for v in draw.integers(20, SIDE - 20, 2))
        if draw.random() < 0.5:
            cv2.ellipse(mask, place, (int(draw.integers(8, 18)), int(draw.integers(6, 12))), 0, 0, 360, 1, -1)
            image = np.where(mask[..., None] > 0, shifted, image)
        else:
            _stain(image, mask, draw, (place[0], place[1]), 0)
    return image, mask


KINDS: dict[str, Callable[[np.random.Generator, bool], Drawing]] = {
    "ring": _ring, "board": _board, "legged": _legged, "cloth": _cloth
}  # fmt: skip
