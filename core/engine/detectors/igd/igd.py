"""IGD: reconstruction and a Gaussian anomaly classifier, for whole images and for patches (PMSACL Eq. 10).

A global model scores the image by 0.1 rec + 0.9 gauss, and a local model scores its 32 x 32 patches by 0.9 rec + 0.1
gauss, where rec is the reconstruction error and gauss the classifier's h_psi. The score is the mean of the global and
the highest patch score. The heat map is the mean of the global and the local residuals (averaged where patches
overlap). Below 96 pixels, only the global model is used, as in the paper at 64. Nothing is chosen on test images.

Eq. 11 mixes global and local reconstruction by nu: `local_share` is 1 - nu. Eqs. 10 and 12 contradict each other on the
sign of h_psi, and the paper gives no value for kappa in (0, 1]; see the detectors' `reference.py`. Where the released
code differs, the preset `published` follows it. It mirrors images (`flip`), so that features of a frozen encoder cannot
be cached. It has wider generators (`width`) and two images per step of the local model (`local_batch`). It sums
overlapping patches (`overlaps`) and does not rescale features (`rescale`). The residual blocks and the LayerNorm of the
released critic are not implemented.
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
from core.engine.calibration.heatmap import blur, mean_inside
from core.engine.detectors.base import PARTIAL, FitContext, ImageDetector
from core.engine.detectors.igd.items import Grid, Items
from core.engine.detectors.igd.model import PRESETS, IGDConfig, IGDModel
from core.engine.detectors.igd.train import steps_of, train
from core.engine.progress import part_of
from core.engine.registry import DETECTORS

STRIDE = 2  # heat maps are stored at half the image's resolution


@DETECTORS.register("igd", title="IGD", section="Anomaly Detection and Segmentation")
class IGD(ImageDetector):
    """Detector that combines the reconstruction errors of a generator with a Gaussian classifier of codes."""

    name = "igd"
    Config = IGDConfig
    presets = PRESETS

    def __init__(self, config: IGDConfig, size: int, whole: IGDModel, local: IGDModel | None) -> None:
        super().__init__()
        self.config, self.size, self.whole, self.local = config, size, whole.eval(), local.eval() if local else None
        self.grid = Grid(max(size, config.patch), config.patch, config.stride)  # patches of the local model

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
        """Fits IGD on 2 or more images, `uint8 (N, S, S, 3)`. The encoder is copied and not changed.

        If the context has a folder, the training run is saved in its subfolder `partial`. A later call with the same
        arguments resumes the run and gives the result of an uninterrupted fit (exactly on a CPU).
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
        """Remarks for the log of the fit."""
        if self.local is None or self.config.local_encoder:
            return []
        return ["The local model took the global encoder's weights, because no local_encoder was given."]

    def read(self, x: Tensor) -> dict[str, Tensor]:
        """Computes the heat maps and the terms of the score by name for images x, `(B, 3, S, S)`.

        The results are `maps`, `(B, S/2, S/2)`; from the global model, `rec` and `gauss`, `(B,)`, and `residual`, `(B,
        S/2, S/2)`; and from the local model, if it is used, `patches`, `(B, P)`, the score of each patch.
        """
        c = self.config
        rec, gauss, residual = self.whole.judge(x)
        maps, terms = residual, {"rec": rec, "gauss": gauss, "residual": F.avg_pool2d(residual[:, None], STRIDE)[:, 0]}
        if self.local is not None:
            # A few images at a time, because each has 225 patches at 256 pixels. An exported graph has no loops.
            pieces = [x] if torch.compiler.is_exporting() else x.split(4)
            scores, laid = zip(*(self._judge_patches(self.local, images) for images in pieces), strict=True)
            terms["patches"] = torch.cat(scores)
            maps = c.local_share * torch.cat(laid) + (1 - c.local_share) * residual
        maps = blur(maps, c.sigma * self.size / 256)
        return {"maps": F.avg_pool2d(maps[:, None], STRIDE)[:, 0], **terms}

    def _judge_patches(self, local: IGDModel, x: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the scores of the patches, `(B, P)`, and the local heat maps, `(B, S, S)`, of images x."""
        c, count = self.config, len(self.grid)
        rec, gauss, residual = local.judge(self.grid.cut(x).flatten(0, 1))
        scores = c.xi_local * rec + (1 - c.xi_local) * gauss
        return scores.view(-1, count), self.grid.lay(residual.view(-1, count, *residual.shape[1:]), c.overlaps)

    def score(self, values: dict[str, Tensor], roi: Tensor | None) -> Tensor:
        """Computes scores, `(B,)`, from the terms of the global model and the highest patch score of the local model.

        With regions of interest `roi`, `(B, S, S)`, only patches that are at least half inside count. The global
        reconstruction error is then multiplied by the mean residual in the region, divided by the mean residual in the
        image. The term of the global classifier does not depend on `roi`.
        """
        c, rec = self.config, values["rec"]
        if roi is not None:
            residual = values["residual"]
            rec = rec * mean_inside(residual, roi) / residual.mean((1, 2)).clamp_min(1e-12)
        score = c.xi * rec + (1 - c.xi) * values["gauss"]
        if "patches" not in values:
            return score
        patches = values["patches"]
        if roi is not None:
            inside = self.grid.cut(roi.float()[:, None]).mean((2, 3, 4)) >= 0.5
            patches = torch.where(inside | ~inside.any(1, keepdim=True), patches, -torch.inf)
        return c.local_share * patches.amax(1) + (1 - c.local_share) * score

    @classmethod
    def restored(
        cls, config: Any, size: int, tensors: dict[str, Tensor], within: dict[str, Any], facts: dict[str, Any]
    ) -> Self:
        igd = cls._build(config, size, within["whole.encoder"], within.get("local.encoder"), "cpu")
        return igd.fill(tensors)
