"""Features built back from a code of them (after Deng and Li 2022, "Anomaly Detection via Reverse Distillation").

The encoder is left as it is. Its maps are squeezed into a code on the coarsest grid, and a small decoder builds the
finer maps back from it. It learns that on normal images alone; where it fails, an image looks wrong. As there, the
loss and the map are one minus the cosine of what was seen and what was built (their Eq. 1 and 2), added over maps.

Unlike there, made for two cores: the decoder is a narrow one of its own and not the encoder reversed, maps are
standardised by channel, and the code is a plain mean of each map on the coarsest grid, joined.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones import remembered
from core.engine.backbones.base import STRIDES
from core.engine.backbones.encoder import Encoder
from core.engine.backbones.inference import inference_copy
from core.engine.config import BadConfig
from core.engine.detectors._learnt import Learnt, LearntConfig, NetTraining, descend
from core.engine.detectors.base import FitContext, Prediction
from core.engine.detectors.heatmap import counted
from core.engine.detectors.map_detector import maps_of
from core.engine.registry import DETECTORS
from core.engine.training.schedule import set_rate, warm_cosine

CACHE = 1 << 30  # bytes of maps kept while learning; an image beyond them is passed through the encoder again
LEARNT_FROM = 512  # images that the scale of a channel is taken from
TOP = 0.05  # share of the cells whose mean is the image's score


@dataclass(frozen=True)
class ReconstructionConfig(LearntConfig):
    """strides: of the maps built back. width: channels of the decoder. weight_decay: of its weights.

    The code is made of the maps at stride 8 and coarser, each `width` channels. latent has no part in it.
    """

    strides: tuple[int, ...] = (4, 8, 16)
    steps: int = 3000
    batch: int = 16
    lr: float = 2e-3
    weight_decay: float = 1e-4
    width: int = 64
    sigma: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.strides or [s for s in STRIDES[:-1] if s in self.strides] != list(self.strides):
            raise BadConfig(f"strides are some of {', '.join(map(str, STRIDES[:-1]))}, in order; not {self.strides}")
        if self.weight_decay < 0:
            raise BadConfig("weight_decay is 0 or more")


class ReconstructionNet(nn.Module):
    """The encoder, frozen, and what builds its maps back from a code of them."""

    SEEN = (8, 16, 32)  # strides of the maps that the code is made of

    def __init__(self, encoder: Encoder, config: ReconstructionConfig) -> None:
        super().__init__()
        self.encoder, self.strides, width = encoder.requires_grad_(False), config.strides, config.width
        self.wanted = {*self.strides, *self.SEEN}
        self.squeeze = nn.ModuleDict({str(s): _layer(encoder.widths[s], width, 1) for s in self.SEEN})
        self.code = _layer(len(self.SEEN) * width, width, 1)
        self.rise = nn.ModuleDict(
            {str(s): nn.Sequential(_layer(width, 2 * width, 3), _layer(2 * width, width, 3)) for s in self.strides}
        )
        self.build = nn.ModuleDict({str(s): nn.Conv2d(width, encoder.widths[s], 1) for s in self.strides})
        for s in self.wanted:  # of normal images, by channel
            self.register_buffer(f"mean{s}", torch.zeros(encoder.widths[s], 1, 1))
            self.register_buffer(f"scale{s}", torch.zeros(encoder.widths[s], 1, 1))

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self.encoder.eval()
        return self

    @torch.no_grad()
    def take_scale(self, batches: Iterable[dict[int, Tensor]]) -> None:
        """Mean and deviation of each channel, over all places of the maps of normal images."""
        count, total, square = dict.fromkeys(self.wanted, 0), dict[int, Any](), dict[int, Any]()
        for maps in batches:
            for s in self.wanted:
                m = maps[s].double()
                count[s] += m[:, 0].numel()
                total[s] = total.get(s, 0) + m.sum((0, 2, 3))
                square[s] = square.get(s, 0) + m.square().sum((0, 2, 3))
        for s in self.wanted:
            mean = total[s] / count[s]
            deviation = (square[s] / count[s] - mean.square()).clamp_min(0).sqrt() + 1e-5
            self.get_buffer(f"mean{s}").copy_(mean[:, None, None])
            self.get_buffer(f"scale{s}").copy_(deviation[:, None, None])

    def standard(self, maps: dict[int, Tensor]) -> dict[int, Tensor]:
        """Maps (B, C, h, w) by stride, each channel with mean 0 and deviation 1 over normal images."""
        return {s: (maps[s].float() - getattr(self, f"mean{s}")) / getattr(self, f"scale{s}") for s in self.wanted}

    def forward(self, seen: dict[int, Tensor]) -> dict[int, Tensor]:
        """Standardised maps -> those of `strides`, built back from the code."""
        height, width = seen[STRIDES[-1]].shape[-2:]
        parts = [F.adaptive_avg_pool2d(self.squeeze[str(s)](seen[s]), (height, width)) for s in self.SEEN]
        x, built = self.code(torch.cat(parts, 1)), {}
        for s in reversed(self.strides):
            x = self.rise[str(s)](F.interpolate(x, seen[s].shape[-2:], mode="bilinear", align_corners=False))
            built[s] = self.build[str(s)](x)
        return built


def _layer(inputs: int, outputs: int, side: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, side, padding=side // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def unlike(seen: dict[int, Tensor], built: dict[int, Tensor]) -> dict[int, Tensor]:
    """Maps (B, C, h, w) by stride -> (B, h, w): one minus the cosine between the two at each place (their Eq. 1)."""
    return {s: 1 - F.cosine_similarity(built[s], seen[s], dim=1) for s in built}


class ReconstructionTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        learnt = [p for p in self.net.parameters() if p.requires_grad]
        return {"optimiser": torch.optim.AdamW(learnt, self.config.lr, weight_decay=self.config.weight_decay)}

    @functools.cached_property
    def reader(self) -> Encoder:
        """The encoder as it is read: quicker, and never trained."""
        return inference_copy(self.net.encoder)

    def prepare(self) -> None:
        if self.step == 0:
            self.net.take_scale(
                self.inputs(np.asarray(self.images[start : start + self.config.batch]))
                for start in range(0, min(LEARNT_FROM, len(self.images)), self.config.batch)
            )

    @torch.no_grad()
    def inputs(self, images: np.ndarray) -> Any:
        """uint8 (B, S, S, 3) -> the encoder's maps by stride, those of few images read once."""
        return maps_of(self.reader, images, self.net.wanted)

    def learn(self, x: Any, draws: torch.Generator) -> dict[str, Tensor]:
        """One step on maps, of which each image's are mirrored half the time; the loss is their Eq. 2."""
        mirrored = torch.rand(len(x[STRIDES[-1]]), 1, 1, 1, generator=draws).to(self.device) < 0.5
        seen = self.net.standard({s: torch.where(mirrored, m.flip(3), m) for s, m in x.items()})
        loss = torch.stack([d.mean() for d in unlike(seen, self.net(seen)).values()]).sum()
        set_rate(self.optimisers["optimiser"], self.config.lr * warm_cosine(self.step, self.steps, 0.3))
        descend(self.optimisers["optimiser"], loss)
        return {"loss": loss}


@DETECTORS.register("reconstruction", title="Feature reconstruction", section="after Deng and Li 2022")
class Reconstruction(Learnt):
    """Score: the mean of the largest twentieth of the coarsest map built back, of the region of interest if given.

    `paper` takes about as many steps as they do (200 epochs of some 240 images); nothing else of it is theirs.
    """

    name = "reconstruction"
    Config = ReconstructionConfig
    Training = ReconstructionTraining
    takes_encoder = True
    presets = {"paper": ReconstructionConfig(), "quick": ReconstructionConfig(steps=400)}

    @classmethod
    def build(cls, encoder: Encoder, config: ReconstructionConfig, size: int) -> nn.Module:
        return ReconstructionNet(encoder, config)

    @classmethod
    def fit(
        cls,
        encoder: Encoder,
        images: np.ndarray,
        config: ReconstructionConfig,
        context: FitContext = FitContext(),
    ) -> Self:
        """As `Learnt.fit`. The maps of the images are kept as far as CACHE goes."""
        with remembered.remembering(CACHE):
            return super().fit(encoder, images, config, context)

    @functools.cached_property
    def reader(self) -> Encoder:
        """The encoder as it is read in scoring."""
        return inference_copy(self.net.encoder)

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        seen = self.net.standard(self.reader.maps(x, self.net.wanted))
        found = unlike(seen, self.net(seen))
        grid = found[self.config.strides[0]].shape[-2:]
        maps = [F.interpolate(d[:, None], grid, mode="bilinear", align_corners=False)[:, 0] for d in found.values()]
        return {"maps": torch.stack(maps).sum(0), "coarse": found[self.config.strides[-1]]}

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """(N,) float32, as the class says."""
        coarse = prediction.extras["coarse"]
        inside = counted(coarse, roi)
        return np.array([_top(c[i]) for c, i in zip(coarse, inside, strict=True)], np.float32)


def _top(values: np.ndarray) -> float:
    """Mean of the largest TOP of values (n,), one of them at least."""
    count = max(1, round(TOP * len(values)))
    return float(np.partition(values, len(values) - count)[-count:].mean())
