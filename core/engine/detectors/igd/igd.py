"""IGD: reconstruction and a Gaussian anomaly classifier, from whole images and from patches (PMSACL Eq. 10).

A global model reads the image, a local one its 32 x 32 patches; below 96 pixels only the global one is used, as in the
paper at 64. Score: half the global 0.1 rec + 0.9 gauss, half the highest 0.9 rec + 0.1 gauss of any patch. Heat map:
half the global residuals, half the local ones, averaged where patches overlap. Nothing is chosen on test images.

Eq. 11 mixes global and local reconstruction by nu: `local_share` is 1 - nu. Eqs. 10 and 12 contradict each other on the
sign of h_psi, and the paper gives no value for kappa in (0, 1]; see the detectors' `reference.py`. The preset
`published` follows the released code where that differs: it mirrors images (`flip`), so that features of a frozen
encoder cannot be cached, has wider generators (`width`), steps of two images for the local model (`local_batch`),
sums overlapping patches (`overlaps`), and does not rescale features (`rescale`). The residual blocks and the LayerNorm
of the released critic are not implemented.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder, load_encoder
from core.engine.calibration.heatmap import blur, counted
from core.engine.detectors.base import PARTIAL, Detector, FitContext, Prediction
from core.engine.detectors.igd.items import Grid, Items
from core.engine.detectors.igd.model import PRESETS, IGDConfig, IGDModel
from core.engine.detectors.igd.train import steps_of, train
from core.engine.progress import part_of
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch

STRIDE = 2  # heat maps are stored at half the image's resolution


@DETECTORS.register("igd", title="IGD", section="Anomaly Detection and Segmentation")
class IGD(Detector):
    name = "igd"
    Config = IGDConfig
    presets = PRESETS

    def __init__(self, config: IGDConfig, size: int, whole: IGDModel, local: IGDModel | None) -> None:
        super().__init__()
        self.config, self.size, self.whole, self.local = config, size, whole.eval(), local.eval() if local else None
        self.grid = Grid(max(size, config.patch), config.patch, config.stride)  # of the local model

    @classmethod
    def _build(
        cls, config: IGDConfig, size: int, encoder: Encoder, local_encoder: Encoder | None, device: torch.device | str
    ) -> Self:
        if size < 32:
            raise ValueError(f"IGD needs images with a side of at least 32 pixels, not {size}")
        global_model = IGDModel(encoder, config, size, False).to(device)
        local = None
        if config.uses_local(size):
            local = IGDModel(local_encoder or encoder, config, config.patch, True).to(device)
        return cls(config, size, global_model, local)

    @classmethod
    def fit(cls, encoder: Encoder, images: np.ndarray, config: IGDConfig, context: FitContext = FitContext()) -> Self:
        """Fits IGD on images uint8 (N, S, S, 3), at least 2. The encoder is copied, not changed.

        If the context has a folder, the training is saved in its subfolder `partial`, and a later call with the same
        arguments resumes it, with the result of an uninterrupted fit (exactly so on a CPU).
        """
        device, folder = torch.device(context.device), context.folder
        size = int(images.shape[1])
        local_encoder = load_encoder(config.local_encoder) if config.local_encoder else None
        igd = cls._build(config, size, copy.deepcopy(encoder), local_encoder or copy.deepcopy(encoder), device)
        partial = Path(folder) / PARTIAL if folder is not None else None
        steps = {local: steps_of(config, len(images), local)[1] for local in (False, True)}
        done, total = 0, steps[False] + (steps[True] if igd.local else 0)
        for name, model, grid in (("global", igd.whole, None), ("local", igd.local, igd.grid)):
            if model is None:
                continue
            items = Items(images, grid, device, config.flip)
            if not model.tuned:
                items.cache(model.encoder, config.batch, partial / name if partial else None)
            train(
                model,
                items,
                config,
                partial / name if partial else None,
                part_of(context.report, done, total),
                context.should_stop,
            )
            done += steps[model.local]
        return igd

    @property
    def remarks(self) -> list[str]:
        """Remarks for the fit's log."""
        if self.local is None or self.config.local_encoder:
            return []
        return ["The local model took the global encoder's weights: no local_encoder was given."]

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        """Predicts maps (N, S/2, S/2) of images uint8 (N, S, S, 3) of the size of the fit.

        extras: `rec` and `gauss` (N,) of the global model, `residual` (N, S/2, S/2), its map, and `patches` (N, P), the
        scores of the local model.
        """
        self.demand_size(images)
        out: list[dict[str, np.ndarray]] = []
        for start in range(0, len(images), batch):
            x = to_batch(images[start : start + batch], self.whole.centre.device)
            out.append({k: v.float().cpu().numpy() for k, v in self._judge(x).items()})
        if not out:
            return Prediction(np.zeros((0, self.size // STRIDE, self.size // STRIDE), np.float32))
        joined = {k: np.concatenate([batch[k] for batch in out]) for k in out[0]}
        return Prediction(joined.pop("maps"), joined)

    def _judge(self, x: Tensor) -> dict[str, Tensor]:
        rec, gauss, residual = self.whole.judge(x)
        maps, terms = residual, {"rec": rec, "gauss": gauss, "residual": F.avg_pool2d(residual[:, None], STRIDE)[:, 0]}
        if self.local is not None:
            c = self.config
            # A few images at a time, as each has 225 patches at 256 pixels.
            scores, laid = zip(*(self._judge_patches(self.local, images) for images in x.split(4)), strict=True)
            terms["patches"] = torch.cat(scores)
            maps = c.local_share * torch.cat(laid) + (1 - c.local_share) * residual
        maps = blur(maps, self.config.sigma * self.size / 256)
        return {"maps": F.avg_pool2d(maps[:, None], STRIDE)[:, 0], **terms}

    def _judge_patches(self, local: IGDModel, x: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the scores (B, P) of the patches of x (B, 3, S, S) and the local heat map (B, S, S)."""
        c, b = self.config, len(x)
        rec, gauss, residual = local.judge(self.grid.cut(x).flatten(0, 1))
        scores = c.xi_local * rec + (1 - c.xi_local) * gauss
        return scores.view(b, -1), self.grid.lay(residual.view(b, -1, *residual.shape[1:]), c.overlaps)

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Combines the terms of the global model with the highest patch score of the local one: float32 (N,).

        With roi uint8 (N, S, S), only patches that are at least half inside count, and the global reconstruction error
        is scaled by the mean of its map inside over its mean. The global classifier's term ignores roi.
        """
        rec, gauss = prediction.extras["rec"], prediction.extras["gauss"]
        if roi is not None:
            residual = prediction.extras["residual"]
            inside = counted(residual, roi)
            mean_inside = (residual * inside).sum((1, 2)) / inside.sum((1, 2))
            rec = rec * mean_inside / np.maximum(residual.mean((1, 2)), 1e-12)
        score = self.config.xi * rec + (1 - self.config.xi) * gauss
        if "patches" in prediction.extras:
            patches = prediction.extras["patches"]
            if roi is not None:
                cover = self.grid.cut(torch.from_numpy(np.ascontiguousarray(roi)).float()[:, None]).mean((2, 3, 4))
                inside = cover.numpy() >= 0.5
                inside = inside | ~inside.any(1, keepdims=True)
                patches = np.where(inside, patches, -np.inf)
            score = self.config.local_share * patches.max(1) + (1 - self.config.local_share) * score
        return score.astype(np.float32)

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        igd = cls._build(config, size, within["whole.encoder"], within.get("local.encoder"), "cpu")
        return igd.fill(tensors)
