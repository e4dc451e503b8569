"""Training of an IGD model. Each step updates encoder and generator, then the critic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.engine.detectors.igd import model as losses
from core.engine.detectors.igd.items import Items
from core.engine.detectors.igd.model import IGDConfig, IGDModel
from core.engine.progress import Report, Stop
from core.engine.tensors import autocast, to_device
from core.engine.training import loop
from core.engine.training.base import SHARES, Training, fingerprint, generator
from core.engine.training.schedule import polynomial, set_rate


def batch_of(config: IGDConfig, local: bool) -> int:
    """Returns the number of images per step of the local or the global model."""
    return config.local_batch if local and config.local_batch else config.batch


def steps_of(config: IGDConfig, images: int, local: bool = False) -> tuple[int, int]:
    """Returns the numbers of steps per epoch and in the entire training run of the local or the global model.

    A last batch with a single image is skipped, because a single image cannot be mixed.
    """
    batch = batch_of(config, local)
    per_epoch = images // batch + (images % batch >= 2)
    steps = config.epochs * per_epoch
    return per_epoch, min(steps, config.max_steps) if config.max_steps else steps


def train(
    model: IGDModel,
    items: Items,
    config: IGDConfig,
    folder: Path | None = None,
    report: Report | None = None,
    should_stop: Stop | None = None,
) -> None:
    """Trains `model` in place and leaves it in eval mode.

    Args:
        model: Global or local model.
        items: Training data of the model, at least 2 images.
        config: Options of IGD.
        folder: Folder in which the training run is saved, so that a later call with the same arguments resumes it.
        report: Function that receives the progress after every step.
        should_stop: Function that is called before every step. Training stops if it returns True.

    Raises:
        Stopped: If `should_stop` returns True.
        Diverged: If the loss is not finite.
    """
    training = IGDTraining(model, items, config)
    identity: dict[str, Any] = {"config": config.to_dict()}
    if folder is not None:
        identity["fitted_on"] = fingerprint(items.images, model.encoder.state_dict())
    checkpoints = loop.run_resumable(training, folder, identity, report, should_stop)
    model.eval()
    model.estimate(items, config.batch)
    if checkpoints is not None:
        checkpoints.save(training)


class IGDTraining(Training):
    """Training run of the global or the local model, with two optimisers and a learning rate that decays to 0."""

    title = "IGD"

    def __init__(self, model: IGDModel, items: Items, config: IGDConfig) -> None:
        if len(items) < 2:
            raise ValueError(f"IGD needs at least 2 normal images, not {len(items)}")
        self.model, self.items, self.config = model, items, config
        self.remedy = f"a learning rate below {config.lr:g}"
        self.batch = batch_of(config, model.local)
        self.per_epoch, self.steps = steps_of(config, len(items), model.local)
        self.seed = 2 * config.seed + model.local
        self.networks = {"code": model.code, "generator": model.generator, "critic": model.critic}
        if model.tuned:
            self.networks["encoder"] = model.encoder
        learnt = [*model.code.parameters(), *(model.encoder.parameters() if model.tuned else ())]
        groups = [
            {"params": learnt, "weight_decay": 0.0},
            {"params": list(model.generator.parameters()), "weight_decay": config.weight_decay},
        ]
        self.opt_generator = torch.optim.Adam(groups, lr=config.lr, betas=config.betas)
        self.opt_discriminator = torch.optim.Adam(model.critic.parameters(), lr=config.lr, betas=config.betas)
        self.optimisers = {"opt_generator": self.opt_generator, "opt_discriminator": self.opt_discriminator}

    def tensors(self) -> dict[str, Tensor]:
        return {"centre": self.model.centre, "sigma_sq": self.model.sigma_sq}

    def restore_tensors(self, tensors: dict[str, Tensor]) -> None:
        self.model.centre.copy_(tensors["centre"])
        self.model.sigma_sq.copy_(tensors["sigma_sq"])

    def prepare(self) -> None:
        """Fits the feature scale before the first step, and re-estimates the classifier every `reestimate` epochs."""
        config, epoch = self.config, self.step // self.per_epoch
        if self.step == 0 and config.rescale:
            self.model.code.adapt(self.items.blocks(self.model.encoder, config.batch))
        if self.step % self.per_epoch == 0 and epoch % config.reestimate == 0:
            self.model.estimate(self.items, config.batch)

    def advance(self) -> dict[str, Any]:
        config, model = self.config, self.model.train()
        rate = config.lr * polynomial(self.step, self.steps, config.power)
        set_rate(self.opt_generator, rate)
        set_rate(self.opt_discriminator, rate)
        epoch, at = divmod(self.step, self.per_epoch)
        chosen = self.items.order(self.seed, epoch)[at * self.batch : (at + 1) * self.batch]
        x, features = self.items.take(chosen, config.patches, self.seed, self.step)
        share = to_device(0.5 * torch.rand(len(x), generator=generator(self.seed, SHARES, self.step)), x.device)

        model.critic.requires_grad_(False)
        with autocast(x.device, config.autocast):
            z = model.encode(x, features)
            blend = losses.mixed(z, share)
            # A single pass of the generator, so that batch norm uses codes and their mixtures together.
            fake, between = model.generator(torch.cat([z, blend])).chunk(2)
            verdict = model.critic(between)
        rec = model.reconstruction(x, fake).mean()
        gauss = losses.gauss(z, model.centre, model.sigma_sq).mean()
        generator_loss = losses.generator_loss(verdict)
        loss = rec + config.w_gauss * gauss + config.w_reg * generator_loss
        self.opt_generator.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_generator.step()

        model.critic.requires_grad_(True)
        fake, between = fake.detach(), between.detach()
        with autocast(x.device, config.autocast):
            verdicts = model.critic(torch.cat([between, fake + config.gamma * (x - fake)]))
        critic_loss = losses.critic_loss(verdicts[: len(x)], share, verdicts[len(x) :])
        self.opt_discriminator.zero_grad(set_to_none=True)
        critic_loss.backward()
        self.opt_discriminator.step()

        self.step += 1
        terms = {"loss": loss, "rec": rec, "gauss": gauss, "reg": generator_loss, "critic": critic_loss}
        stage = "local" if model.local else "global"
        values = torch.stack([value.detach() for value in terms.values()]).tolist()  # a single transfer per step
        return {"stage": stage, "epoch": epoch + 1, "lr": rate, **dict(zip(terms, values, strict=True))}
