"""MedMix as the paper describes it (Sec. MedMix), one image and one lesion at a time. Read this first.

The batched version (`medmix.py`) gives the same results to within 1e-5 for the same drawn parameters
(tests/engine/augment/medmix/test_medmix.py). Poisson blending, drawn textures and imitated modalities, which are not in
the paper, are in `appearance.py` only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from core.engine.augment.colour import LUMA

Array = np.ndarray
YIQ = np.array([LUMA, (0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135)])


def medmix(
    D: Array, i: int, lesions: Iterable[Any], roi: Array | None = None, shown: tuple[float, int] = (0.0, 0)
) -> tuple[Array, Array]:
    """Turns the image x = D[i] into x^(n) `(3, S, S)` of class A_n; returns x^(n) and its lesions' weights `(S, S)`.

    Args:
        D: Minibatch of images `(B, 3, S, S)`.
        i: Index of the image.
        lesions: The n lesions in painting order, each with the fields of `groups.Lesions`.
        roi: Region of interest `(S, S)`, 1 inside, or None.
        shown: Smallest change (0 to 1) and number of changed pixels of a visible lesion (not in the paper).
    """
    x, alpha = D[i].copy(), np.zeros(D.shape[2:])
    for a in lesions:
        y0, x0, h, w = (int(t) for t in a.box)
        here = (slice(y0, y0 + h), slice(x0, x0 + w))
        v, u = np.meshgrid((2 * np.arange(h) + 1) / h - 1, (2 * np.arange(w) + 1) / w - 1, indexing="ij")
        patch = cut(D[int(a.donor)], a.source, *deform(v, u, a))  # usually from another image
        patch = transform(patch, D[i][(slice(None), *here)], v, u, a)
        cover = a.opacity * outline(v, u, a) * (1 if roi is None else roi[here])
        cover[cover <= 1 / 255] = 0  # cannot change a grey level
        patch = strengthen(x[(slice(None), *here)], patch.clip(0, 1), cover, *shown)
        x[(slice(None), *here)] += cover * (patch - x[(slice(None), *here)])
        alpha[here] = 1 - (1 - alpha[here]) * (1 - cover)
    return x, alpha


def deform(v: Array, u: Array, a: Any) -> tuple[Array, Array]:
    """Returns the source coordinates of pixels (v, u) after bulge, fisheye at each control point, and wave."""
    pull = 1 - a.bulge * (1 - v * v - u * u).clip(0)
    v, u = v * pull, u * pull
    for (pv, pu), strength in zip(a.points, a.fisheye, strict=True):
        pull = strength * (1 - ((v - pv) ** 2 + (u - pu) ** 2) / 0.7**2).clip(0)
        v, u = v - (v - pv) * pull, u - (u - pu) * pull
    weights = [np.exp(-((v - pv) ** 2) / 0.18) + 1e-3 for pv, _ in a.points]
    sines = [np.sin(2 * math.pi * (v - p[0]) / length) for p, length in zip(a.points, a.lengths, strict=True)]
    return v, u + 2 * a.wave * sum(w * s for w, s in zip(weights, sines, strict=True)) / sum(weights)


def cut(donor: Array, box: Sequence[int], v: Array, u: Array) -> Array:
    """Samples the donor `(3, S, S)` bilinearly at (v, u), which run from -1 to 1 over the box (y0, x0, h, w)."""
    y0, x0, h, w = (int(t) for t in box)
    y, x = ((v + 1) / 2 * h - 0.5).clip(0, h - 1), ((u + 1) / 2 * w - 0.5).clip(0, w - 1)
    i, j = y.astype(int), x.astype(int)
    below, right = (i + 1).clip(max=h - 1), (j + 1).clip(max=w - 1)
    p, q, window = y - i, x - j, donor[:, y0 : y0 + h, x0 : x0 + w]
    upper = (1 - q) * window[:, i, j] + q * window[:, i, right]
    lower = (1 - q) * window[:, below, j] + q * window[:, below, right]
    return np.asarray((1 - p) * upper + p * lower)


def transform(patch: Array, home: Array, v: Array, u: Array, a: Any) -> Array:
    """Applies colour jitter, noise and, not in the paper, shading and a shift towards the mean colour of `home`."""
    patch = patch + a.match * (home.mean((1, 2)) - patch.mean((1, 2)))[:, None, None]
    patch = jitter(patch, a.jitter, range(4))
    light = math.cos(a.light) * u + math.sin(a.light) * v
    patch = patch * (1 + a.shading * (light + 0.5 * (1 - 2 * (v * v + u * u)))).clip(0)
    rows, columns = np.meshgrid(*map(np.arange, v.shape), indexing="ij")
    grain = np.stack([normal(int(a.seed), rows, columns, 0 if a.mono else c) for c in range(3)])
    return np.asarray(patch + a.noise * grain)


def outline(v: Array, u: Array, a: Any) -> Array:
    """Computes alpha, 0 to 1, from each pixel's depth inside a rectangle, an ellipse or an irregular blob."""
    r, theta = np.hypot(u, v), np.arctan2(v, u)
    if a.shape == 0:
        depth = 1 - np.maximum(abs(u), abs(v))
    else:
        waves = [] if a.shape == 1 else list(enumerate(zip(*a.outline, strict=True), start=1))
        radius = 1 + sum(p * np.cos(j * theta) + q * np.sin(j * theta) for j, (p, q) in waves)
        depth = 1 - r / (radius / (1 + sum(math.hypot(p, q) for _, (p, q) in waves)))
    if a.softness == 0:
        return (depth > 0).astype(float)
    t = (depth / a.softness).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def strengthen(under: Array, patch: Array, cover: Array, contrast: float, area: int) -> Array:
    """Mixes a lesion that is visible in fewer than `area` pixels with just enough white or black to be visible."""
    if (cover * abs(patch - under).mean(0) >= contrast).sum() >= area:
        return patch
    needed: dict[int, list[float]] = {1: [], 0: []}  # white, black
    for c, p, u in zip(cover.flat, patch.mean(0).flat, under.mean(0).flat, strict=True):
        for tone, sign in ((1, 1), (0, -1)):
            missing = u + sign * contrast / max(c, 1e-6) - p
            needed[tone].append(max(0.0, missing / (max(abs(tone - p), 1e-6) * sign)))
    amount, _, tone = min((sorted(shares)[min(area, len(shares)) - 1], -tone, tone) for tone, shares in needed.items())
    return patch + amount * (tone - patch) if amount <= 1 else patch


def jitter(patch: Array, factors: Sequence[float], order: Iterable[int]) -> Array:
    """Applies brightness (0), contrast (1), saturation (2) and hue (3) to a patch `(3, H, W)` in `order`, unclamped."""
    for which in order:
        f, grey = float(factors[which]), np.tensordot(LUMA, patch, 1)
        if which == 0:
            patch = f * patch
        elif which == 1:
            patch = f * patch + (1 - f) * grey.mean()
        elif which == 2:
            patch = f * patch + (1 - f) * grey
        else:
            y, i, q = np.tensordot(YIQ, patch, 1)
            c, s = math.cos(2 * math.pi * f), math.sin(2 * math.pi * f)
            patch = np.tensordot(np.linalg.inv(YIQ), np.stack([y, c * i - s * q, s * i + c * q]), 1)
    return patch


def normal(seed: int, row: Array, column: Array, channel: int) -> Array:
    """Computes standard normal noise from seed, position and channel (integer hash, Box-Muller transform)."""
    key = _mix(seed * 0x9E3779B1 + channel + 1)
    first = _mix(key ^ _mix((row & 0xFFFF) * 0x10000 + (column & 0xFFFF)))
    radius = np.sqrt(-2 * np.log((first + 0.5) / 2**32))
    return np.asarray(radius * np.cos(2 * math.pi * _mix(first + 0x68E31DA4) / 2**32))


def _mix(v: Any) -> Any:
    v = v & 0xFFFFFFFF
    v = ((v ^ (v >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    v = ((v ^ (v >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return v ^ (v >> 16)
