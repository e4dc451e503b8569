"""Training of the lesion head, with a frozen, a fine-tuned or a jointly trained encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.detectors.base import PARTIAL, FitContext
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.synth import Pairs, jitter_view
from core.engine.losses.pmsacl import centring_loss, pmsacl_loss
from core.engine.tensors import autocast, to_batch
from core.engine.training import loop
from core.engine.training.base import STEP, Average, Training, generator
from core.engine.training.schedule import set_rate, warm_cosine


def lesion_loss(logits: Tensor, masks: Tensor, config: LesionHeadConfig) -> Tensor:
    """Computes binary cross-entropy plus `w_dice` times (1 - soft Dice).

    Args:
        logits: Lesion logits, `float32 (B, h, w)`.
        masks: Lesion masks, `bool (B, S, S)`. The target of a cell is the fraction of its area inside the mask.
        config: Options of the lesion head.
    """
    target = F.interpolate(masks[:, None].float(), logits.shape[-2:], mode="area")[:, 0]
    p = logits.sigmoid()
    overlap = 2 * (p * target).sum((1, 2)) + 1
    dice = 1 - overlap / (p.sum((1, 2)) + target.sum((1, 2)) + 1)
    return F.binary_cross_entropy_with_logits(logits, target) + config.w_dice * dice.mean()


class LesionTraining(Training):
    """State of a training run: network, averaged network and optimiser."""

    title = "the lesion head"

    def __init__(
        self,
        net: LesionNet,
        images: np.ndarray,
        roi: np.ndarray | None,
        config: LesionHeadConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        """Prepares a training run.

        Args:
            net: Network, which is trained in place.
            images: Normal images, `uint8 (N, S, S, 3)`.
            roi: Regions of interest, `uint8 (N, S, S)`, 1 inside, or None.
            config: Options of the lesion head.
            device: Device on which the network is trained.
        """
        self.images, self.roi, self.config, self.device = images, roi, config, torch.device(device)
        self.steps, self.remedy = config.steps, f"a learning rate below {config.lr:g}"
        self.net = net.to(self.device).to(memory_format=torch.channels_last)
        if config.mode == "frozen":
            self.net.encoder.requires_grad_(False)
        self.average = Average(self.net, config.ema)
        self.networks = {"net": self.net, "average": self.average}
        self.weights = [p for p in self.net.parameters() if p.requires_grad]
        self.optimiser = torch.optim.AdamW(self.weights, lr=config.lr, weight_decay=config.weight_decay)
        self.optimisers = {"optimiser": self.optimiser}
        self.pairs = Pairs(config.families, config.k)

    def losses(self, x: Tensor, roi: Tensor | None, draws: torch.Generator) -> dict[str, Tensor]:
        """Pastes lesions into normal images x, `(B, 3, S, S)`, and returns weighted losses. `roi` must be on a CPU."""
        c = self.config
        ease = max(0.0, 1 - self.step / max(1.0, c.ramp * c.steps)) if c.ramp else 0.0
        pair = self.pairs(x, roi, draws, ease=ease)
        views = 2 if c.mode == "joint" else 1
        images, masks = [], []
        for _ in range(views):
            view, mask = jitter_view(pair.images, pair.masks, draws, blur=c.blur, grain=c.grain)
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
            # The two views of an image with pasted lesions are each other's positive (Eq. 5).
            partners = torch.arange(len(counts), device=self.device).roll(len(counts) // 2)
            terms["l_ctr"] = c.w_ctr * centring_loss(features, counts, self.net.centres)
            terms["l_con"] = c.w_con * pmsacl_loss(features, counts, partners, self.net.centres, c.tau, c.alpha)
        return terms

    def advance(self) -> dict[str, Any]:
        """Takes one optimiser step on a random batch. Returns the learning rate, the loss and its terms by name."""
        c, draws = self.config, generator(self.config.seed, STEP, self.step)
        rate = c.lr * warm_cosine(self.step, self.steps, c.warmup)
        rows = torch.randint(0, len(self.images), (min(c.batch, len(self.images)),), generator=draws).numpy()
        x = to_batch(self.images[rows], self.device)
        roi = None if self.roi is None else torch.from_numpy(np.ascontiguousarray(self.roi[rows]))
        self.net.train()
        if c.mode == "frozen":
            self.net.encoder.eval()
        terms = self.losses(x, roi, draws)
        loss = torch.stack(list(terms.values())).sum()
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        set_rate(self.optimiser, rate)
        torch.nn.utils.clip_grad_norm_(self.weights, 5.0)
        self.optimiser.step()
        self.step += 1
        self.average.update_parameters(self.net)
        values = torch.stack([loss, *terms.values()]).tolist()  # a single transfer per step
        return {"lr": rate, **dict(zip(("loss", *terms), values, strict=True))}


def train(
    net: LesionNet, images: np.ndarray, config: LesionHeadConfig, context: FitContext = FitContext(), source: str = ""
) -> LesionNet:
    """Trains the network on normal images and returns the averaged network, in eval mode.

    Args:
        net: Network, which is trained in place.
        images: Normal images, `uint8 (N, S, S, 3)`.
        config: Options of the lesion head.
        context: Inputs of the fit. Its folder holds the state of the training run, which a later call with the same
            configuration and source resumes.
        source: Fingerprint of encoder and images.

    Raises:
        Stopped: If `context.should_stop` returns True.
        Diverged: If the loss is not finite.
    """
    training = LesionTraining(net, images, context.roi, config, context.device)
    folder = None if context.folder is None else Path(context.folder) / PARTIAL
    identity = {"config": config.to_dict(), "fitted_on": source}
    checkpoints = loop.run_resumable(training, folder, identity, context.report, context.should_stop)
    if checkpoints is not None:
        checkpoints.save(training)
    return cast(LesionNet, training.average.module).eval()
