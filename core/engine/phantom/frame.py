"""Draws complete synthetic endoscopy frames: scene, lesions, exposure, blur, bubbles, octagonal border and noise."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from core.engine.phantom.lesions import draw_lesions, grow, place
from core.engine.phantom.render import Camera, draw_camera, look, shade
from core.engine.phantom.scene import draw_scene, field

PLAN = 64  # side of the grid on which lesions are placed


@dataclass
class Case:
    """Synthetic frame with its lesion mask.

    Attributes:
        image: The frame, uint8 `(S, S, 3)`.
        clean: The same frame without lesions, uint8 `(S, S, 3)`. It equals `image` outside the mask.
        mask: uint8 `(S, S)`, 1 in lesions, 0 elsewhere.
        kinds: Kind of each lesion, such as "sessile" or "flat".
    """

    image: np.ndarray
    clean: np.ndarray
    mask: np.ndarray
    kinds: tuple[str, ...]


def draw_case(key: int | tuple[int, ...], size: int, lesions: int = 0) -> Case:
    """Draws one synthetic endoscopy frame, for examples and tests.

    Args:
        key: Seed of the scene, a whole number of 0 or more or a tuple of such numbers. The same key always gives the
            same scene.
        size: Side length of the image in pixels, 8 or more.
        lesions: Number of lesions, 0 or more. Fewer are drawn if there is too little room, as is usual above five.

    Returns:
        image: The frame, uint8 `(size, size, 3)`.
        clean: The same frame without lesions, uint8 `(size, size, 3)`. It equals `image` outside the mask.
        mask: uint8 `(size, size)`, 1 in lesions, 0 elsewhere.
        kinds: Kind of each lesion in the frame, such as "sessile" or "flat".

    Raises:
        ValueError: If an argument is not a whole number in its range.

    Example:
        >>> from pmsacl_studio import draw_case
        >>> case = draw_case((0, 7), size=64, lesions=1)
        >>> case.image.shape, bool(case.mask.any())
        ((64, 64, 3), True)
    """
    keys = list(key) if isinstance(key, (tuple, list)) else [key]
    for name, value, least in (("key", key, 0), ("size", size, 8), ("lesions", lesions, 0)):
        values = keys if name == "key" else [value]
        numbers = all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) and v >= least for v in values)
        if not values or not numbers:
            raise ValueError(f"{name} must be a whole number of {least} or more, not {value!r}")
    streams = np.random.default_rng(keys).spawn(4)
    scene, camera = draw_scene(streams[0]), draw_camera(streams[1])
    lens = _Lens.draw(streams[2])
    surface = look(scene, camera, size)
    lit = shade(surface, lens.lamp, lens.sharp)
    exposure = _exposure(lit, lens)
    clean = lens.develop(lit, exposure)
    picture, mask, kinds = clean, np.zeros((size, size), np.uint8), ()
    if lesions:
        picture, mask, kinds = _with_lesions(streams[3], lesions, scene, camera, surface, lens, exposure, clean)
    over = _Overlay(lens, size)
    clean = over.put(clean)
    if lesions:
        picture = np.where(mask[..., None] > 0, over.put(picture), clean)
    return Case(picture if lesions else clean, clean, mask, kinds)


def _with_lesions(
    rng: np.random.Generator,
    count: int,
    scene: Any,
    camera: Camera,
    surface: Any,
    lens: Any,
    exposure: float,
    clean: np.ndarray,
) -> tuple[Any, ...]:
    size = len(clean)
    plan = look(scene, camera, PLAN)
    distance = np.linalg.norm(plan.point - plan.eye, axis=-1)
    light = shade(plan, lens.lamp, lens.sharp)[..., 0] * exposure
    open_ = (light > 0.12) & (light < 1.6) & (cv2.erode(lens.octagon(PLAN), np.ones((9, 9))) > 0.5)
    changed = copy.deepcopy(surface)
    cover = np.zeros((size, size), np.float32)
    kinds: list[str] = []
    for lesion in draw_lesions(rng, count):
        lesion_rng = rng.spawn(1)[0]
        if not place(lesion_rng, lesion, distance, open_ if open_.any() or kinds else distance > 0):
            continue
        cover = np.maximum(cover, grow(lesion_rng, lesion, changed, camera.angle))
        kinds.append(lesion.kind)
        y, x = np.mgrid[0:PLAN, 0:PLAN] / PLAN
        open_ &= np.hypot(x - lesion.across, y - lesion.down) > 2.2 * lesion.radius + 0.06
    cover *= lens.octagon(size) > 0.99
    picture = lens.develop(shade(changed, lens.lamp, lens.sharp), exposure)
    # Only the rim is blended, which avoids a sharp edge; pixels outside the mask are unchanged.
    rim = np.clip(cover * 3, 0, 1)[..., None]
    return clean + (picture - clean) * rim, (cover > 0).astype(np.uint8), tuple(kinds)


def _exposure(lit: np.ndarray, lens: _Lens) -> float:
    bright = lit[..., 0][lens.octagon(len(lit)) > 0.5]
    return float(lens.exposure / (np.percentile(bright, 70) + 1e-3))


@dataclass
class _Lens:
    """Properties of the endoscope in one frame: light, exposure, colour balance, focus, noise, bubbles."""

    lamp: np.ndarray
    sharp: float
    exposure: float
    white: np.ndarray
    gamma: float
    blur: float  # sigma, relative to the image's side
    corner: float
    shift: tuple[float, float]
    noise: float
    seed: int
    bubbles: int

    @classmethod
    def draw(cls, rng: np.random.Generator) -> _Lens:
        lamp = np.array([[0.09, 0.0, 0.0], [-0.09, 0.02, 0.0]], np.float32) * rng.uniform(0.6, 1.4)
        white = np.array([1.0, rng.uniform(0.93, 1.05), rng.uniform(0.88, 1.02)], np.float32)
        return cls(
            lamp=lamp.astype(np.float32),
            sharp=float(rng.uniform(140, 320)),
            exposure=float(rng.uniform(0.48, 0.70)),
            white=white,
            gamma=float(rng.uniform(1.6, 2.0)),
            blur=float(rng.uniform(0.0018, 0.0040)),
            corner=float(rng.uniform(0.17, 0.27)),
            shift=(float(rng.normal(0, 0.008)), float(rng.normal(0, 0.008))),
            noise=float(rng.uniform(0.003, 0.009)),
            seed=int(rng.integers(2**31)),
            bubbles=int(rng.integers(3, 26)) if rng.random() < 0.12 else 0,
        )

    def develop(self, lit: np.ndarray, exposure: float) -> np.ndarray:
        """Converts linear colour `(S, S, 3)` to display values 0 to 1: soft shoulder, bloom, gamma, focus."""
        x = lit * (self.white * np.float32(exposure))
        top = x.max(-1, keepdims=True)
        x *= (1 - np.exp(-1.3 * top)) / (top + 1e-6)
        glare = np.clip(top - 1.6, 0, 2) * 0.4  # overexposed pixels turn white
        x = np.clip(x + glare, 0, 1) ** np.float32(1 / self.gamma)
        x = cv2.GaussianBlur(x, (0, 0), max(0.3, self.blur * len(lit)))
        grey = x.mean(-1, keepdims=True)
        return np.clip(grey + (x - grey) * np.float32(1.15), 0, 1)

    def octagon(self, size: int) -> np.ndarray:
        """Returns the octagonal field of view, float32 `(size, size)` from 0 to 1, with an edge one pixel wide."""
        at = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
        x, y = np.abs(at - self.shift[0])[None], np.abs(at - self.shift[1])[:, None]
        inside = np.minimum(np.minimum(0.492 - x, 0.498 - y), (1 - self.corner - x - y) / np.sqrt(2))
        return np.clip(inside * size + 0.5, 0, 1).astype(np.float32)


class _Overlay:
    """Octagonal border, bubbles and noise, which are the same in the frames with and without lesions."""

    def __init__(self, lens: _Lens, size: int):
        rng = np.random.default_rng(lens.seed)
        self.frame = lens.octagon(size)[..., None]
        at = (np.arange(size, dtype=np.float32) + 0.5) / size - 0.5
        self.frame = self.frame * (1 - 0.5 * np.clip(np.hypot(at[None], at[:, None]) - 0.35, 0, 1))[..., None]
        self.add = np.zeros((size, size, 1), np.float32)
        middle = rng.uniform(0.25, 0.75, 2)
        for _ in range(lens.bubbles):
            self._bubble(rng, size, middle + rng.normal(0, 0.10, 2), 0.004 + 0.014 * rng.random() ** 2)
        grain = rng.standard_normal((size, size, 3), dtype=np.float32)
        slow = field(rng, (size, size), (6, 6))[..., None] * 0.3
        self.grain = (cv2.GaussianBlur(grain, (0, 0), 0.6) * 1.6 + slow) * np.float32(lens.noise)

    def _bubble(self, rng: np.random.Generator, size: int, at: np.ndarray, radius: float) -> None:
        grid = (np.arange(size, dtype=np.float32) + 0.5) / size
        box = tuple(slice(max(0, int((c - 2 * radius) * size)), int((c + 2 * radius) * size) + 2) for c in at[::-1])
        y, x = (grid[box[0]] - at[1])[:, None] / radius, (grid[box[1]] - at[0])[None] / radius
        away = np.hypot(x, y)
        rim = np.exp(-(((away - 0.9) * 5) ** 2)) * 0.20 - 0.07 * (away < 0.75)
        self.add[box][..., 0] += rim + 0.6 * np.exp(-((np.hypot(x + 0.35, y + 0.35) * 4) ** 2))

    def put(self, picture: np.ndarray) -> np.ndarray:
        x = np.clip(picture + self.add, 0, 1) * self.frame + self.grain * (0.3 + 0.7 * self.frame)
        return (np.clip(x, 0, 1) * 255 + 0.5).astype(np.uint8)
