"""Synthetic lesions, which change the surface's height, colour and texture before light is computed.

A lesion changes only pixels inside its outline, so that the outline is the exact mask. The kinds are sessile (a dome),
lobed (several domes grown together), pedunculated (a head on a stalk), flat (hardly raised, with a finer or coarser
surface), red (an inflamed patch, not raised) and pattern (a granular or pitted surface of the same mean colour, without
vessels).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.engine.phantom.render import Surface
from core.engine.phantom.scene import fractal

KINDS = ("sessile", "lobed", "pedunculated", "flat", "red", "pattern")
ODDS = (0.34, 0.19, 0.12, 0.14, 0.12, 0.09)
RADIUS = (0.09, 0.24)  # range of the log-uniform radius, relative to the image's side


@dataclass
class Lesion:
    kind: str
    radius: float  # relative to the image's side
    contrast: float  # from 0, hardly visible, to 1
    across: float = 0.5  # horizontal position of the centre, relative to the image's side
    down: float = 0.5  # vertical position of the centre


def draw_lesions(rng: np.random.Generator, count: int) -> list[Lesion]:
    return [
        Lesion(
            str(rng.choice(KINDS, p=ODDS)),
            float(np.exp(rng.uniform(*np.log(RADIUS)))) * (1 if count == 1 else 0.8),
            float(rng.uniform(0.45, 1)),
        )
        for _ in range(count)
    ]


def place(rng: np.random.Generator, lesion: Lesion, distance: np.ndarray, open_: np.ndarray) -> bool:
    """Moves the lesion's centre to a suitable, even part of the wall; returns False if the lesion does not fit.

    `distance` is the distance from the camera to the wall, float32 `(h, w)`; `open_`, bool `(h, w)`, is True where the
    centre may be placed. Both have a fixed size, so that the position does not depend on the size of the image.
    """
    side = distance.shape[0]
    reach = max(2, round(lesion.radius * side))
    spots = np.argwhere(open_[reach:-reach, reach:-reach]) + reach
    if not len(spots):
        return False
    best = np.inf
    for y, x in spots[rng.integers(0, len(spots), 24)]:
        surroundings = distance[y - reach : y + reach + 1, x - reach : x + reach + 1]
        uneven = (
            surroundings.std() / surroundings.mean()
            + 0.15 * max(0, surroundings.mean() - 1.5)
            + 0.12 * np.hypot(x / side - 0.5, y / side - 0.5)
        )
        uneven += rng.uniform(0, 0.05)
        if uneven < best:
            best, lesion.down, lesion.across = uneven, (y + 0.5) / side, (x + 0.5) / side
    return True


def grow(rng: np.random.Generator, lesion: Lesion, surface: Surface, angle: float) -> np.ndarray:
    """Adds the lesion to the surface in place; returns its weight, float32 `(S, S)`, 0 outside and up to 1 inside."""
    size = surface.relief.shape[0]
    y, x = np.mgrid[0:size, 0:size].astype(np.float32)
    x, y = (x + 0.5) / size - lesion.across, (y + 0.5) / size - lesion.down
    height, edge = _shape(rng, lesion, x / lesion.radius, y / lesion.radius)
    raised = {"sessile": 1.0, "lobed": 1.0, "pedunculated": 1.0, "flat": 0.45, "red": 0.05, "pattern": 0.12}[
        lesion.kind
    ]
    soft = {"red": 0.5, "pattern": 0.3, "flat": 0.2}.get(lesion.kind, 0.07)
    cover = np.clip(edge / soft, 0, 1)
    inside = cover > 0
    if not inside.any():
        return cover
    strength = lesion.contrast
    cells = rng.uniform(5, 12)  # bumps across the lesion's width
    across = max(4, int(cells / (2 * lesion.radius)))
    grain = fractal(rng, (512, 512), (across, across), 3, 0.6)
    grain = grain[(np.arange(size) * 512) // size][:, (np.arange(size) * 512) // size]
    _raise(surface, cover, height * raised * (0.55 + 0.45 * strength), lesion.radius, angle)
    rough = {"sessile": 0.2, "lobed": 0.5, "pedunculated": 0.3, "flat": 1.0, "red": 0.3, "pattern": 1.5}[lesion.kind]
    bumps = surface.relief + cover * ((0.2 + rough * strength) * grain * 1.5 - 0.5 * surface.relief)
    surface.relief[inside] = bumps[inside]
    _colour(rng, lesion, surface, cover, grain, inside)
    surface.gloss[inside] = (surface.gloss * (1 - 0.5 * cover) + 0.5 * cover * rng.uniform(0.3, 1.3))[inside]
    return cover


def _outline(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, wobble: float) -> np.ndarray:
    """Computes a field that is 0 at the centre and 1 on an irregular closed outline."""
    turn, long = rng.uniform(0, np.pi), rng.uniform(1, 1.45)
    a, b = np.cos(turn) * x + np.sin(turn) * y, -np.sin(turn) * x + np.cos(turn) * y
    a, b = a / np.sqrt(long), b * np.sqrt(long)
    phi = np.arctan2(b, a)
    ring = np.ones_like(x)
    for k in range(2, 6):
        ring += wobble * rng.normal() / k**1.3 * np.cos(k * phi + rng.uniform(0, 6.3))
    return np.sqrt(a * a + b * b) / np.clip(ring, 0.5, 1.5)


def _dome(u: np.ndarray, steep: float) -> np.ndarray:
    return np.clip(1 - u * u, 0, 1) ** steep


def _shape(rng: np.random.Generator, lesion: Lesion, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes, from x and y in lesion radii, the height in radii and the depth inside the outline (<= 0 outside)."""
    if lesion.kind == "lobed":
        height, edge = np.zeros_like(x), np.full_like(x, -1)
        for _ in range(int(rng.integers(3, 7))):
            far, phi, r = rng.uniform(0.2, 0.6), rng.uniform(0, 6.3), rng.uniform(0.4, 0.65)
            u = _outline(rng, (x - far * np.cos(phi)) / r, (y - far * np.sin(phi)) / r, 0.15)
            height = np.maximum(height, 0.75 * r * _dome(u, 0.55) + 0.15 * _dome(u, 1))
            edge = np.maximum(edge, (1 - u) * r)
        return height, edge
    if lesion.kind == "pedunculated":
        u = _outline(rng, x / 0.78, y / 0.78, 0.10)
        phi, length, thick = rng.uniform(0, 6.3), rng.uniform(1.0, 1.5), rng.uniform(0.28, 0.42)
        along, side = np.cos(phi) * x + np.sin(phi) * y, -np.sin(phi) * x + np.cos(phi) * y
        side = side + rng.uniform(-0.2, 0.2) * along**2
        wide = thick * (1 + 0.35 * np.clip(along - length + 0.4, 0, 1))  # the stalk widens where it meets the wall
        v = np.hypot(side / wide, np.clip((along - length + 0.45) / 0.45, 0, 2))  # a round foot
        stalk = np.where(along > 0, thick * np.sqrt(np.clip(1 - v * v, 0, 1)), 0) * np.clip(
            (length - along) / 0.5, 0, 1
        )
        head = 0.78 * _dome(u, 0.5) + 0.12 * (u < 1)
        edge = np.maximum((1 - u) * 0.78, np.where(along > 0, (1 - v) * thick, -1))
        return np.maximum(head, stalk), edge
    u = _outline(rng, x, y, 0.35 if lesion.kind in ("red", "flat", "pattern") else 0.14)
    steep = {"sessile": rng.uniform(0.5, 0.75), "flat": 0.7}.get(lesion.kind, 1.5)
    return rng.uniform(0.65, 1.0) * _dome(u, steep), 1 - u


def _raise(surface: Surface, cover: np.ndarray, height: np.ndarray, radius: float, angle: float) -> None:
    size = len(height)
    inside = cover > 0
    gy, gx = (np.asarray(g) for g in np.gradient(height * radius * size))
    toward = surface.eye - surface.point
    distance = np.linalg.norm(toward, axis=-1, keepdims=True)
    facing = toward / np.maximum(distance, 1e-4)
    weight = (np.clip(height * 1.2, 0, 0.85) * cover)[..., None]  # higher lesions look more like a ball
    normal = surface.normal * (1 - weight) + facing * weight
    normal -= (
        np.clip(gx, -1.3, 1.3)[..., None] * surface.frame[0] + np.clip(gy, -1.3, 1.3)[..., None] * surface.frame[1]
    )
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    lift = (height * radius * angle)[..., None]
    surface.normal[inside] = normal[inside]
    surface.point[inside] = (surface.point + toward * np.clip(lift, 0, 0.5))[inside]


def _colour(
    rng: np.random.Generator, lesion: Lesion, surface: Surface, cover: np.ndarray, grain: np.ndarray, inside: np.ndarray
) -> None:
    wall: np.ndarray = np.median(surface.paint[inside], 0)
    strength = lesion.contrast
    if lesion.kind == "red":
        tint = np.array([1.02, 1 - 0.42 * strength, 1 - 0.36 * strength])
    elif lesion.kind == "pattern":
        tint = np.ones(3)
    else:  # redder or paler than the wall around it, equally often
        shift = rng.choice((-1, 1)) * rng.uniform(0.15, 0.45) * strength
        tint = np.array([1 - 0.15 * shift, 1 - shift, 1 - 0.9 * shift])
    mottle = 1 + grain[..., None] * np.array([0.03, 0.09, 0.08]) * (0.4 + strength)
    if lesion.kind == "pattern":
        mottle = 1 + grain[..., None] * np.array([0.05, 0.16, 0.14]) * (0.4 + strength)
    blend = cover[..., None] * {"red": 0.9, "flat": 0.8}.get(lesion.kind, 0.93)
    painted = surface.paint + (wall * tint * mottle - surface.paint) * blend
    surface.paint[inside] = np.clip(painted, 0.01, 1)[inside]
