"""The camera: a wide-angle lens, whose rays meet the wall of the tube, and two lamps next to the lens.

`look` computes the Surface that each pixel shows, and `shade` its linear colour. Lesions change the Surface between
these two steps, so that they are lit in the same way as the wall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from core.engine.phantom.scene import FAR, NEAR, SHAPE, Scene

STEPS = 120  # steps along a ray
REACH = 9.0  # length of a ray in tube radii


@dataclass
class Surface:
    """Surface points that S x S pixels show, in world coordinates. All arrays are float32.

    Attributes:
        point: Positions `(S, S, 3)`.
        normal: Normals `(S, S, 3)`.
        paint: Reflectance `(S, S, 3)`.
        gloss: Wetness `(S, S)`.
        relief: Fine bumps `(S, S)`.
        eye: Position of the camera `(3,)`.
        frame: The camera's axes as rows `(3, 3)`: right, up and forward.
    """

    point: np.ndarray
    normal: np.ndarray
    paint: np.ndarray
    gloss: np.ndarray
    relief: np.ndarray
    eye: np.ndarray
    frame: np.ndarray


@dataclass
class Camera:
    eye: np.ndarray
    frame: np.ndarray
    angle: float  # horizontal field of view in radians

    def rays(self, size: int) -> np.ndarray:
        """Computes the unit directions `(size, size, 3)` of the pixels' rays through an equidistant fisheye lens."""
        at = ((np.arange(size, dtype=np.float32) + 0.5) / size - 0.5) * np.float32(self.angle)
        x, y = np.meshgrid(at, at)
        away = np.sqrt(x * x + y * y) + 1e-6
        ratio = np.sin(away) / away
        local = np.stack([x * ratio, y * ratio, np.cos(away)], -1)
        return (local @ self.frame).astype(np.float32)


def draw_camera(rng: np.random.Generator) -> Camera:
    """Draws a camera at a random place in the tube. It looks along the tube or, less often, at the wall."""
    off = rng.uniform(0, 0.4)
    around = rng.uniform(0, 2 * np.pi)
    eye = np.array([off * np.cos(around), off * np.sin(around), 0], np.float32)
    tilt = np.deg2rad(rng.uniform(0, 28) if rng.random() < 0.6 else rng.uniform(28, 75))
    toward = rng.uniform(0, 2 * np.pi)
    forward = np.array([np.sin(tilt) * np.cos(toward), np.sin(tilt) * np.sin(toward), np.cos(tilt)])
    right = np.cross([0.0, 1.0, 0.0], forward)
    right /= np.linalg.norm(right)
    frame = np.stack([right, np.cross(forward, right), forward]).astype(np.float32)
    return Camera(eye, frame, float(np.deg2rad(rng.uniform(95, 130))))


def _lookup(texture: np.ndarray, depth: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Interpolates a texture whose last column equals the first; `angle` (0 to 2 pi) wraps, `depth` is clamped."""
    tall, wide = texture.shape[:2]
    u = angle * np.float32((wide - 1) / (2 * np.pi))
    v = np.clip((depth - NEAR) * np.float32((tall - 1) / (FAR - NEAR)), 0, tall - 1)
    return cv2.remap(texture, u, v, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


def _closed(texture: np.ndarray) -> np.ndarray:
    return np.concatenate([texture, texture[:, :1]], 1)


def _axis(depth: np.ndarray, bend: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    square = depth * np.abs(depth)
    return bend[0] * square, bend[1] * square


def look(scene: Scene, camera: Camera, size: int) -> Surface:
    radius = _closed(scene.radius)
    coarse = min(size, 256)
    rays = camera.rays(coarse)
    dx, dy, dz = (np.ascontiguousarray(rays[..., i]) for i in range(3))
    ex, ey, ez = camera.eye

    def gap(t: Any, dx: np.ndarray, dy: np.ndarray, dz: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns how far the point at t on each ray is outside the wall (negative: inside), and its coordinates."""
        z = ez + t * dz
        ax, ay = _axis(z, scene.bend)
        rho, phi = cv2.cartToPolar(ex + t * dx - ax, ey + t * dy - ay)
        return rho - _lookup(radius, z, phi), z, rho, phi

    hit: np.ndarray = np.full(dx.shape, REACH, np.float32)
    open_ = np.ones(dx.shape, bool)
    before_t = np.zeros(dx.shape, np.float32)
    before = np.full(dx.shape, -1, np.float32)
    for t in np.geomspace(0.15, REACH, STEPS):
        now = gap(np.float32(t), dx, dy, dz)[0]
        new = open_ & (now > 0)
        ratio = before / (before - now - 1e-6)
        np.copyto(hit, before_t + ratio * (np.float32(t) - before_t), where=new)
        open_ &= ~new
        before, before_t = now, np.full(dx.shape, t, np.float32)
    if coarse < size:
        hit = cv2.resize(hit, (size, size), interpolation=cv2.INTER_LINEAR)
        rays = camera.rays(size)
        dx, dy, dz = (np.ascontiguousarray(rays[..., i]) for i in range(3))
    for _ in range(2):  # two secant steps at full size
        step = np.float32(0.01) * hit
        f, g = gap(hit, dx, dy, dz)[0], gap(hit + step, dx, dy, dz)[0]
        slope = np.maximum((g - f) / step, 0.2)
        hit = hit - np.clip(f / slope, -0.08 * hit, 0.08 * hit)
    _, z, rho, phi = gap(hit, dx, dy, dz)
    point = camera.eye + hit[..., None] * rays
    per_angle = 2 * np.pi / SHAPE[1]
    per_depth = (FAR - NEAR) / (SHAPE[0] - 1)
    wrapped = np.concatenate([scene.radius[:, -1:], scene.radius, scene.radius[:, :2]], 1)
    slope_angle = _lookup(np.ascontiguousarray((wrapped[:, 2:] - wrapped[:, :-2]) / (2 * per_angle)), z, phi)
    slope_depth = _lookup(_closed(np.gradient(scene.radius, per_depth, axis=0)), z, phi)
    cos, sin = np.cos(phi), np.sin(phi)
    turn = slope_angle / np.maximum(rho, 0.1)
    normal = np.stack([-cos - turn * sin, -sin + turn * cos, slope_depth], -1)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    fields = _lookup(_closed(scene.fields), z, phi)
    vessels = _lookup(_closed(scene.vessels), z, phi).astype(np.float32) / 255
    return Surface(
        point=point,
        normal=normal.astype(np.float32),
        paint=scene.paint(fields, vessels),
        gloss=_lookup(_closed(scene.wet), z, phi),
        relief=fields[..., 3],
        eye=camera.eye,
        frame=camera.frame,
    )


def shade(surface: Surface, lamp: np.ndarray, sharp: float) -> np.ndarray:
    """Computes the linear colour `(S, S, 3)` of a surface lit by two lamps next to the lens.

    Light falls off with distance and is reflected between walls, mostly in red, so that deep regions look red. The wet
    surface has highlights with the exponent `sharp`. `lamp` `(2, 3)` holds the offsets of the lamps from the lens.
    """
    view = surface.eye - surface.point
    distance = np.sqrt((view * view).sum(-1, keepdims=True)) + 1e-4
    view = view / distance
    # Fine bumps tilt the normal along the camera's right and up axes.
    size = surface.relief.shape[0]
    gy, gx = np.gradient(surface.relief)
    scale = np.float32(size / 256) / np.clip(distance[..., 0], 0.5, 3.0)
    bumpy = surface.normal + np.clip(gx * scale * 2.0, -0.5, 0.5)[..., None] * surface.frame[0]
    bumpy += np.clip(gy * scale * 2.0, -0.5, 0.5)[..., None] * surface.frame[1]
    bumpy /= np.linalg.norm(bumpy, axis=-1, keepdims=True)
    diffuse = np.zeros(surface.relief.shape, np.float32)
    mirror = np.zeros(surface.relief.shape, np.float32)
    body = 0.75 * surface.normal + 0.25 * bumpy
    for offset in lamp:
        light = surface.eye + offset @ surface.frame - surface.point
        far = np.sqrt((light * light).sum(-1))
        light /= far[..., None]
        fall = 1 / (far**1.7 + 0.10)
        diffuse += np.clip((body * light).sum(-1) * 0.88 + 0.12, 0, None) * fall
        half = light + view
        half /= np.linalg.norm(half, axis=-1, keepdims=True)
        mirror += np.clip((bumpy * half).sum(-1), 0, 1) ** sharp * fall
    passed_on = surface.paint * surface.paint[..., :1] * np.float32(0.03)
    return surface.paint * (diffuse / 2)[..., None] + passed_on + (3.0 * surface.gloss * mirror / 2)[..., None]
