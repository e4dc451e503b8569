"""Training the lesion head: one loop for a frozen, a fine-tuned and a jointly trained encoder.

Every step draws from its own generator, seeded by (seed, step), so a training stopped and resumed is the same training.
"""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.detectors.base import FitContext
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.progress import load_progress, save_progress
from core.engine.detectors.lesion_head.synth import Pairs, jitter_view
from core.engine.losses.centring import centring_loss
from core.engine.losses.contrastive import pmsacl_loss
from core.engine.progress import Stopped
from core.engine.tensors import autocast, to_batch

CHECKPOINT_EVERY = 200  # steps


def lesion_loss(logits: Tensor, masks: Tensor, config: LesionHeadConfig) -> Tensor:
    """Binary cross-entropy plus `w_dice` times one minus soft Dice.

    logits float32 (B, h, w); masks bool (B, S, S), averaged over each cell, so a rim cell asks for a half.
    """
    target = F.interpolate(masks[:, None].float(), logits.shape[-2:], mode="area")[:, 0]
    p = logits.sigmoid()
    overlap = 2 * (p * target).sum((1, 2)) + 1
    dice = 1 - overlap / (p.sum((1, 2)) + target.sum((1, 2)) + 1)
    return F.binary_cross_entropy_with_logits(logits, target) + config.w_dice * dice.mean()


def step_generator(seed: int, step: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1_000_003 + step)


class Trainer:
    """Network, averaged network, optimiser and schedule of one training."""

    def __init__(self, net: LesionNet, config: LesionHeadConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.net = net.to(device).to(memory_format=torch.channels_last)
        if config.mode == "frozen":
            for p in self.net.encoder.parameters():
                p.requires_grad_(False)
        self.average = copy.deepcopy(self.net)
        weights = [p for p in self.net.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(weights, lr=config.lr, weight_decay=config.weight_decay)
        self.pairs = Pairs(config.families, config.k)
        self.step = 0

    @property
    def rate(self) -> float:
        """One cycle: up over `warmup` of the steps, down along a cosine; a function of the step alone."""
        at, rise = self.step / self.config.steps, self.config.warmup
        phase = at / rise - 1 if at < rise else (at - rise) / (1 - rise)
        return self.config.lr * max(0.02, (1 + math.cos(math.pi * phase)) / 2)

    def losses(self, x: Tensor, roi: Tensor | None, generator: torch.Generator) -> dict[str, Tensor]:
        """One step's terms on normal images x (B, 3, S, S)."""
        c = self.config
        ease = max(0.0, 1 - self.step / max(1.0, c.ramp * c.steps)) if c.ramp else 0.0
        pair = self.pairs(x, roi, generator, ease=ease)
        views = 2 if c.mode == "joint" else 1
        images, masks = [], []
        for _ in range(views):
            view, mask, _ = jitter_view(pair.images, pair.masks, None, generator, blur=c.blur, grain=c.grain)
            images.append(view)
            masks.append(mask)
        counts = pair.counts.repeat(views)
        batch = torch.cat(images).contiguous(memory_format=torch.channels_last)
        with autocast(self.device, c.autocast):
            logits, classes, features = self.net(batch)
        logits, classes, features = logits.float(), classes.float(), features.float()
        terms = {
            "l_lesion": c.w_lesion * lesion_loss(logits, torch.cat(masks), c),
            "l_aug": c.w_class * F.cross_entropy(classes, counts),
        }
        if c.mode == "joint":
            # The two views of one mixed image are each other's positive (Eq. sample_constrastive_loss).
            partners = torch.arange(len(counts), device=self.device).roll(len(pair.counts))
            terms["l_ctr"] = c.w_ctr * centring_loss(features, counts, self.net.centres)
            terms["l_con"] = c.w_con * pmsacl_loss(features, counts, partners, self.net.centres, c.tau, c.alpha)
        return terms

    def advance(self, images: np.ndarray, roi: np.ndarray | None) -> dict[str, float]:
        """One optimiser step on a batch drawn from uint8 images (N, S, S, 3)."""
        c, generator = self.config, step_generator(self.config.seed, self.step)
        rows = torch.randint(0, len(images), (min(c.batch, max(2, len(images))),), generator=generator).numpy()
        x = to_batch(images[rows], self.device)
        inside = None if roi is None else torch.from_numpy(np.ascontiguousarray(roi[rows])).to(self.device)
        self.net.train()
        if c.mode == "frozen":
            self.net.encoder.eval()
        terms = self.losses(x, inside, generator)
        loss = sum(terms.values())
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.param_groups[0]["lr"] = self.rate
        torch.nn.utils.clip_grad_norm_([p for p in self.net.parameters() if p.requires_grad], 5.0)
        self.optimiser.step()
        self.step += 1
        self._average()
        return {"loss": float(loss.detach()), **{k: float(v.detach()) for k, v in terms.items()}}

    @torch.no_grad()
    def _average(self) -> None:
        # Early on a long memory would hold the random start: it grows with the steps, up to config.ema.
        decay = min(self.config.ema, 1 - 1 / (self.step + 1))
        for mean, now in zip(self.average.state_dict().values(), self.net.state_dict().values(), strict=True):
            if mean.dtype.is_floating_point:
                mean.lerp_(now.to(mean.dtype), 1 - decay)
            else:
                mean.copy_(now)


def train(
    net: LesionNet,
    images: np.ndarray,
    config: LesionHeadConfig,
    context: FitContext = FitContext(),
) -> LesionNet:
    """Train on normal images uint8 (N, S, S, 3) and return the averaged network, in eval mode.

    Resumes from the context's folder when it holds a partial training. Raises Stopped, after saving, if asked to stop.
    """
    folder, report, should_stop = context.folder, context.report, context.should_stop
    trainer = Trainer(net, config, torch.device(context.device))
    if folder is not None:
        load_progress(trainer, folder)
    while trainer.step < config.steps:
        if should_stop is not None and should_stop():
            if folder is not None:
                save_progress(trainer, folder)
            raise Stopped(f"the lesion head stopped at step {trainer.step} of {config.steps}")
        values = trainer.advance(images, context.roi)
        if report is not None:
            report({"step": trainer.step, "steps": config.steps, "lr": trainer.rate, **values})
        if folder is not None and trainer.step % CHECKPOINT_EVERY == 0:
            save_progress(trainer, folder)
    return trainer.average.eval()
