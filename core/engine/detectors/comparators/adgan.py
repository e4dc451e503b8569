"""ADGAN (Liu et al. 2020, "Photoshopping Colonoscopy Video Frames"): a dual GAN, two generators and two discriminators.

One generator maps codes to images, the other images to codes; one critic judges the images, another the codes, and a
cycle through both generators must reconstruct its input. An image with a lesion is reconstructed without it. The paper
of the tables says no more than "two generators and two discriminators"; critics with gradient penalty, layers, Adam and
the weight of the cycle loss are our choices.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from core.engine.backbones.encoder import Encoder
from core.engine.config import BadConfig
from core.engine.detectors.comparators.nets import (
    CodeCritic,
    ConvCode,
    ImageCritic,
    NetConfig,
    NetDetector,
    NetTraining,
    descend,
    gradient_penalty,
    noise,
)
from core.engine.detectors.igd.networks import Generator
from core.engine.registry import DETECTORS
from core.engine.tensors import to_device


@dataclass(frozen=True)
class ADGANConfig(NetConfig):
    """Options of ADGAN.

    w_cycle: weight of the cycle loss, |x - G(E(x))| and |z - E(G(z))|. penalty: weight of both gradient penalties.
    critic_steps: steps of the critics per step of the generators.
    """

    lr: float = 1e-4
    w_cycle: float = 10.0
    penalty: float = 10.0
    critic_steps: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.w_cycle, self.penalty) < 0 or self.critic_steps < 1:
            raise BadConfig("w_cycle and penalty must be 0 or more, critic_steps at least 1")


class ADGANNet(nn.Module):
    def __init__(self, config: ADGANConfig, size: int) -> None:
        super().__init__()
        self.generator = Generator(size, config.latent, config.width)  # Z -> X
        self.code = ConvCode(size, config.latent, config.width)  # X -> Z
        self.image_critic = ImageCritic(size, config.width)
        self.code_critic = CodeCritic(config.latent)


class ADGANTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        net, lr, betas = self.net, self.config.lr, (0.0, 0.9)
        generators = [*net.generator.parameters(), *net.code.parameters()]
        critic_parameters = [*net.image_critic.parameters(), *net.code_critic.parameters()]
        return {
            "opt_generators": torch.optim.Adam(generators, lr, betas),
            "opt_critics": torch.optim.Adam(critic_parameters, lr, betas),
        }

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        net, c = self.net, self.config
        z = noise(x, draws, len(x), c.latent)
        shares = to_device(torch.rand(2, len(x), generator=draws), x.device)
        with torch.no_grad():
            fake, coded = net.generator(z), net.code(x)
        of_images = net.image_critic(x).mean() - net.image_critic(fake).mean()
        of_codes = net.code_critic(z).mean() - net.code_critic(coded).mean()
        penalty = gradient_penalty(net.image_critic, x, fake, shares[0])
        penalty = penalty + gradient_penalty(net.code_critic, z, coded, shares[1])
        critic_loss = c.penalty * penalty - of_images - of_codes
        descend(self.optimisers["opt_critics"], critic_loss)
        numbers = {"critic": critic_loss, "distance_images": of_images, "distance_codes": of_codes}
        if (self.step + 1) % c.critic_steps:
            return {"loss": critic_loss, **numbers}
        coded, fake = net.code(x), net.generator(z)
        cycle = (net.generator(coded) - x).abs().mean() + (net.code(fake) - z).abs().mean()
        loss = c.w_cycle * cycle - net.image_critic(fake).mean() - net.code_critic(coded).mean()
        descend(self.optimisers["opt_generators"], loss)
        return {"loss": loss, "cycle": cycle, **numbers}


@DETECTORS.register("adgan", title="ADGAN", section="Table detection; Liu et al. 2020", own_network=True)
class ADGAN(NetDetector):
    """The ADGAN detector. Score: mean absolute difference between an image and its reconstruction."""

    name = "adgan"
    Config = ADGANConfig
    Training = ADGANTraining
    presets = {
        "paper": ADGANConfig(steps=100_000),
        "quick": ADGANConfig(steps=300, batch=16, lr=1e-3, width=8, latent=32, critic_steps=1),
    }

    @classmethod
    def build(cls, encoder: Encoder, config: ADGANConfig, size: int) -> nn.Module:
        return ADGANNet(config, size)

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        return {"maps": (self.net.generator(self.net.code(x)) - x).abs().mean(1)}
