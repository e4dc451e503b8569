"""OCGAN (Perera et al. 2019, "One-class Novelty Detection Using GANs with Constrained Latent Representations").

A denoising auto-encoder with a bounded code, a critic that keeps the codes of normal images uniform in (-1, 1)^d, a
critic that makes the image of every code look normal, and a classifier that searches for codes for which this fails
(Algorithm 1). Layers and Adam are our choices.

The defaults of these options are ours, the preset `published` has the released code's: `w_mse` (lambda in the text,
10), `w_latent` (no weight in the text), `searches` and `rate` (several steps, no rate in the text), `squashed` (codes
stay uniform before the search), `mine_from` (with the released value a short training would hardly search).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
    noise,
)
from core.engine.detectors.igd.networks import Generator
from core.engine.registry import DETECTORS
from core.engine.tensors import to_device


@dataclass(frozen=True)
class OCGANConfig(NetConfig):
    """Options of OCGAN.

    w_mse: weight of the reconstruction error (the paper's lambda, 10). w_latent: weight of the codes' critic. noise:
    standard deviation of the noise added to the input in training (the paper: variance 0.2 on images in -1 to 1).
    searches: gradient steps in the search for a negative; rate: their step size. squashed: whether codes are the tanh
    of the values that the search moves, instead of being clipped to -1 to 1. mine_from: share of the training after
    which the search starts.
    """

    lr: float = 2e-4
    w_mse: float = 10.0
    noise: float = 0.2
    searches: int = 5
    rate: float = 0.1
    w_latent: float = 1.0
    squashed: bool = False
    mine_from: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.w_mse, self.w_latent, self.noise, self.rate, self.searches) < 0 or not 0 <= self.mine_from <= 1:
            raise BadConfig("weights, noise, rate and searches must be 0 or more, and mine_from between 0 and 1")


class OCGANNet(nn.Module):
    def __init__(self, config: OCGANConfig, size: int) -> None:
        super().__init__()
        self.code = ConvCode(size, config.latent, config.width)
        self.decoder = Generator(size, config.latent, config.width)
        self.code_critic = CodeCritic(config.latent)
        self.image_critic = ImageCritic(size, config.width)
        self.classifier = ImageCritic(size, config.width)

    def encode(self, x: Tensor) -> Tensor:
        """Encodes images (B, 3, S, S) as codes (B, latent) in -1 to 1."""
        return torch.tanh(self.code(x))


def negatives(net: OCGANNet, codes: Tensor, searches: int, rate: float, squashed: bool = False) -> Tensor:
    """Searches for informative negatives: moves codes (B, d) to where the classifier finds their images least normal.

    Each search step is one of gradient descent on the cross-entropy of "not normal". Codes stay in -1 to 1: they are
    clipped or, if `squashed`, the tanh of the values that are moved.
    """
    codes = codes.detach()
    for _ in range(searches):
        codes.requires_grad_()
        verdict = net.classifier(net.decoder(codes.tanh() if squashed else codes))
        loss = F.binary_cross_entropy_with_logits(verdict, torch.zeros_like(verdict), reduction="sum")
        (slope,) = torch.autograd.grad(loss, codes)
        codes = (codes - rate * slope).detach()
        codes = codes if squashed else codes.clamp(-1, 1)
    return codes.tanh() if squashed else codes


def verdict_loss(verdict: Tensor, real: bool) -> Tensor:
    """Computes the cross-entropy of verdicts (B,) whose label is `real` for all."""
    return F.binary_cross_entropy_with_logits(verdict, torch.full_like(verdict, float(real)))


class OCGANTraining(NetTraining):
    def build_optimisers(self) -> dict[str, torch.optim.Optimizer]:
        net, lr, betas = self.net, self.config.lr, (0.5, 0.999)
        reconstructing = [*net.code.parameters(), *net.decoder.parameters()]
        judges = [*net.code_critic.parameters(), *net.image_critic.parameters()]
        return {
            "opt_autoencoder": torch.optim.Adam(reconstructing, lr, betas),
            "opt_critics": torch.optim.Adam(judges, lr, betas),
            "opt_classifier": torch.optim.Adam(net.classifier.parameters(), lr, betas),
        }

    def learn(self, x: Tensor, draws: torch.Generator) -> dict[str, Tensor]:
        net, c = self.net, self.config
        noisy = x + c.noise * noise(x, draws)
        uniform = to_device(2 * torch.rand(len(x), c.latent, generator=draws) - 1, x.device)
        with torch.no_grad():
            codes = net.encode(noisy)
            reconstructed, decoded = net.decoder(codes), net.decoder(uniform)
        classifier = verdict_loss(net.classifier(reconstructed), True) + verdict_loss(net.classifier(decoded), False)
        descend(self.optimisers["opt_classifier"], classifier)
        critic_loss = (
            verdict_loss(net.code_critic(uniform), True)
            + verdict_loss(net.code_critic(codes), False)
            + verdict_loss(net.image_critic(x), True)
            + verdict_loss(net.image_critic(decoded), False)
        )
        descend(self.optimisers["opt_critics"], critic_loss)
        searches = c.searches if self.step >= c.mine_from * self.steps else 0
        negative_codes = negatives(net, uniform, searches, c.rate, c.squashed)
        codes = net.encode(noisy)
        mse = (net.decoder(codes) - x).square().mean()
        latent = verdict_loss(net.code_critic(codes), True)
        visual = verdict_loss(net.image_critic(net.decoder(negative_codes)), True)
        loss = c.w_mse * mse + c.w_latent * latent + visual
        descend(self.optimisers["opt_autoencoder"], loss)
        return {
            "loss": loss,
            "mse": mse,
            "latent": latent,
            "visual": visual,
            "critic": critic_loss,
            "classifier": classifier,
        }


@DETECTORS.register("ocgan", title="OCGAN", section="Table detection; Perera et al. 2019", own_network=True)
class OCGAN(NetDetector):
    """The OCGAN detector. Score: mean squared error of the reconstruction."""

    name = "ocgan"
    Config = OCGANConfig
    Training = OCGANTraining
    presets = {
        "paper": OCGANConfig(),
        "published": OCGANConfig(w_mse=250.0, w_latent=10.0, searches=1, rate=2.0, squashed=True, mine_from=0.75),
        "quick": OCGANConfig(steps=200, batch=16, lr=1e-3, width=8, latent=64, searches=2),
    }

    @classmethod
    def build(cls, encoder: Encoder, config: OCGANConfig, size: int) -> nn.Module:
        return OCGANNet(config, size)

    def judge(self, x: Tensor) -> dict[str, Tensor]:
        return {"maps": (self.net.decoder(self.net.encode(x)) - x).square().mean(1)}
