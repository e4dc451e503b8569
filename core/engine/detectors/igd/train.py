"""Training one IGD model: generator and critic in turn, resumable at any step with the same result."""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from core.engine.detectors.igd import losses
from core.engine.detectors.igd.config import IGDConfig
from core.engine.detectors.igd.items import Items, _draw
from core.engine.detectors.igd.model import IGDModel
from core.engine.files import write_tensors
from core.engine.progress import Report, Stop, Stopped
from core.engine.tensors import autocast


def steps_of(config: IGDConfig, images: int) -> tuple[int, int]:
    """Steps of one epoch and of the whole training. A last batch of one image is left out: it cannot be mixed."""
    per_epoch = images // config.batch + (images % config.batch >= 2)
    steps = config.epochs * per_epoch
    return per_epoch, min(steps, config.max_steps) if config.max_steps else steps


class Trainer:
    """`state`: a file that holds the training as far as it has come, or None to keep nothing."""

    def __init__(self, model: IGDModel, items: Items, config: IGDConfig, state: Path | None) -> None:
        if len(items) < 2:
            raise ValueError(f"IGD needs at least 2 normal images; there are {len(items)}")
        self.model, self.items, self.config, self.state = model, items, config, state
        self.per_epoch, self.steps = steps_of(config, len(items))
        self.step = 0
        learnt = [*model.code.parameters(), *(model.encoder.parameters() if model.tuned else ())]
        groups = [
            {"params": learnt, "weight_decay": 0.0},
            {"params": list(model.generator.parameters()), "weight_decay": config.weight_decay},
        ]
        self.makers = torch.optim.Adam(groups, lr=config.lr, betas=config.betas)
        self.critics = torch.optim.Adam(model.critic.parameters(), lr=config.lr, betas=config.betas)

    def run(self, report: Report | None = None, should_stop: Stop | None = None) -> None:
        """Train to the end. Raises Stopped, with the state on disk, when should_stop() turns true."""
        if not self._resume():
            self._start()
        self.model.train()
        while self.step < self.steps:
            epoch, at = divmod(self.step, self.per_epoch)
            if at == 0 and epoch % self.config.reestimate == 0:
                self.model.estimate(self.items, self.config.batch)
                self._save()
            if should_stop is not None and should_stop():
                self._save()
                raise Stopped(f"IGD was stopped at step {self.step} of {self.steps}; fitting again goes on from there")
            values = self._advance(epoch, at)
            self.step += 1
            if report is not None:
                stage = "local" if self.model.local else "global"
                report({"stage": stage, "step": self.step, "steps": self.steps, "epoch": epoch + 1, **values})
        self.model.eval()
        self.model.estimate(self.items, self.config.batch)
        self._save()

    def _start(self) -> None:
        h = self.items.features
        h = self.items.backbone(self.model.encoder, self.config.batch) if h is None else h.flatten(0, 1)
        self.model.code.adapt(h)

    def _advance(self, epoch: int, at: int) -> dict[str, float]:
        config, model, seed = self.config, self.model, 2 * self.config.seed + self.model.local
        for optimiser in (self.makers, self.critics):
            for group in optimiser.param_groups:
                group["lr"] = config.lr * (1 - self.step / self.steps) ** config.power
        order = self.items.order(seed, epoch)
        chosen = order[at * config.batch : (at + 1) * config.batch]
        x, features = self.items.take(chosen, config.patches, seed, self.step)
        share = 0.5 * torch.rand(len(x), generator=_draw(seed, self.step, 1)).to(x.device)

        model.critic.requires_grad_(False)
        with autocast(x.device, config.autocast):
            z = model.encode(x, features)
            # One pass of the generator for both halves: batch norm then sees codes and their mixtures alike.
            fake, between = model.generator(torch.cat([z, losses.mixed(z, share)])).chunk(2)
            verdict = model.critic(between)
        rec = model.reconstruction(x, fake).mean()
        gauss = losses.gauss(z, model.centre, model.sigma).mean()
        reg = losses.fooling(verdict)
        loss = rec + config.w_gauss * gauss + config.w_reg * reg
        self.makers.zero_grad(set_to_none=True)
        loss.backward()
        self.makers.step()

        model.critic.requires_grad_(True)
        fake, between = fake.detach(), between.detach()
        with autocast(x.device, config.autocast):
            verdicts = model.critic(torch.cat([between, fake + config.gamma * (x - fake)]))
        told = losses.critic(verdicts[: len(x)], share, verdicts[len(x) :])
        self.critics.zero_grad(set_to_none=True)
        told.backward()
        self.critics.step()
        terms = {"loss": loss, "rec": rec, "gauss": gauss, "reg": reg, "critic": told}
        values = {k: v.item() for k, v in terms.items()} | {"lr": self.makers.param_groups[0]["lr"]}
        if not math.isfinite(values["loss"]):
            raise ValueError(f"IGD's loss is no longer a number at step {self.step}; lower lr (it is {config.lr})")
        return values

    # State on disk: one file, so that it is whole or absent.

    def _about(self) -> dict:
        """What must be the same for a saved state to be gone on with."""
        first = next(self.model.encoder.parameters()) if not self.model.tuned else torch.zeros(1)
        shape = list(self.items.images.shape)
        return {"config": self.config.to_dict(), "images": shape, "encoder": float(first.detach().double().sum())}

    def _save(self) -> None:
        if self.state is None:
            return
        tensors = {f"model.{k}": v for k, v in self.model.kept().items()}
        for name, optimiser in (("makers", self.makers), ("critics", self.critics)):
            for i, values in optimiser.state_dict()["state"].items():
                tensors |= {f"{name}.{i}.{k}": torch.as_tensor(v) for k, v in values.items()}
        write_tensors(self.state, tensors, {"step": str(self.step), "about": json.dumps(self._about(), sort_keys=True)})

    def _resume(self) -> bool:
        if self.state is None or not self.state.is_file():
            return False
        try:
            with safe_open(self.state, "pt") as file:
                about = file.metadata()
                tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return False
        if json.loads(about["about"]) != json.loads(json.dumps(self._about())):
            return False  # another configuration or study: begin anew
        self.model.restore({k[6:]: v for k, v in tensors.items() if k.startswith("model.")})
        for name, optimiser in (("makers", self.makers), ("critics", self.critics)):
            state: dict[int, dict[str, Tensor]] = {}
            for key, value in tensors.items():
                if key.startswith(name + "."):
                    _, i, what = key.split(".", 2)
                    state.setdefault(int(i), {})[what] = value
            optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        self.step = int(about["step"])
        return True
