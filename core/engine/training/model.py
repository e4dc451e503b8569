"""The model of a pre-training run as one module: encoder, heads, class centres and the loss of each step.

The centres c_n of the classes A_n are computed by Eq. 2 or another option of Sec. Centering Strategies.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
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
from core.engine.tensors import autocast, channels_first, demand_room, gains_by_bf16, in_unit
from core.engine.training.base import CENTRES, ORDER, STEP, VALIDATION, generator
from core.engine.training.schedule import build_optimiser, parameter_groups, still_layers, train_mode

Batches = Iterable[tuple[Tensor, Tensor | None]]


class Model(nn.Module):
    """An encoder and the objective that trains it.

    Args:
        config: Options of the pre-training run.
        encoder: Encoder to train. Defaults to a new one, built from `config.encoder`.
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
        self.backbone: Any = self.encoder.backbone  # replaced by a compiled version if `config.compiled`
        self.train()

    def _groups(self) -> list[Any]:
        """Returns the trained parameters, in groups if some layers are frozen or have another learning rate."""
        c = self.config
        if not c.frozen and c.backbone_rate == c.layer_decay == 1:
            return [*self.encoder.parameters(), *self.objective.parameters()]
        groups = parameter_groups(self.encoder, c.frozen, c.backbone_rate, c.layer_decay)
        head_parameters = list(self.objective.parameters())
        return [*groups, {"params": head_parameters, "scale": 1.0}] if head_parameters else groups

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.encoder.mean.device

    def optimiser(self) -> torch.optim.Optimizer:
        """Builds the optimiser of all trained parameters as configured.

        Frozen layers are excluded. The backbone can have a learning rate of its own.
        """
        return build_optimiser(self.config, self.groups)

    def train(self, mode: bool = True) -> Model:
        """Switches to training mode, except for frozen layers, or to evaluation mode if `mode` is False."""
        super().train(mode)
        if mode:
            train_mode(self.encoder, self.still)
        return self

    def features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the backbone's pooled features `(M, F)` and the projections `(M, D)` of images, in float32.

        Args:
            images: float32 `(M, 3, S, S)` in [0, 1], on the model's device. `PMSACL.forward` accepts other types as
                well.
        """
        with autocast(self.device, self.config.autocast and gains_by_bf16(self.device, self.encoder)):
            h = self.backbone(images.contiguous(memory_format=self.format))
            z = self.encoder.project(h)
        return h.float(), z.float()

    def class_centres(self, batches: Batches, step: int = 0) -> Tensor:
        """Computes the class centres c_0 to c_k, float32 `(k + 1, D)`. `PMSACL.estimate_centres` also stores them.

        A centre is the mean projection of a class (Eq. 2) or, depending on `config.centres`, random. Batch norms use
        the statistics of each batch, as in training, but the encoder is not changed. Raises ValueError if there are no
        images.

        Args:
            batches: Pairs of images, float32 `(B, 3, S, S)` in [0, 1], and their regions of interest `(B, S, S)` or
                None.
            step: Number of finished steps. Step and seed determine the random draws.
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
    """Sampler for a DataLoader that yields the indices of `count` images in the order of a pre-training run.

    The order depends only on `seed` and on the epoch, which `set_epoch` sets.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.epoch = count, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, counted from 0, of the next iteration."""
        self.epoch = epoch

    def of(self, epoch: int) -> Tensor:
        """Returns the indices of all images, `(N,)`, in the order of the epoch `epoch`, counted from 0."""
        return torch.randperm(self.count, generator=generator(self.seed, ORDER, epoch))

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(self.of(self.epoch).tolist())


class PMSACL(Model):
    """PMSACL as a module for any training loop: encoder, heads, class centres and the complete loss (PMSACL Eq. 1).

    Call `estimate_centres` once before the first step, then minimise the result of `loss`, which pastes lesions into
    normal images and makes the views. Random draws depend only on `seed` and the number of steps, so that training runs
    can be repeated. If images come in the order of `order`, a run equals the studio's pre-training.

    Args:
        backbone: Name of the network: `efficientnet-lite0`, `resnet18` or a model of timm; or the `encoder` of another
            model, to train it further. The setting `encoder.init` names the initial weights: `random` in the presets
            `quick`, `from-random` and `as-printed`, otherwise `auto` (installed ImageNet weights; a network without
            them is replaced by efficientnet-lite0, with a warning).
        k: Largest number of pasted lesions per image, 1 to 7. The classes are A_0 (none) to A_k.
        preset: Name of the preset for the other settings: `sphere`, `quick` or `imagenet` (minutes on a CPU), `paper`
            (days), `from-random`, or `as-printed` (exactly the paper's text, with which features collapse).
        seed: Seed of all random draws, a whole number of 0 or more.
        settings: Settings that override the preset, such as `lr=0.01`. A name with a dot needs a dictionary:
            `**{"encoder.init": "random", "medmix.size": (0.1, 0.3)}`. The error for a wrong name lists all names.
            Images keep the size in which they are passed; the setting `size` is ignored.

    Attributes:
        encoder: Encoder that is trained; `AnomalyDetector(encoder=model)` uses it.
        centres: Class centres `(k + 1, D)`, NaN until `estimate_centres` has been called.
        step: Number of finished steps, that is, calls of `loss` in training mode.
        config: All settings, such as `config.batch` and `config.lr`.

    Raises:
        ValueError: If an argument is invalid; the message says what is allowed.

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
        presets = [name for name, config in PRETRAIN_PRESETS.items() if config.objective.startswith("pmsacl")]
        if preset not in presets:
            raise ValueError(f"unknown preset {preset!r}; choose from: {', '.join(presets)}")
        if not isinstance(backbone, (str, Encoder)):
            raise ValueError(f"backbone is the name of a network or an encoder, not {type(backbone).__name__}")
        if {"medmix", "medmix.k"} & set(settings):
            raise ValueError("pass the number of lesions as k and MedMix's other settings one by one, as medmix.size")
        ready_encoder = backbone if isinstance(backbone, Encoder) else None
        named = {"encoder": ready_encoder.config.to_dict()} if ready_encoder else {"encoder.arch": backbone}
        config = PRETRAIN_PRESETS[preset].replace(**{"k": k, "seed": seed, **named, **settings})
        super().__init__(config, ready_encoder)
        if not isinstance(self.objective, Objective):
            raise ValueError(f"objective is pmsacl or pmsacl-local, not {config.objective}; choose another preset")
        self.register_buffer("centres", torch.full((config.k + 1, config.encoder.dim), torch.nan))
        self.step = 0
        self.outcome: tuple[Outcome, Tensor] | None = None  # outcome and true classes of the last call of `loss`
        self.centred = False

    def get_extra_state(self) -> dict[str, int]:
        """Returns the number of finished steps as {"step": ...}, which torch includes in `state_dict`."""
        return {"step": self.step}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Restores the number of finished steps from the result of `get_extra_state`."""
        self.step = state["step"]

    def order(self, images: int) -> Order:
        """Returns a sampler that yields the indices of `images` images in the order of the studio's own pre-training.

        Use `order = model.order(len(data))`, then `DataLoader(data, sampler=order, batch_size=model.config.batch,
        drop_last=True)`, and call `order.set_epoch(epoch)` before each epoch, counted from 0.
        """
        return Order(images, self.config.seed)

    def estimate_centres(self, loader: Iterable[Any]) -> None:
        """Estimates the class centres, the mean projection of each class, from one pass over normal images (Eq. 2).

        The centres are stored in `centres`. Call this method once, before the first step.

        Args:
            loader: Batches of images in any form that `loss` accepts.

        Raises:
            ValueError: If there is no batch, or if `loss` would reject a batch.
        """
        with torch.no_grad():
            self.centres.copy_(self.class_centres((self._batch(batch), None) for batch in loader))
        self.centred = True

    def loss(self, images: Any, roi: Any = None) -> Tensor:
        """Computes the loss of a step from normal images: a scalar in float32, to be minimised (Eq. 1).

        In training mode, each call is a step with new random draws; in evaluation mode, all calls use the same draws.
        `terms` and `accuracy` describe the last call.

        Args:
            images: Tensor or array `(B, 3, S, S)` or `(B, S, S, 3)`, uint8 or floats in [0, 1], on any device, or a
                tuple or list that starts with the images, as a DataLoader yields it. B must be at least 2, because
                lesions are cut from other images of the batch; S must be at least 16 pixels.
            roi: Tensor or array `(B, S, S)`, nonzero where lesions may be pasted. Defaults to everywhere.

        Raises:
            ValueError: If the images are invalid, or if `roi` has a wrong shape or is 0 everywhere in an image.
            RuntimeError: If the centres have not been estimated.
        """
        if not self.centred and not bool(self.centres.isfinite().all()):
            raise RuntimeError("there are no centres yet: call estimate_centres(loader) once, before the first step")
        self.centred = True
        x, config = self._batch(images), self.config
        purpose, step = (STEP, self.step) if self.training else (VALIDATION, 0)
        region = None if roi is None else (torch.as_tensor(roi) != 0).float()
        if region is not None and region.shape != (len(x), *x.shape[2:]):
            raise ValueError(f"roi must be {(len(x), *x.shape[2:])} like the images, not {tuple(region.shape)}")
        if region is not None:
            demand_room(region)
        with torch.no_grad():
            views: Views = self.objective.views(x, generator(config.seed, purpose, step), region)
        outcome = self.objective.loss(*self.features(views.images), views, self.centres)
        self.outcome = outcome, views.classed[1]
        self.step += self.training
        return outcome.loss

    def forward(self, images: Any) -> Tensor:
        """Computes the projections `(B, D)` of images in any form that `loss` accepts.

        A single image is enough in evaluation mode. In training mode, batch norms need at least two images.
        """
        return self.features(self._batch(images, least=1))[1]

    @property
    def terms(self) -> dict[str, float]:
        """Terms of the last loss that `loss` returned, by name and without their weights.

        The names are `l_ctr` (Eq. 3), `l_con` (l_PMSACL, Eq. 5), `l_aug` (Eq. 8) and, if the settings include them,
        `l_pos` (Eq. 9) and `l_var` (the spread within each class, not in the paper). Raises RuntimeError before the
        first call of `loss`.
        """
        return {name: float(term) for name, term in self._last()[0].terms.items()}

    @property
    def accuracy(self) -> float:
        """Accuracy (0 to 1) with which the class head predicted the classes A_0 to A_k in the last call of `loss`.

        Chance level is 1 / (k + 1). Raises RuntimeError before the first call of `loss`.
        """
        outcome, classes = self._last()
        assert outcome.logits is not None
        return float((outcome.logits.argmax(1) == classes).float().mean())

    def save(self, folder: str | Path) -> None:
        """Writes the encoder, the class head and, if estimated, the centres into `folder`.

        The folder is created if necessary. It can be passed as `init` to `AnomalyDetector` and `Studio.pretrained`.
        """
        centres = self.centres if self.centred else None
        notes = {"objective": self.config.objective, "step": self.step}
        save_encoder(self.encoder, Path(folder), notes, centres, class_head=self.objective.class_head())

    def _last(self) -> tuple[Outcome, Tensor]:
        if self.outcome is None:
            raise RuntimeError("there has been no step yet: call loss(images) first")
        return self.outcome

    def _batch(self, batch: Any, least: int = 2) -> Tensor:
        """Checks a batch and returns its images as float32 `(B, 3, S, S)` in [0, 1] on the model's device."""
        images = batch[0] if isinstance(batch, (tuple, list)) and len(batch) else batch
        pixels, _ = channels_first(images)
        if pixels.ndim != 4 or pixels.shape[1] != 3 or pixels.shape[2] != pixels.shape[3] or len(pixels) < least:
            several = f", of at least {least} images" if least > 1 else ""
            raise ValueError(f"a batch must be (B, 3, S, S), square and in colour{several}, not {tuple(images.shape)}")
        return in_unit(pixels.to(self.device))


@torch.no_grad()
def estimate_centres(
    features: Callable[[Tensor], Tensor], batches: Iterable[tuple[Tensor, Tensor]], count: int
) -> Tensor:
    """Estimates class centres, float32 `(count, D)`: the mean feature over the views of each class (Eq. 2).

    Sums are computed in float64, so that the order of the images does not affect the result. Raises ValueError if a
    class has no image.

    Args:
        features: Function that computes features `(M, D)` of images `(M, 3, S, S)`.
        batches: Pairs of images `(M, 3, S, S)` and their class labels `(M,)`.
    """
    total, counts = None, torch.zeros(count, dtype=torch.float64)
    for images, labels in batches:
        z = features(images).double()
        one_hot = torch.nn.functional.one_hot(labels.to(z.device), count).double()  # (M, count)
        total = one_hot.T @ z if total is None else total + one_hot.T @ z
        counts += one_hot.sum(0).cpu()
    if total is None or bool((counts == 0).any()):
        raise ValueError("each class needs an image for its centre; give more images")
    return (total / counts.to(total.device)[:, None]).float()


def random_centres(count: int, dim: int, scale: float, generator: torch.Generator) -> Tensor:
    """Draws random centres `(count, dim)` with normally distributed coordinates (standard deviation `scale`)."""
    return torch.randn((count, dim), generator=generator) * scale


def equidistant_centres(count: int, dim: int, scale: float, generator: torch.Generator) -> Tensor:
    """Draws random centres `(count, dim)` at equal distances from each other.

    The centres are the corners of a randomly rotated regular simplex. Their distance from the origin is `scale`, and
    their distance from each other is scale * sqrt(2 count / (count - 1)). Raises ValueError unless dim >= count >= 2.
    """
    if not 2 <= count <= dim:
        raise ValueError(
            f"{count} equidistant centres need a space of at least {count} dimensions, and at least two centres"
        )
    frame = torch.linalg.qr(torch.randn((dim, count), generator=generator, dtype=torch.float64)).Q.T  # orthonormal rows
    corners = frame - frame.mean(0)
    return (scale * torch.nn.functional.normalize(corners, dim=1)).float()
