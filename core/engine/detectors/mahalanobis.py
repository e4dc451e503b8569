"""Mahalanobis distance of pretrained features, of whole images and of places in them (Rippel, Mertens, Merhof 2021).

An image's score is the distance of its features, averaged over the image, from those of normal images; its heat map
that of each place from all places of normal images. Nothing is trained and nothing hangs on where in the image a place
lies, so images need not be aligned. Both covariances are shrunk towards a multiple of the identity (Chen et al. 2010).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.base import STRIDES
from core.engine.backbones.encoder import Encoder, load_encoder, save_encoder
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.heatmap import blur
from core.engine.files import write_json, write_tensors
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch

WEIGHTS, ABOUT = "mahalanobis.safetensors", "mahalanobis.json"


@dataclass(frozen=True)
class MahalanobisConfig(Config):
    """strides: of the maps that are averaged over the image, joined. map_strides: of those compared place by place.

    sigma: of the map's blur, in pixels at 256 x 256. batch: images per step.
    """

    strides: tuple[int, ...] = (4, 8, 16, 32)
    map_strides: tuple[int, ...] = (16, 32)
    sigma: float = 4.0
    batch: int = 32

    def __post_init__(self) -> None:
        for strides in (self.strides, self.map_strides):
            if not strides or [s for s in STRIDES if s in strides] != list(strides):
                raise BadConfig(f"strides are some of {', '.join(map(str, STRIDES))}, in order; not {strides}")
        if self.sigma < 0 or self.batch < 1:
            raise BadConfig("sigma must be 0 or more and batch at least 1")


class Normal:
    """A multivariate normal distribution: mean (D,) and the whitening matrix W (D, D) with W^T W the precision."""

    def __init__(self, mean: Tensor, whitening: Tensor) -> None:
        self.mean, self.whitening = mean, whitening

    def distance(self, x: Tensor) -> Tensor:
        """(..., D) -> (...): the square root of (x - mean)^T precision (x - mean)."""
        return ((x - self.mean) @ self.whitening.T).norm(dim=-1)


class Scatter:
    """Count, sum and sum of outer products of samples that come batch by batch; memory does not grow with them."""

    def __init__(self) -> None:
        self.count, self.sum, self.outer = 0, torch.zeros(()), torch.zeros(())

    def add(self, x: Tensor) -> None:
        """x (N, D)."""
        x = x.double()
        self.count += len(x)
        self.sum, self.outer = self.sum + x.sum(0), self.outer + x.T @ x

    def normal(self) -> Normal:
        """The distribution, its covariance shrunk by the oracle approximating rule (Chen et al. 2010, Eq. 23)."""
        n, d = self.count, self.sum.shape[0]
        mean = self.sum / n
        covariance = self.outer / n - mean[:, None] * mean
        scale = covariance.diagonal().mean()
        alpha = (covariance**2).mean()
        shrinkage = min(1.0, float((alpha + scale**2) / ((n + 1) * (alpha - scale**2 / d)).clamp_min(1e-30)))
        least = max(float(scale), 1e-12)
        shrunk = (1 - shrinkage) * covariance
        shrunk.diagonal().add_(shrinkage * scale + 1e-6 * least)
        lower = torch.linalg.cholesky(shrunk)
        whitening = torch.linalg.solve_triangular(
            lower, torch.eye(d, dtype=lower.dtype, device=lower.device), upper=False
        )
        return Normal(mean.float(), whitening.float().contiguous())


@DETECTORS.register("mahalanobis", title="Mahalanobis of pooled features")
class Mahalanobis(Detector):
    """extras: `pooled` (N,), the distance of the whole image, and `pooled_roi` of its region of interest if given."""

    name = "mahalanobis"
    Config = MahalanobisConfig

    def __init__(self, encoder: Encoder, config: MahalanobisConfig, normals: dict[str, Normal]) -> None:
        self.encoder, self.config, self.normals = encoder, config, normals

    @classmethod
    @torch.inference_mode()
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: MahalanobisConfig, context: FitContext = FitContext()
    ) -> Self:
        """One pass over images uint8 (N, S, S, 3). Raises ValueError under 2 images."""
        if len(images) < 2:
            raise ValueError(f"this detector needs at least 2 normal images; there are {len(images)}")
        detector = cls(encoder.to(torch.device(context.device)).eval(), config, {})
        scatter = {"pooled": Scatter(), "cells": Scatter()} | ({} if context.roi is None else {"pooled_roi": Scatter()})
        steps = -(-len(images) // config.batch)
        for step in range(steps):
            if context.should_stop is not None and context.should_stop():
                raise Stopped("the fit was stopped; it takes one pass, so it starts again from the first image")
            part = slice(step * config.batch, (step + 1) * config.batch)
            pooled, cells = detector._features(images[part], None if context.roi is None else context.roi[part])
            inside = pooled.pop("inside", None)
            for name, values in pooled.items():
                scatter[name].add(values)
            scatter["cells"].add(cells.flatten(0, 2) if inside is None else cells[inside])
            if context.report is not None:
                context.report({"step": step + 1, "steps": steps})
        detector.normals = {name: part.normal() for name, part in scatter.items() if part.count > 1}
        return detector

    def _features(self, images: np.ndarray, roi: np.ndarray | None) -> tuple[dict[str, Tensor], Tensor]:
        """uint8 (B, S, S, 3) -> {`pooled` (B, D), with a roi also `pooled_roi` and `inside` bool (B, h, w)}, and
        cells (B, h, w, D') on the grid of the finest map stride."""
        c = self.config
        device = next(self.encoder.parameters()).device
        maps = self.encoder.maps(to_batch(np.asarray(images), device), sorted({*c.strides, *c.map_strides}))
        out = {"pooled": torch.cat([maps[s].mean((2, 3)) for s in c.strides], 1).float()}
        grid = maps[c.map_strides[0]].shape[-2:]
        cells = [F.interpolate(maps[s], grid, mode="bilinear", align_corners=False) for s in c.map_strides]
        if roi is not None:
            inside = torch.from_numpy(np.array(roi)).to(device).float()[:, None]
            weights = {s: F.interpolate(inside, maps[s].shape[-2:], mode="area") for s in c.strides}
            pooled = [(maps[s] * w).sum((2, 3)) / w.sum((2, 3)).clamp_min(1e-6) for s, w in weights.items()]
            out["pooled_roi"] = torch.cat(pooled, 1).float()
            out["inside"] = F.interpolate(inside, grid, mode="area")[:, 0] >= 0.5
        return out, torch.cat(cells, 1).permute(0, 2, 3, 1).float()

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Maps float32 (N, S/16, S/16), the same with or without `roi`."""
        maps, extras = [], {"pooled": [], "pooled_roi": []}
        use = roi if "pooled_roi" in self.normals else None
        for start in range(0, len(images), batch):
            part = slice(start, start + batch)
            pooled, cells = self._features(images[part], None if use is None else use[part])
            heat = self.normals["cells"].distance(cells)
            maps.append(blur(heat, self.config.sigma * heat.shape[1] / 256).cpu().numpy())
            for name in extras:
                if name in pooled:
                    extras[name].append(self.normals[name].distance(pooled[name]).cpu().numpy())
        return Prediction(np.concatenate(maps), {name: np.concatenate(v) for name, v in extras.items() if v})

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """(N,) float32: the distance of the pooled features, of the region of interest where `predict` had it too."""
        name = "pooled_roi" if roi is not None and "pooled_roi" in prediction.extras else "pooled"
        return prediction.extras[name].astype(np.float32)

    def save(self, folder: Path) -> None:
        """`folder`: encoder/, mahalanobis.safetensors and, last, mahalanobis.json."""
        folder = Path(folder)
        save_encoder(self.encoder, folder / "encoder")
        tensors = {
            f"{name}.{part}": getattr(n, part) for name, n in self.normals.items() for part in ("mean", "whitening")
        }
        write_tensors(folder / WEIGHTS, tensors)
        write_json(folder / ABOUT, {"config": self.config.to_dict(), "normals": list(self.normals)})

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        folder = Path(folder)
        about = json.loads((folder / ABOUT).read_text())
        tensors = load_file(folder / WEIGHTS, device=str(device))
        normals = {n: Normal(tensors[f"{n}.mean"], tensors[f"{n}.whitening"]) for n in about["normals"]}
        return cls(load_encoder(folder / "encoder", device), MahalanobisConfig.from_dict(about["config"]), normals)
