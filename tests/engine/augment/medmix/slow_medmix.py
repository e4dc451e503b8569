"""MedMix as one would write it first: an image at a time, a lesion at a time, a pixel at a time, in plain Python.

Written from the descriptions (the paper's Sec. MedMix and the docstrings), not from the batched code.
"""

from __future__ import annotations

import math

import numpy as np

LUMA = (0.299, 0.587, 0.114)


def paint(x: np.ndarray, lesions: list[dict], roi: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """x float64 (B, 3, S, S) -> images and alpha (B, S, S). Each lesion a dict of the fields of `Lesions`."""
    images, alpha = x.copy(), np.zeros((x.shape[0], *x.shape[2:]))
    for it in sorted(lesions, key=lambda i: (int(i["image"]), int(i["slot"]))):
        b, (y0, x0, h, w) = int(it["image"]), (int(v) for v in it["box"])
        patch = appearance(x, it)
        for i in range(h):
            for j in range(w):
                v, u = (2 * i + 1) / h - 1, (2 * j + 1) / w - 1
                cover = coverage(v, u, it) * float(it["opacity"])
                if roi is not None:
                    cover *= roi[b, y0 + i, x0 + j]
                if cover <= 1 / 255:
                    continue
                under = images[b, :, y0 + i, x0 + j]
                images[b, :, y0 + i, x0 + j] = under + cover * (np.clip(patch[:, i, j], 0, 1) - under)
                alpha[b, y0 + i, x0 + j] = 1 - (1 - alpha[b, y0 + i, x0 + j]) * (1 - cover)
    return images, alpha


def coverage(v: float, u: float, it: dict) -> float:
    r, theta = math.hypot(u, v), math.atan2(v, u)
    if it["shape"] == 0:
        deep = 1 - max(abs(u), abs(v))
    elif it["shape"] == 1:
        deep = 1 - r
    else:
        cosines, sines = it["outline"]
        radius = 1 + sum(
            a * math.cos((j + 1) * theta) + b * math.sin((j + 1) * theta)
            for j, (a, b) in enumerate(zip(cosines, sines, strict=True))
        )
        radius /= 1 + sum(math.hypot(a, b) for a, b in zip(cosines, sines, strict=True))
        deep = 1 - r / radius
    soft = float(it["softness"])
    if soft == 0:
        return float(deep > 0)
    t = min(max(deep / soft, 0), 1)
    return t * t * (3 - 2 * t)


def where_from(v: float, u: float, it: dict) -> tuple[float, float]:
    """Bulge, then the fisheye of each control point in turn, then the wave."""
    pull = 1 - float(it["bulge"]) * max(0.0, 1 - v * v - u * u)
    v, u = v * pull, u * pull
    for (pv, pu), strength in zip(it["points"], it["fisheye"], strict=True):
        pull = float(strength) * max(0.0, 1 - ((v - pv) ** 2 + (u - pu) ** 2) / 0.7**2)
        v, u = v - (v - pv) * pull, u - (u - pu) * pull
    if it["wave"] > 0:
        weights = [math.exp(-((v - pv) ** 2) / 0.18) + 1e-3 for pv, _ in it["points"]]
        sines = [math.sin(2 * math.pi * (v - p[0]) / n) for p, n in zip(it["points"], it["lengths"], strict=True)]
        slide = sum(a * b for a, b in zip(weights, sines, strict=True)) / sum(weights)
        u += 2 * float(it["wave"]) * slide
    return v, u


def read(image: np.ndarray, box, v: float, u: float) -> np.ndarray:
    """Bilinear, never outside the box (y0, x0, h, w)."""
    y0, x0, h, w = (int(i) for i in box)
    y = min(max((v + 1) / 2 * h - 0.5, 0), h - 1)
    x = min(max((u + 1) / 2 * w - 0.5, 0), w - 1)
    i, j = min(int(y), max(h - 2, 0)), min(int(x), max(w - 2, 0))
    i2, j2 = min(i + 1, h - 1), min(j + 1, w - 1)
    p, q = y - i, x - j
    at = lambda a, b: image[:, y0 + a, x0 + b]  # noqa: E731
    return (1 - p) * ((1 - q) * at(i, j) + q * at(i, j2)) + p * ((1 - q) * at(i2, j) + q * at(i2, j2))


def appearance(x: np.ndarray, it: dict) -> np.ndarray:
    h, w = int(it["box"][2]), int(it["box"][3])
    patch, home = np.zeros((3, h, w)), np.zeros((3, h, w))
    y0, x0 = int(it["box"][0]), int(it["box"][1])
    for i in range(h):
        for j in range(w):
            v, u = where_from((2 * i + 1) / h - 1, (2 * j + 1) / w - 1, it)
            patch[:, i, j] = read(x[int(it["donor"])], it["source"], v, u)
            home[:, i, j] = x[int(it["image"]), :, y0 + i, x0 + j]
    patch += float(it["match"]) * (home.mean((1, 2)) - patch.mean((1, 2)))[:, None, None]
    patch = jitter(patch, it["jitter"], it["jitter_order"])
    for i in range(h):
        for j in range(w):
            v, u = (2 * i + 1) / h - 1, (2 * j + 1) / w - 1
            light = math.cos(it["light"]) * u + math.sin(it["light"]) * v
            patch[:, i, j] *= max(0.0, 1 + float(it["shading"]) * (light + 0.5 * (1 - 2 * (v * v + u * u))))
            if it["noise"] > 0:
                grain = [normal(int(it["seed"]), i, j, c) for c in range(3)]
                patch[:, i, j] += float(it["noise"]) * np.array([grain[0]] * 3 if it["mono"] else grain)
    return patch


def jitter(patch: np.ndarray, factors, order) -> np.ndarray:
    """Brightness, contrast, saturation, hue, one after the other in `order`, none of them clamped. patch (3, H, W)."""
    grey = lambda p: np.tensordot(np.array(LUMA), p, 1)  # noqa: E731
    yiq = np.array([LUMA, (0.595716, -0.274453, -0.321263), (0.211456, -0.522591, 0.311135)])
    for which in order:
        f = float(factors[which])
        if which == 0:
            patch = patch * f
        elif which == 1:
            patch = f * patch + (1 - f) * grey(patch).mean()
        elif which == 2:
            patch = f * patch + (1 - f) * grey(patch)[None]
        else:
            y, i, q = np.tensordot(yiq, patch, 1)
            c, s = math.cos(2 * math.pi * f), math.sin(2 * math.pi * f)
            patch = np.tensordot(np.linalg.inv(yiq), np.stack([y, c * i - s * q, s * i + c * q]), 1)
    return patch


def _mix(v: int) -> int:
    v &= 0xFFFFFFFF
    v = ((v ^ (v >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    v = ((v ^ (v >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return v ^ (v >> 16)


def normal(seed: int, row: int, col: int, channel: int) -> float:
    """One standard normal number for a seed, a place and a channel, by hashing and Box-Muller."""
    key, place = _mix(seed * 0x9E3779B1 + channel + 1), _mix((row & 0xFFFF) * 0x10000 + (col & 0xFFFF))
    first = _mix(key ^ place)
    second = _mix(first + 0x68E31DA4)
    return math.sqrt(-2 * math.log((first + 0.5) / 2**32)) * math.cos(2 * math.pi * second / 2**32)
