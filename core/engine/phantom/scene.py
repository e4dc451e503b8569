"""A segment of bowel: a bent tube whose wall has folds, vessels and colour, stored as textures over (depth, angle).

Textures have fixed sizes, so that a seed gives the same scene at every image size. The unit of length is the radius of
the tube. Colours are linear reflectances.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

NEAR, FAR = -1.5, 9.0  # range of depths that is drawn; the camera is at depth 0
SHAPE = (512, 256)  # grid of the wall's shape: (depth, angle)
FINE = (640, 384)  # grid of mottling, bumps and residue
VESSELS = (2048, 1216)  # grid of the vessels


@dataclass
class Scene:
    """A segment of bowel, stored as textures of its wall with the shapes SHAPE, FINE and VESSELS.

    Attributes:
        radius: Inner radius of the tube, float32 SHAPE.
        fields: Mottle, tint, residue (0 to 1) and bumps, float32 `(*FINE, 4)`.
        wet: Gloss of the wall, float32 SHAPE.
        vessels: Visibility of vessels, uint8 VESSELS.
        base: Colour of the wall `(3,)`.
        ochre: Colour of residue `(3,)`.
        mottling: Strength of the mottling.
        bend: Curvature of the tube's axis `(2,)`.
    """

    radius: np.ndarray
    fields: np.ndarray
    wet: np.ndarray
    vessels: np.ndarray
    base: np.ndarray
    ochre: np.ndarray
    mottling: float
    bend: np.ndarray

    def paint(self, fields: np.ndarray, vessels: np.ndarray) -> np.ndarray:
        """Computes the wall's reflectance `(h, w, 3)` from sampled fields `(h, w, 4)` and vessels `(h, w)`, 0 to 1."""
        mottle, tint, residue = fields[..., 0], fields[..., 1], fields[..., 2, None]
        paint = np.stack(
            [
                self.base[0] * (1 + 0.5 * self.mottling * mottle) * (1 - 0.30 * vessels),
                self.base[1] * (1 + self.mottling * mottle + 0.05 * tint) * (1 - 0.66 * vessels),
                self.base[2] * (1 + self.mottling * mottle + 0.08 * tint) * (1 - 0.58 * vessels),
            ],
            -1,
        )
        paint += (self.ochre * (1 + 0.15 * mottle[..., None]) - paint) * residue
        return np.clip(paint, 0.01, 1).astype(np.float32)


def draw_scene(rng: np.random.Generator) -> Scene:
    radius, pole = _radius(rng)
    residue: np.ndarray
    visible: np.ndarray
    # Patterns fade near the pole of a blind end, where they would become rays.
    fade = cv2.resize(pole, FINE[::-1])
    residue = np.zeros(FINE, np.float32)
    if rng.random() < 0.22:  # islands with a ragged edge
        islands = fractal(rng, FINE, (16, 9), 5, 0.7, wrap=True) - rng.uniform(1.2, 2.2)
        residue = np.clip(islands * 4, 0, 1) * np.float32(rng.uniform(0.5, 0.95))
    mottle = fractal(rng, FINE, (16, 9), 4, 0.65, wrap=True) * fade
    tint = fractal(rng, FINE, (8, 4), 2, wrap=True) * fade
    bumps = fractal(rng, FINE, (70, 40), 3, 0.6, wrap=True) * fade * np.float32(rng.uniform(0.5, 1.3))
    # Green and blue vary independently, which gives salmon, tan and pink.
    green = rng.uniform(0.20, 0.33)
    base = np.array([rng.uniform(0.62, 0.74), green, green * rng.uniform(0.42, 0.76)], np.float32)
    vessels = _vessels(rng)
    visible = np.clip(0.75 + 0.5 * field(rng, (64, 38), (9, 6), wrap=True), 0, 1.2) * rng.uniform(0.15, 0.8)
    visible = cv2.resize((visible * 255 / 1.2).astype(np.uint8), VESSELS[::-1])
    return Scene(
        radius=radius,
        fields=np.stack([mottle, tint, residue * fade, bumps], -1),
        wet=pole * np.clip(0.25 + 0.55 * fractal(rng, SHAPE, (14, 7), 3, wrap=True), 0.03, 1.8).astype(np.float32),
        vessels=cv2.multiply(vessels, visible, scale=1.2 / 255),
        base=base,
        ochre=np.array([rng.uniform(0.58, 0.70), rng.uniform(0.37, 0.44), rng.uniform(0.08, 0.15)], np.float32),
        mottling=float(rng.uniform(0.04, 0.10)),
        bend=rng.normal(0, 0.11, 2).astype(np.float32),
    )


def _radius(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws haustra: bulges between semilunar folds, each fold a ridge over part of the circumference.

    Returns (radius, fade), both float32 SHAPE; fade is 0 at the pole of the blind end, if the tube has one.
    """
    depth = np.linspace(NEAR, FAR, SHAPE[0], dtype=np.float32)[:, None]
    angle = np.linspace(0, 2 * np.pi, SHAPE[1], endpoint=False, dtype=np.float32)[None]
    radius = 1 + 0.07 * fractal(rng, SHAPE, (7, 3), 3, wrap=True)
    radius -= np.float32(rng.uniform(0, 0.12)) * np.cos(3 * angle + np.float32(rng.uniform(0, 6.3)))  # three bands
    height = rng.uniform(0.10, 0.42)
    where = NEAR + rng.uniform(0, 0.5)
    while where < FAR:
        tilt, phase = rng.normal(0, 0.16), rng.uniform(0, 2 * np.pi)
        middle, width = rng.uniform(0, 2 * np.pi), rng.uniform(0.6, 2.6)
        wave = 0.05 * rng.normal() * np.cos(2 * angle + phase) + 0.03 * rng.normal() * np.cos(5 * angle - phase)
        along = (depth - where - tilt * np.cos(angle - phase) - wave) / rng.uniform(0.09, 0.22)
        angle_distance = np.abs((angle - middle + np.pi) % (2 * np.pi) - np.pi)
        dip = 1 / (1 + np.exp((angle_distance - width) * 4))
        radius -= (height * rng.uniform(0.4, 1.2) * dip * np.exp(-(np.abs(along) ** 1.6))).astype(np.float32)
        where += rng.uniform(0.4, 1.2)
    fade = np.ones(SHAPE, np.float32)
    if rng.random() < 0.3:
        end = rng.uniform(1.3, 3.5)
        cap = np.sqrt(1 - np.clip((depth - end + 1) / 1.05, 0, 1) ** 2 * 0.9999)
        radius *= cap
        fade *= np.clip((cap - 0.05) / 0.5, 0, 1)
    return np.clip(radius, 0.02, 1.5).astype(np.float32), fade


def _vessels(rng: np.random.Generator) -> np.ndarray:
    """Draws vessels, uint8 VESSELS: trees of branching walks, level by level, from a thick dark root to a fine net."""
    coarse, fine = np.zeros(VESSELS, np.uint8), np.zeros(VESSELS, np.uint8)
    tall, wide = VESSELS
    n = int(rng.integers(14, 40))
    start = rng.uniform(0, 1, (n, 2)) * (wide, 0.7 * tall)
    heading, length = rng.uniform(0, 2 * np.pi, n), rng.uniform(220, 520, n)
    for level in range(4):
        count = 32 >> level
        step = (length / count)[:, None]
        turns = np.cumsum(rng.normal(0, (0.20 + 0.06 * level) * np.sqrt(step / 11), (n, count)), 1) + heading[:, None]
        path = np.stack([np.cos(turns), np.sin(turns)], -1) * step[..., None]
        path = start[:, None] + np.concatenate([np.zeros((n, 1, 2)), np.cumsum(path, 1)], 1)
        onto, thick = (coarse, 5 - 2 * level) if level < 2 else (fine, 1)
        for shift in (0, wide, -wide):  # lines that leave on one side continue on the other side
            x = path[..., 0] + shift
            visible = np.flatnonzero((x.max(1) >= 0) & (x.min(1) <= wide))
            lines = list(np.round((path[visible] + (shift, 0)) * 8).astype(np.int32))
            if lines:
                cv2.polylines(onto, lines, False, 255 - 45 * level, thick, cv2.LINE_AA, shift=3)
        parent = np.repeat(np.arange(n), rng.integers(2, 5, n))
        n = len(parent)
        at = rng.integers(0, count, n)
        start = path[parent, at]
        heading = turns[parent, at] + rng.choice((-1, 1), n) * rng.uniform(0.4, 1.1, n)
        length = length[parent] * rng.uniform(0.3, 0.65, n)
    return cv2.max(cv2.blur(cv2.blur(coarse, (5, 5)), (3, 3)), cv2.blur(fine, (3, 3)))


def field(rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int], wrap: bool = False) -> np.ndarray:
    """Draws a smooth random field, float32, with a mean of about 0 and a standard deviation of about 1.

    The field interpolates `cells` (down, across) random values. If `wrap` is set, left and right edges match.
    """
    down, across = max(2, cells[0]), max(2, cells[1])
    grid = rng.standard_normal((down, across), dtype=np.float32)
    if not wrap:
        return cv2.resize(grid, shape[::-1], interpolation=cv2.INTER_CUBIC) * 1.25
    pad = 2
    step = shape[1] / across
    grid = np.pad(grid, ((0, 0), (pad, pad)), mode="wrap")
    wide = cv2.resize(grid, (round(step * (across + 2 * pad)), shape[0]), interpolation=cv2.INTER_CUBIC)
    start = round(pad * step)
    return wide[:, start : start + shape[1]] * 1.25


def fractal(
    rng: np.random.Generator,
    shape: tuple[int, int],
    cells: tuple[int, int],
    octaves: int = 4,
    gain: float = 0.55,
    wrap: bool = False,
) -> np.ndarray:
    """Draws the sum of `octaves` fields; each is twice as fine and `gain` times as strong as the one before.

    The result is float32 with shape `shape` and a standard deviation of about 1.
    """
    total = np.zeros(shape, np.float32)
    power = 0.0
    for o in range(octaves):
        total += gain**o * field(rng, shape, (cells[0] << o, cells[1] << o), wrap)
        power += gain ** (2 * o)
    return total / np.float32(np.sqrt(power))
