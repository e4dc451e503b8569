"""The uncertainty of a detector's result: how much it varies over mirrored and enlarged views of an image.

A mirrored or slightly enlarged image of the same tissue should get the same score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from core.engine.detectors.base import Detector, Prediction

SCALES = (1.0, 1.15)


@dataclass
class Steadiness:
    """How much a detector's scores and maps vary over V views of N images.

    scores (V, N), the given view first; score_sd (N,); map_sd float32 (N, h, w); mean: the mean maps (N, h, w) only.
    """

    scores: np.ndarray
    score_sd: np.ndarray
    map_sd: np.ndarray
    mean: Prediction


def steadiness(detector: Detector, images: np.ndarray, roi: np.ndarray | None = None) -> Steadiness:
    """Measures how much scores and maps vary over views of images uint8 (N, S, S, 3), roi (N, S, S) or None.

    The views are mirrored or not, at each of SCALES (cropped to the centre). Maps are mapped back to the image's grid
    before their mean and standard deviation are computed.
    """
    scores, maps = [], []
    for scale in SCALES:
        for mirrored in (False, True):
            view, inside = _zoom(images, scale), None if roi is None else _zoom(roi[..., None], scale)[..., 0]
            if mirrored:
                view = np.ascontiguousarray(view[:, :, ::-1])
                inside = None if inside is None else np.ascontiguousarray(inside[:, :, ::-1])
            prediction = detector.predict(view)
            scores.append(detector.image_score(prediction, inside))
            back = prediction.maps[:, :, ::-1] if mirrored else prediction.maps
            maps.append(_unzoom(np.ascontiguousarray(back), scale))
    view_scores, stack = np.stack(scores), np.stack(maps)
    # Cells that an enlarged view does not cover are NaN and ignored.
    mean = Prediction(np.nanmean(stack, 0).astype(np.float32))
    return Steadiness(view_scores, view_scores.std(0), np.nanstd(stack, 0), mean)


def _zoom(images: np.ndarray, scale: float) -> np.ndarray:
    """Enlarges images uint8 (N, S, S, C) by `scale` and crops them to the centre, at the same size."""
    if scale == 1.0:
        return images
    size = images.shape[1]
    x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    grown = F.interpolate(x, size=round(size * scale), mode="bilinear", align_corners=False)
    edge = (grown.shape[-1] - size) // 2
    cut = grown[:, :, edge : edge + size, edge : edge + size]
    return cut.round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy()


def _unzoom(maps: np.ndarray, scale: float) -> np.ndarray:
    """Maps the maps (N, h, w) of an enlarged view back to the image's grid, with NaN where the view had no pixels."""
    if scale == 1.0:
        return maps
    size = maps.shape[-1]
    small = F.interpolate(torch.from_numpy(maps)[:, None], size=round(size / scale), mode="area")[:, 0].numpy()
    out = np.full_like(maps, np.nan)
    edge = (size - small.shape[-1]) // 2
    out[:, edge : edge + small.shape[1], edge : edge + small.shape[2]] = small
    return out
