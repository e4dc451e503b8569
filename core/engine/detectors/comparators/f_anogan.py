"""f-AnoGAN (Schlegl et al. 2019, "f-AnoGAN: Fast Unsupervised Anomaly Detection with Generative Adversarial Networks").

First a WGAN with gradient penalty learns normal images; then it is frozen, and an encoder learns to find the code of an
image (the izi_f architecture). The layers are our choice.

The defaults of these options are ours, the preset `published` has the released code's: `code_optimiser` and `code_lr`
(Adam as for the generator, which learns faster in short trainings), `batch` and `span` (as for all comparators: 32
images in 0 to 1), `code_bound` (3, as a third of the generator's normally distributed codes lie beyond 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig
from core.engine.detectors.base import Prediction
from core.engine.detectors.comparators.nets import (
    ConvCode,
    ImageCritic,
    NetConfig,
    NetDetector,
    NetTraining,
    descend,
    gradient_penalty,
    mean_inside,
    noise,
)
from core.engine.detectors.igd.networks import Generator
from core.engine.registry import DETECTORS
from core.engine.tensors import to_device


@dataclass(frozen=True)
class FAnoGANConfig(NetConfig):
    """Options of f-AnoGAN.

    steps: of both trainings together. gan: share of the steps for the WGAN. penalty: weight of the gradient penalty
    (10). critic_steps: steps of the critic per step of the generator (5). kappa: weight of the critic's features (1).
    code_optimiser: of the encoder, adam or rmsprop. code_lr: its learning rate, 0 for `lr`. code_bound: largest
    absolute value in a code. span: images are scaled to [-span / 2, span / 2].
    """

    lr: float = 1e-4
    gan: float = 0.7
    penalty: float = 10.0
    critic_steps: int = 5
    kappa: float = 1.0
    code_optimiser: str = "adam"
    code_lr: float = 0.0
    code_bound: float = 3.0
    span: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.gan < 1 or self.critic_steps < 1 or min(self.penalty, self.kappa) < 0:
            raise BadConfig("gan must be between 0 and 1, critic_steps at least 1, penalty and kappa 0 or more")
        if self.code_optimiser not in ("adam", "rmsprop") or self.code_lr < 0 or min(self.code_bound, self.span) <= 0:
            raise BadConfig("code_optimiser must be adam or rmsprop, code_lr 0 or more, code_bound and span above 0")


class FAnoGANNet(nn.Module):
    def __init__(self, config: FAnoGANConfig, size: int) -> None:
        super().__init__()
        self.generator = Generator(size, config.latent, config.width)
        self.critic = ImageCritic(size, config.width)
        self.code = ConvCode(size, config.latent, config.width)
        self.bound, self.span = config.code_bound, config.span

    def shown(self, x: Tensor) -> Tensor:
        """Scales x in [0, 1] for the networks, which subtract 0.5 themselves."""
        return (x - 0.5) * self.span + 0.5

    def residuals(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the squared residuals of x (B, 3, S, S).

        Returns those of the pixels, (B, S, S), and the mean over the critic's features, (B,).
        """
        x = self.shown(x)
        back = self.shown(self.generator(torch.tanh(self.code(x)) * self.bound))
        feature_residuals = (self.critic.features(x) - self.critic.features(back)).square().mean(1)
        return (x - back).square().mean(1), feature_residuals


class FAnoGANTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        net, c, lr, betas = self.net, self.config, self.config.lr, (0.0, 0.9)
        code_optimiser = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[c.code_optimiser]
        return {
            "opt_generator": torch.optim.Adam(net.generator.parameters(), lr, betas),
            "opt_critic": torch.optim.Adam(net.critic.parameters(), lr, betas),
            "opt_code": code_optimiser(net.code.parameters(), c.code_lr or lr),
        }

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        if self.step < self.config.gan * self.steps:
            return self.wgan(x, draws)
        self.net.generator.eval()
        pixels, feature_residuals = self.net.residuals(x)
        loss = pixels.mean() + self.config.kappa * feature_residuals.mean()  # L_izi_f
        descend(self.optimisers["opt_code"], loss)
        return {"loss": loss, "residual": pixels.mean(), "features": feature_residuals.mean()}

    def wgan(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        """Takes a step of the critic, and every `critic_steps` steps one of the generator."""
        net, c = self.net, self.config
        z = noise(x, draws, len(x), c.latent)
        share = to_device(torch.rand(len(x), generator=draws), x.device)
        x = net.shown(x)
        with torch.no_grad():
            fake = net.shown(net.generator(z))
        distance = net.critic(x).mean() - net.critic(fake).mean()
        penalty = gradient_penalty(net.critic, x, fake, share)
        loss = c.penalty * penalty - distance
        descend(self.optimisers["opt_critic"], loss)
        if (self.step + 1) % c.critic_steps == 0:
            descend(self.optimisers["opt_generator"], -net.critic(net.shown(net.generator(z))).mean())
        return {"loss": loss, "distance": distance, "penalty": penalty}


@DETECTORS.register("f-anogan", title="f-AnoGAN", section="Table detection; Schlegl et al. 2019", own_network=True)
class FAnoGAN(NetDetector):
    """f-AnoGAN. Score A_R(x) + kappa A_D(x): residuals of the image and of the critic's features. Map: the former."""

    name = "f-anogan"
    Config = FAnoGANConfig
    Training = FAnoGANTraining
    presets = {
        "paper": FAnoGANConfig(steps=100_000),
        "published": FAnoGANConfig(
            steps=100_000, batch=64, code_optimiser="rmsprop", code_lr=5e-5, code_bound=1.0, span=2.0
        ),
        "quick": FAnoGANConfig(steps=400, batch=16, lr=1e-3, width=8, latent=32, critic_steps=2),
    }

    @classmethod
    def build(cls, encoder: Encoder, config: FAnoGANConfig, size: int) -> nn.Module:
        return FAnoGANNet(config, size)

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        pixels, feature_residuals = self.net.residuals(x)
        return {"maps": pixels, "features": feature_residuals}

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Returns A(x), float32 (N,); the critic's part is always that of the whole image."""
        score: np.ndarray = mean_inside(prediction.maps, roi) + self.config.kappa * prediction.extras["features"]
        return score.astype(np.float32)
