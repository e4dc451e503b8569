"""One pre-training in memory: its parts and one step of it."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.engine import processes
from core.engine.allocator import most_memory
from core.engine.augment.medmix.donors import MarkedLesions
from core.engine.backbones.encoder import build_encoder
from core.engine.losses.pmsacl import loss_of_a_constant
from core.engine.objectives.base import Outcome, Views
from core.engine.objectives.config import EQUIDISTANT, RANDOM, REESTIMATED, PretrainConfig
from core.engine.progress import Stopped
from core.engine.registry import OBJECTIVES
from core.engine.tensors import autocast, gains_by_bf16, to_batch
from core.engine.training.base import CENTRES, ORDER, STEP, Training, generator
from core.engine.training.centres import equidistant_centres, estimate_centres, random_centres
from core.engine.training.collapse import CollapseWatch, feature_state, relative_spread, remedies
from core.engine.training.joint import joint_step, rows_of_process, share_norms
from core.engine.training.schedule import (
    build_optimiser,
    learning_rate,
    parameter_groups,
    set_rate,
    still_layers,
    train_mode,
)


@dataclass
class Data:
    """Images of a pre-training, and what lesions are cut from.

    images uint8 (N, S, S, 3), normal; roi uint8 (N, S, S), 1 inside, or None.
    pool uint8 (M, S, S, 3), pool_roi (M, S, S): normal images of another study, for the donor `foreign`.
    marked: images uint8 (M, S, S, 3) and what readers marked in them (M, S, S), 1 inside, for the donor `marked`.
    """

    images: np.ndarray
    roi: np.ndarray | None = None
    pool: np.ndarray | None = None
    pool_roi: np.ndarray | None = None
    marked: tuple[np.ndarray, np.ndarray] | None = None

    @staticmethod
    def of(images: Data | np.ndarray) -> Data:
        """Returns `images` with what belongs to them; plain arrays have no regions of interest and nothing beside."""
        return images if isinstance(images, Data) else Data(images)

    def batch(self, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """Returns images (B, 3, S, S) on `device` and regions (B, S, S) or None.

        Regions lie on the CPU, where lesions are placed without waiting.
        """
        inside = None if self.roi is None else torch.from_numpy(np.ascontiguousarray(self.roi[rows]))
        return to_batch(self.images[rows], device), inside


class Pretraining(Training):
    """Encoder, objective and optimiser of one run."""

    title = "pre-training"

    def __init__(self, config: PretrainConfig, data: Data, device: torch.device) -> None:
        self.config, self.data, self.device = config, data, device
        self.per_step = min(config.sources, len(data.images))
        rows_of_process(torch.arange(self.per_step))  # raises ValueError if it cannot be shared
        self.steps, self.per_epoch = config.length(len(data.images))
        self.epochs = math.ceil(self.steps / self.per_epoch) if self.steps else 0
        self.encoder = build_encoder(config.encoder)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.encoder.seed)
            self.objective = OBJECTIVES.get(config.objective)(config, self.encoder)
        if data.pool is not None:
            inside = None if data.pool_roi is None else torch.from_numpy(np.array(data.pool_roi))
            self.objective.cut_from(to_batch(data.pool, device), inside)
        lesions = None if data.marked is None else MarkedLesions.of(*data.marked, device)
        if lesions is not None:
            self.objective.paste_marked(lesions)
        self.format = torch.channels_last if config.channels_last else torch.contiguous_format
        share_norms(self.encoder, device)
        self.encoder.to(device).to(memory_format=self.format)
        self.objective.to(device)
        self.optimiser = build_optimiser(config, self._learning())
        self.still = still_layers(self.encoder, config.frozen, config.frozen_norm)
        self.half = config.autocast and gains_by_bf16(device, self.encoder)
        # Several processes may share their batch norms, which a compiled graph would know nothing of.
        compiles = config.compiled and processes.world() == 1
        self.backbone = torch.compile(self.encoder.backbone) if compiles else self.encoder.backbone
        self.joint = joint_step(self.encoder, self.objective, self.features)
        self.networks = {"encoder": self.encoder, "objective": self.objective}
        self.optimisers = {"optimiser": self.optimiser}
        self.remedy = f"a learning rate below {config.lr:g}"
        self.watch = CollapseWatch(self.objective.classes, remedies(config))
        self.centres: Tensor | None = None
        self.centred: int | None = None  # the step they were last set before
        self.best: dict[str, Any] | None = None  # validation of the best epoch so far, written by `Encoders`

    def _learning(self) -> list[Any]:
        """Parameters, or groups of them where parts of the encoder are frozen or learn at another rate."""
        c = self.config
        if not c.frozen and c.backbone_rate == c.layer_decay == 1:
            return [*self.encoder.parameters(), *self.objective.parameters()]
        groups = parameter_groups(self.encoder, c.frozen, c.backbone_rate, c.layer_decay)
        own = list(self.objective.parameters())
        return [*groups, {"params": own, "scale": 1.0}] if own else groups

    @property
    def epoch(self) -> int:
        """Epochs finished, and the last one if the steps end within it."""
        return math.ceil(self.step / self.per_epoch)

    def rows(self, step: int) -> np.ndarray:
        """Returns the indices of a step's images, or of this process's share of them.

        Each epoch has an order of its own, drawn from (seed, epoch).
        """
        epoch, place = divmod(step, self.per_epoch)
        order = torch.randperm(len(self.data.images), generator=generator(self.config.seed, ORDER, epoch))
        return rows_of_process(order[place * self.per_step : (place + 1) * self.per_step]).numpy()

    def features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Computes backbone features h (M, F) and projections z (M, D) of images (M, 3, S, S), in float32."""
        with autocast(self.device, self.half):
            h = self.backbone(images.contiguous(memory_format=self.format))
            z = self.encoder.project(h)
        return h.float(), z.float()

    def prepare(self) -> None:
        """Set the centres where this step needs it: before the first, and when they are re-estimated."""
        c = self.config
        if not self.objective.uses_centres:
            return
        again = c.centres == REESTIMATED and self.step % (c.reestimate_every * self.per_epoch) == 0
        if self.centred == self.step or (self.centres is not None and not again):
            return
        dim, count, draws = c.encoder.dim, self.objective.classes, generator(c.seed, CENTRES, self.step)
        if c.centres == RANDOM:
            centres = random_centres(count, dim, c.centre_scale, draws)
        elif c.centres == EQUIDISTANT:
            centres = equidistant_centres(count, dim, c.centre_scale, draws)
        else:
            centres = estimated_centres(self, draws)
        self.centres, self.centred = centres.to(self.device), self.step

    def views(self) -> Views:
        """Makes this step's input, or this process's share of it. Each process has draws of its own."""
        x, inside = self.data.batch(self.rows(self.step), self.device)
        draws = generator(self.config.seed, STEP, self.step * processes.world() + processes.rank())
        with torch.no_grad():
            return self.objective.views(x, draws, inside)

    def advance(self) -> dict[str, Any]:
        """Do one step and return its numbers. A loss that is not finite changes no weight."""
        rate = learning_rate(self.config, self.step, self.steps)
        set_rate(self.optimiser, rate)
        train_mode(self.encoder, self.still), self.objective.train()
        outcome, views = self.joint(self.views(), self.centres)
        numbers = self._numbers(outcome, views)  # the only wait for the device in a step
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
        """Computes what is reported of a step, by name, all on the device: nothing here waits for it."""
        labels, classes = views.labels, self.objective.classes
        state = feature_state(outcome.z, labels, classes)
        tensors = {"loss": outcome.loss.detach(), **outcome.terms}
        tensors |= {name: state[name] for name in ("spread", "class_distance", "class_distances")}
        tensors["feature_spread"] = relative_spread(outcome.h)
        if self.centres is not None:
            each = torch.nn.functional.one_hot(labels, classes).float()
            apart = (outcome.z - self.centres[labels]).norm(dim=1)
            tensors["centre_distance"] = apart @ each / each.sum(0)
            if "l_con" in outcome.terms:
                c, mean = self.config, outcome.z.mean(0)
                tensors["l_con_constant"] = loss_of_a_constant(mean, labels, self.centres, c.tau, c.alpha)
        if outcome.logits is not None:
            said, truth = outcome.logits.argmax(1), views.classed[1]
            tensors["aug_accuracy"] = (said == truth).float().mean()
            rows, columns = (torch.nn.functional.one_hot(n, classes).float() for n in (truth, said))
            tensors["aug_confusion"] = rows.T @ columns
        return tensors

    def _numbers(self, outcome: Outcome, views: Views) -> dict[str, Any]:
        tensors, classes = self.measured(outcome, views), self.objective.classes
        flat = torch.cat([t.reshape(-1).float() for t in tensors.values()]).tolist()
        numbers: dict[str, Any] = {}
        for name, tensor in tensors.items():
            values, flat = flat[: tensor.numel()], flat[tensor.numel() :]
            numbers[name] = values[0] if tensor.ndim == 0 else values
        shown = self.step % self.config.check_every == 0
        for name in ("aug_confusion", "class_distances"):
            square = numbers.pop(name, None)
            if square is not None and shown:
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


SAY = 5.0  # seconds between two reports


def estimated_centres(training: Pretraining, draws: torch.Generator) -> Tensor:
    """Estimates the centres c_n from a pre-training's images (PMSACL Eq. 2), with progress.

    The encoder is taken as it is, with the statistics of each batch (as in training), which leave no trace in it.

    Each image is passed once for each class, by each process. Raises Stopped when asked to stop.
    """
    t = training
    count, wanted = len(t.data.images), t.config.centre_images or len(t.data.images)
    chosen = torch.randperm(count, generator=draws)[:wanted].numpy()
    parts = math.ceil(len(chosen) / t.per_step)
    encoder = train_mode(copy.deepcopy(t.encoder), t.still)

    def features(images: Tensor) -> Tensor:
        with autocast(t.device, t.half):
            return encoder(images.contiguous(memory_format=t.format)).float()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        done, said = 0, time.monotonic()
        for rows in np.array_split(chosen, parts):
            if t.should_stop is not None and t.should_stop():
                raise Stopped("pre-training was stopped while its centres were estimated; it begins with them anew")
            if t.report is not None and time.monotonic() - said >= SAY:
                message = f"Estimating centres: {done} of {len(chosen)} images"
                t.report({"step": t.step, "steps": t.steps, "message": message})
                said = time.monotonic()
            x, inside = t.data.batch(rows, t.device)
            yield t.objective.samples(x, draws, inside, t.config.centre_weak)
            done += len(rows)

    return processes.from_first(estimate_centres(features, batches(), t.objective.classes))
