"""What a pre-training learns, as one module: encoder, heads and the loss of a step. `PMSACL` is for any loop."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Sampler

from core.engine.backbones.encoder import Encoder, build_encoder, save_encoder
from core.engine.objectives.base import Outcome, Views
from core.engine.objectives.config import EQUIDISTANT, RANDOM, PretrainConfig
from core.engine.objectives.pmsacl import PMSACL as Objective
from core.engine.objectives.presets import PRETRAIN_DEFAULT, PRETRAIN_PRESETS
from core.engine.registry import OBJECTIVES
from core.engine.tensors import autocast, channels_first, gains_by_bf16, in_unit
from core.engine.training.base import CENTRES, ORDER, STEP, VALIDATION, generator
from core.engine.training.centres import equidistant_centres, estimate_centres, random_centres
from core.engine.training.schedule import build_optimiser, parameter_groups, still_layers, train_mode

Batches = Iterable[tuple[Tensor, Tensor | None]]


class Model(nn.Module):
    """An encoder and the objective that it is trained by.

    Args:
        config: Options of the pre-training.
        encoder: The encoder that is trained; None builds the one that `config` names.
    """

    def __init__(self, config: PretrainConfig, encoder: Encoder | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder = build_encoder(config.encoder) if encoder is None else encoder
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.encoder.seed)
            self.objective = OBJECTIVES.get(config.objective)(config, self.encoder)
        self.format = torch.channels_last if config.channels_last else torch.contiguous_format
        self.encoder.to(memory_format=self.format)
        self.still = still_layers(self.encoder, config.frozen, config.frozen_norm)
        self.groups = self._groups()
        self.backbone: Any = self.encoder.backbone  # or that function, compiled
        self.train()

    def _groups(self) -> list[Any]:
        """Parameters that learn, or groups of them where parts of the encoder are frozen or learn at another rate."""
        c = self.config
        if not c.frozen and c.backbone_rate == c.layer_decay == 1:
            return [*self.encoder.parameters(), *self.objective.parameters()]
        groups = parameter_groups(self.encoder, c.frozen, c.backbone_rate, c.layer_decay)
        own = list(self.objective.parameters())
        return [*groups, {"params": own, "scale": 1.0}] if own else groups

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.encoder.mean.device

    def optimiser(self) -> torch.optim.Optimizer:
        """Builds the optimiser of the configuration over all that learns."""
        return build_optimiser(self.config, self.groups)

    def train(self, mode: bool = True) -> Model:
        """Sets training mode, in which frozen layers stay in evaluation mode."""
        super().train(mode)
        if mode:
            train_mode(self.encoder, self.still)
        return self

    def features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Computes backbone features h (M, F) and projections z (M, D) of images (M, 3, S, S), in float32."""
        with autocast(self.device, self.config.autocast and gains_by_bf16(self.device, self.encoder)):
            h = self.backbone(images.contiguous(memory_format=self.format))
            z = self.encoder.project(h)
        return h.float(), z.float()

    def class_centres(self, batches: Batches, step: int = 0) -> Tensor:
        """Returns the centres c_n, (k+1, D), as the configuration wants them before a step.

        Estimated ones (Eq. 2) come from images (B, 3, S, S) in [0, 1] with their regions of interest, or None. The
        encoder is taken as it is, with the statistics of each batch (as in training), which leave no trace in it.
        """
        c, count, draws = self.config, self.objective.classes, generator(self.config.seed, CENTRES, step)
        if c.centres in (RANDOM, EQUIDISTANT):
            make = random_centres if c.centres == RANDOM else equidistant_centres
            return make(count, c.encoder.dim, c.centre_scale, draws).to(self.device)
        encoder = train_mode(copy.deepcopy(self.encoder), self.still)

        def features(images: Tensor) -> Tensor:
            with autocast(self.device, self.config.autocast and gains_by_bf16(self.device, self.encoder)):
                return encoder(images.contiguous(memory_format=self.format)).float()

        views = (self.objective.samples(x, draws, inside, c.centre_weak) for x, inside in batches)
        return estimate_centres(features, views, count)


class Order(Sampler[int]):
    """The order in which a pre-training sees its images: that of an epoch follows from the seed and the epoch alone."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.epoch = count, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, from 0, whose order is given next."""
        self.epoch = epoch

    def of(self, epoch: int) -> Tensor:
        """Returns the order of an epoch, (N,)."""
        return torch.randperm(self.count, generator=generator(self.seed, ORDER, epoch))

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(self.of(self.epoch).tolist())


class PMSACL(Model):
    """PMSACL for a training loop of one's own: it holds encoder, heads and centres, and all terms of the loss.

    `estimate_centres` comes once before the first step, then `loss` gives what each step minimises. Draws follow from
    `seed` and the number of steps alone, so that a training repeats; with the images in the studio's order
    (`order`) its numbers are those of the studio's own pre-training.

    Args:
        backbone: `efficientnet-lite0`, `resnet18`, any name of timm's, or an encoder that goes on from where it is.
        k: The strong classes: images are told apart by the k + 1 classes A_0 to A_k.
        preset: `sphere`, `quick`, `imagenet`, `paper`, ...: where the other settings come from.
        seed: Seed of every draw.
        settings: Changes to the preset, as `lr=0.01` or `**{"encoder.init": "random", "medmix.size": (0.1, 0.3)}`.

    Raises:
        ValueError: If an argument is not valid; the message says what it may be.

    Example:
        >>> import torch
        >>> from pmsacl_studio import PMSACL
        >>> images = torch.rand(8, 3, 32, 32)
        >>> model = PMSACL("resnet18", k=2, preset="quick")
        >>> model.estimate_centres([images])
        >>> optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
        >>> for step in range(2):
        ...     loss = model.loss(images)
        ...     optimiser.zero_grad()
        ...     loss.backward()
        ...     optimiser.step()
        >>> sorted(model.terms), 0 <= model.accuracy <= 1
        (['l_aug', 'l_con', 'l_ctr'], True)
    """

    centres: Tensor

    def __init__(
        self,
        backbone: str | Encoder = "efficientnet-lite0",
        k: int = 3,
        preset: str = PRETRAIN_DEFAULT,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        if preset not in PRETRAIN_PRESETS:
            raise ValueError(f"there is no preset {preset!r}; there are: {', '.join(PRETRAIN_PRESETS)}")
        if not isinstance(backbone, (str, Encoder)):
            raise ValueError(f"backbone is the name of a network, or an encoder, not {type(backbone).__name__}")
        given = backbone if isinstance(backbone, Encoder) else None
        named = {"encoder": given.config.to_dict()} if given else {"encoder.arch": backbone}
        config = PRETRAIN_PRESETS[preset].replace(**{"k": k, "seed": seed, **named, **settings})
        super().__init__(config, given)
        if not isinstance(self.objective, Objective):
            raise ValueError(f"objective is pmsacl or pmsacl-local, not {config.objective}: take another preset")
        self.register_buffer("centres", torch.full((config.k + 1, config.encoder.dim), torch.nan))
        self.step = 0  # steps done
        self.outcome: tuple[Outcome, Tensor] | None = None  # what the last call of `loss` made
        self.centred = False

    def get_extra_state(self) -> dict[str, int]:
        """Returns what `state_dict` holds beside tensors."""
        return {"step": self.step}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Puts back what `get_extra_state` gave."""
        self.step = state["step"]

    def order(self, images: int) -> Order:
        """Returns a sampler for a DataLoader: the order in which the studio's own pre-training sees so many images.

        `set_epoch` moves it on. With `drop_last=True`, as the studio has it.
        """
        return Order(images, self.config.seed)

    def estimate_centres(self, loader: Iterable[Any]) -> None:
        """Estimates the centre of each class, the mean of its features, from one pass over normal images (Eq. 2).

        Args:
            loader: Batches of images as `loss` takes them; a batch may be a tuple whose first part they are.

        Raises:
            ValueError: If there is no batch, or a batch is not what `loss` takes.
        """
        with torch.no_grad():
            self.centres.copy_(self.class_centres((self._batch(batch), None) for batch in loader))
        self.centred = True

    def loss(self, images: Any, roi: Any = None) -> Tensor:
        """Computes the loss of a step (Eq. 1) of normal images, to be minimised; a scalar in float32.

        In training mode each call is a step with draws of its own; in evaluation mode all calls have the same draws.
        Afterwards `terms` and `accuracy` say what it is made of.

        Args:
            images: (B, 3, S, S) or (B, S, S, 3), uint8 or floats from 0 to 1.
            roi: (B, S, S), 1 where lesions may lie.

        Raises:
            ValueError: If the images are not what it takes.
            RuntimeError: If there are no centres yet.
        """
        if not self.centred and not bool(self.centres.isfinite().all()):
            raise RuntimeError("there are no centres yet: call estimate_centres(loader) once, before the first step")
        self.centred = True
        x, config = self._batch(images), self.config
        purpose, step = (STEP, self.step) if self.training else (VALIDATION, 0)
        region = None if roi is None else (torch.as_tensor(roi) != 0).float()
        if region is not None and region.shape != (len(x), *x.shape[2:]):
            raise ValueError(f"roi is {(len(x), *x.shape[2:])}, as the images are, not {tuple(region.shape)}")
        with torch.no_grad():
            views: Views = self.objective.views(x, generator(config.seed, purpose, step), region)
        outcome = self.objective.loss(*self.features(views.images), views, self.centres)
        self.outcome = outcome, views.classed[1]
        self.step += self.training
        return outcome.loss

    def forward(self, images: Any) -> Tensor:
        """Projects images, as `loss` takes them, to (B, D): what the losses compare."""
        return self.features(self._batch(images, least=1))[1]

    @property
    def terms(self) -> dict[str, float]:
        """The terms of the last loss, before they are weighted: l_ctr, l_con, l_aug, and l_pos where it is learnt."""
        return {name: float(term) for name, term in self._last()[0].terms.items()}

    @property
    def accuracy(self) -> float:
        """The share of the last step's images whose class the class head told."""
        outcome, classes = self._last()
        assert outcome.logits is not None
        return float((outcome.logits.argmax(1) == classes).float().mean())

    def save(self, folder: str | Path) -> None:
        """Writes encoder, class head and centres into a folder, which is an `init` of the studio's encoders."""
        centres = self.centres if self.centred else None
        notes = {"objective": self.config.objective, "step": self.step}
        save_encoder(self.encoder, Path(folder), notes, centres, class_head=self.objective.class_head())

    def _last(self) -> tuple[Outcome, Tensor]:
        if self.outcome is None:
            raise RuntimeError("there has been no step yet: call loss(images) first")
        return self.outcome

    def _batch(self, batch: Any, least: int = 2) -> Tensor:
        """Checks a batch and returns its images as float32 (B, 3, S, S) in [0, 1] on the model's device."""
        images = batch[0] if isinstance(batch, (tuple, list)) and len(batch) else batch
        pixels, _ = channels_first(images)
        if pixels.ndim != 4 or pixels.shape[1] != 3 or pixels.shape[2] != pixels.shape[3] or len(pixels) < least:
            several = f", of at least {least} images" if least > 1 else ""
            raise ValueError(f"a batch is (B, 3, S, S), square and in colour{several}, not {tuple(images.shape)}")
        return in_unit(pixels.to(self.device))
