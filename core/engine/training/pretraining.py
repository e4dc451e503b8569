"""A pre-training run in memory: data, networks, optimiser, and one training step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel

from core.engine import processes
from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.backbones.encoder import Encoder
from core.engine.backbones.timm_models import TimmBackbone
from core.engine.losses.pmsacl import loss_of_a_constant
from core.engine.objectives.base import Objective, Outcome, Views
from core.engine.objectives.config import REESTIMATED, PretrainConfig
from core.engine.progress import Stopped
from core.engine.tensors import most_memory, to_batch
from core.engine.training.base import STEP, Training, generator
from core.engine.training.collapse import CollapseWatch, feature_state, relative_spread, remedies
from core.engine.training.model import Model, Order
from core.engine.training.schedule import learning_rate, set_rate

SAY = 5.0  # seconds between two progress messages


@dataclass
class Data:
    """Images of a pre-training run, and further images from which lesions are cut.

    Attributes:
        images: Normal images, uint8 `(N, S, S, 3)`.
        roi: Regions of interest, uint8 `(N, S, S)`, 1 inside, or None.
        pool: Normal images of another study, uint8 `(M, S, S, 3)`, for the donor `foreign`, or None.
        pool_roi: Regions of interest of `pool`, `(M, S, S)`, or None.
        marked: Images, uint8 `(M, S, S, 3)`, and lesion masks drawn by readers, `(M, S, S)`, for the donor `marked`.
    """

    images: np.ndarray
    roi: np.ndarray | None = None
    pool: np.ndarray | None = None
    pool_roi: np.ndarray | None = None
    marked: tuple[np.ndarray, np.ndarray] | None = None

    @staticmethod
    def of(images: Data | np.ndarray) -> Data:
        """Wraps an array of images in a Data; returns a Data unchanged."""
        return images if isinstance(images, Data) else Data(images)

    def batch(self, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """Returns the images with indices `rows`, `(B, 3, S, S)` on `device`, and their regions `(B, S, S)` or None.

        Regions stay on the CPU, because lesions are placed there without waiting for the device.
        """
        inside = None if self.roi is None else torch.from_numpy(np.ascontiguousarray(self.roi[rows]))
        return to_batch(self.images[rows], device), inside


class Pretraining(Training):
    """Pre-training as a `Training`: data, encoder, objective and optimiser."""

    title = "pre-training"

    def __init__(self, config: PretrainConfig, data: Data, device: torch.device) -> None:
        self.config, self.data, self.device = config, data, device
        self.per_step = min(config.sources, len(data.images))
        rows_of_process(torch.arange(self.per_step))  # raises ValueError if processes cannot share a step's images
        self.steps, self.per_epoch = config.length(len(data.images))
        self.epochs = math.ceil(self.steps / self.per_epoch) if self.steps else 0
        self.order = Order(len(data.images), config.seed)
        self.model = Model(config)
        self.encoder, self.objective, self.features = self.model.encoder, self.model.objective, self.model.features
        if data.pool is not None:
            inside = None if data.pool_roi is None else torch.from_numpy(np.array(data.pool_roi))
            self.objective.cut_from(to_batch(data.pool, device), inside)
        lesions = None if data.marked is None else MarkedLesions.of(*data.marked, device)
        if lesions is not None:
            self.objective.paste_marked(lesions)
        share_norms(self.encoder, device)
        self.model.to(device)
        self.optimiser = self.model.optimiser()
        # Several processes may share batch norm statistics, which a compiled graph does not support.
        if config.compiled and processes.world() == 1:
            self.model.backbone = torch.compile(self.encoder.backbone)
        self.joint = joint_step(self.encoder, self.objective, self.features)
        self.networks = {"encoder": self.encoder, "objective": self.objective}
        self.optimisers = {"optimiser": self.optimiser}
        self.remedy = f"a learning rate below {config.lr:g}"
        self.watch = CollapseWatch(self.objective.classes, remedies(config))
        self.centres: Tensor | None = None
        self.centred: int | None = None  # the step before which the centres were last set
        self.best: dict[str, Any] | None = None  # validation metrics of the best epoch so far, set by `Encoders`

    @property
    def epoch(self) -> int:
        """Number of the epoch of the last finished step, counted from 1, or 0 before the first step."""
        return math.ceil(self.step / self.per_epoch)

    def rows(self, step: int) -> np.ndarray:
        """Returns the indices of the images that this process uses in a step.

        The images have a random order that depends only on the seed and the epoch.
        """
        epoch, index = divmod(step, self.per_epoch)
        return rows_of_process(self.order.of(epoch)[index * self.per_step : (index + 1) * self.per_step]).numpy()

    def prepare(self) -> None:
        """Computes the centres, if the objective uses them, before the first step and whenever re-estimation is due."""
        c = self.config
        if not self.objective.uses_centres:
            return
        reestimated = c.centres == REESTIMATED and self.step % (c.reestimate_every * self.per_epoch) == 0
        if self.centred == self.step or (self.centres is not None and not reestimated):
            return
        centres = processes.from_first(self.model.class_centres(self._centre_batches(), self.step))
        self.centres, self.centred = centres.to(self.device), self.step

    def _centre_batches(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Yields the images from which centres are estimated, in the order of the epoch, and reports progress.

        Every process reads all of these images. Raises Stopped if `should_stop` returns True.
        """
        chosen = self.order.of(self.step // self.per_epoch)[: self.config.centre_images or None].numpy()
        done, reported = 0, time.monotonic()
        for rows in np.array_split(chosen, math.ceil(len(chosen) / self.per_step)):
            if self.should_stop is not None and self.should_stop():
                raise Stopped("pre-training was stopped while centres were estimated; this will start again")
            if self.report is not None and time.monotonic() - reported >= SAY:
                message = f"Estimating centres: {done} of {len(chosen)} images"
                self.report({"step": self.step, "steps": self.steps, "message": message})
                reported = time.monotonic()
            yield self.data.batch(rows, self.device)
            done += len(rows)

    def views(self) -> Views:
        """Makes this process's views of its images for the next step. Random draws differ between processes."""
        x, inside = self.data.batch(self.rows(self.step), self.device)
        draws = generator(self.config.seed, STEP, self.step * processes.world() + processes.rank())
        with torch.no_grad():
            return self.objective.views(x, draws, inside)

    def advance(self) -> dict[str, Any]:
        """Runs one step and returns its metrics by name. Weights are not updated if the loss is not finite."""
        rate = learning_rate(self.config, self.step, self.steps)
        set_rate(self.optimiser, rate)
        self.model.train()
        outcome, views = self.joint(self.views(), self.centres)
        numbers = self._numbers(outcome, views)  # waits for the device, once per step
        if math.isfinite(numbers["loss"]):
            self.optimiser.zero_grad(set_to_none=True)
            outcome.loss.backward()
            self.optimiser.step()
        self.step += 1
        epochs = {"epoch": math.ceil(self.step / self.per_epoch), "epochs": self.epochs}
        return {
            **epochs,
            "lr": rate,
            "seen": len(views.images) * processes.world(),
            **numbers,
            "memory": most_memory(self.device),
        }

    def measured(self, outcome: Outcome, views: Views) -> dict[str, Tensor]:
        """Computes the metrics of a step, by name, as tensors on the device, so that nothing waits for the device."""
        labels, classes = views.labels, self.objective.classes
        state = feature_state(outcome.z, labels, classes)
        tensors = {"loss": outcome.loss.detach(), **outcome.terms}
        tensors |= {name: state[name] for name in ("spread", "class_distance", "class_distances")}
        tensors["feature_spread"] = relative_spread(outcome.h)
        if self.centres is not None:
            one_hot = torch.nn.functional.one_hot(labels, classes).float()
            distances = (outcome.z - self.centres[labels]).norm(dim=1)
            tensors["centre_distance"] = distances @ one_hot / one_hot.sum(0)
            if "l_con" in outcome.terms:
                c, mean = self.config, outcome.z.mean(0)
                tensors["l_con_constant"] = loss_of_a_constant(mean, labels, self.centres, c.tau, c.alpha)
        if outcome.logits is not None:
            predicted, truth = outcome.logits.argmax(1), views.classed[1]
            tensors["aug_accuracy"] = (predicted == truth).float().mean()
            rows, columns = (torch.nn.functional.one_hot(n, classes).float() for n in (truth, predicted))
            tensors["aug_confusion"] = rows.T @ columns
        return tensors

    def _numbers(self, outcome: Outcome, views: Views) -> dict[str, Any]:
        tensors, classes = self.measured(outcome, views), self.objective.classes
        flat = torch.cat([t.reshape(-1).float() for t in tensors.values()]).tolist()
        numbers: dict[str, Any] = {}
        for name, tensor in tensors.items():
            values, flat = flat[: tensor.numel()], flat[tensor.numel() :]
            numbers[name] = values[0] if tensor.ndim == 0 else values
        is_due = self.step % self.config.check_every == 0
        for name in ("aug_confusion", "class_distances"):
            square = numbers.pop(name, None)
            if square is not None and is_due:
                numbers[name] = [square[i : i + classes] for i in range(0, classes**2, classes)]
        finite = math.isfinite(numbers["loss"])
        alarm = self.watch.update(
            self.step + 1,
            numbers["spread"] if finite else math.nan,
            numbers["class_distance"],
            numbers.get("aug_accuracy"),
            numbers["feature_spread"],
        )
        if alarm is not None and self.config.stop_on_alarm:
            self.ended = alarm
        return {**numbers, "alarm": alarm}

    def notes(self) -> dict[str, Any]:
        return {"watch": self.watch.state(), "best": self.best}

    def restore_notes(self, notes: dict[str, Any]) -> None:
        self.best = notes["best"]
        self.watch.restore(notes["watch"])

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.centres is None else {"centres": self.centres}

    def restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        self.centres = tensors["centres"].to(self.device) if "centres" in tensors else None


Features = Callable[[Tensor], tuple[Tensor, Tensor]]


class JointStep(nn.Module):
    """Forward pass from this process's views to the loss of the joint batch, that is, the batch of all processes.

    Each process gathers the features of all processes, so that every view is contrasted with all views of the joint
    batch and all processes compute the same loss. In the backward pass, a feature gets the sum of these losses'
    gradients. DistributedDataParallel averages over processes, which gives the gradient of a single process with the
    joint batch. The function `features` computes features `(M, F)` and projections `(M, D)` of images.
    """

    def __init__(self, encoder: Encoder, objective: Objective, features: Features) -> None:
        super().__init__()
        self.encoder, self.objective, self.features = encoder, objective, features

    def forward(self, views: Views, centres: Tensor | None) -> tuple[Outcome, Views]:
        """Returns outcome and views of the joint batch; only this process's images are in `views.images`."""
        h, z = self.features(views.images)
        if processes.world() > 1:
            z = z if self.objective.uses_projection else z.detach()
            h, z, views = joined(_of_all(h, z, views))
        outcome: Outcome = self.objective.loss(h, z, views, centres)
        outcome.h = h.detach()
        return outcome, views


def joint_step(encoder: Encoder, objective: Objective, features: Features) -> nn.Module:
    """Returns a `JointStep` whose backward pass averages gradients over all processes."""
    step = JointStep(encoder, objective, features)
    if processes.world() == 1:
        return step
    return DistributedDataParallel(step, find_unused_parameters=not objective.uses_projection)


def share_norms(encoder: Encoder, device: torch.device) -> None:
    """Makes batch norms of `encoder.net` use the statistics of the joint batch, if several processes train on GPUs."""
    if processes.world() > 1 and device.type == "cuda":
        convert = nn.SyncBatchNorm.convert_sync_batchnorm
        if isinstance(encoder.arch, TimmBackbone):  # timm's batch norms include the activation that follows
            from timm.layers import convert_sync_batchnorm as convert
        encoder.net = convert(encoder.net)


def rows_of_process(rows: Tensor) -> Tensor:
    """Returns the part of a joint batch's image indices `rows` `(B,)` that this process uses.

    Raises ValueError unless each of several processes gets the same number of images, at least two.
    """
    world = processes.world()
    if world > 1 and (len(rows) % world or len(rows) < 2 * world):
        raise ValueError(
            f"a step of {len(rows)} images cannot be shared by {world} processes: change the batch to a multiple of "
            f"{world} with at least two images for each process"
        )
    return rows[processes.rank() :: world]


def joined(parts: Sequence[tuple[Tensor, Tensor, Views]]) -> tuple[Tensor, Tensor, Views]:
    """Concatenates features, projections and views of all processes, ordered by rank, for each kind of view."""
    views = [v for _, _, v in parts]
    firsts = [rank * len(v.labels) for rank, v in enumerate(views)]
    strong = None if views[0].strong is None else torch.cat([v.strong for v in views])  # type: ignore[misc]
    positions = None if views[0].places is None else torch.cat([v.places for v in views])  # type: ignore[misc]
    counts = [0 if x is None else len(x) for x in (views[0].labels, views[0].strong, views[0].places, views[0].places)]

    def ordered(of_all: list[Tensor]) -> Tensor:
        return torch.cat([torch.cat(kind) for kind in zip(*(x.split(counts) for x in of_all), strict=True)])

    joint = Views(
        views[processes.rank()].images,
        torch.cat([v.labels for v in views]),
        torch.cat([v.partners + first for v, first in zip(views, firsts, strict=True)]),
        positions,
        strong,
    )
    return ordered([h for h, _, _ in parts]), ordered([z for _, z, _ in parts]), joint


def _of_all(h: Tensor, z: Tensor, own: Views) -> list[tuple[Tensor, Tensor, Views]]:
    """Gathers the features and projections, with their gradients, and the views of every process, by rank."""

    def values(x: Tensor | None) -> Sequence[Tensor | None]:
        if x is None:
            return [None] * processes.world()
        gathered = [torch.empty_like(x) for _ in range(processes.world())]
        dist.all_gather(gathered, x.contiguous())
        return gathered

    every = (all_gather(h.contiguous()), all_gather(z.contiguous()) if z.requires_grad else values(z))
    fields = zip(values(own.labels), values(own.partners), values(own.places), values(own.strong), strict=True)
    views = [Views(own.images, *values_of_rank) for values_of_rank in fields]  # type: ignore[arg-type]
    return list(zip(*every, views, strict=True))
