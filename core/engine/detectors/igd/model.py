"""One IGD model: f_theta (encoder and code), g_phi (generator), the critic, the classifier's centre and variance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from core.engine.backbones.encoder import Encoder
from core.engine.detectors.igd.config import IGDConfig
from core.engine.detectors.igd.items import Items
from core.engine.detectors.igd.losses import Reconstruction, classifier, gauss
from core.engine.detectors.igd.networks import Code, Critic, Generator
from core.engine.losses.ms_ssim import fit_levels


class IGDModel(nn.Module):
    """The global model (`size` is the side of an image) or the local one (`size` is the side of a patch)."""

    centre: Tensor
    sigma_sq: Tensor  # sigma_gamma^2, a variance

    def __init__(self, encoder: Encoder, config: IGDConfig, size: int, local: bool) -> None:
        super().__init__()
        self.size, self.local, self.tuned = size, local, config.encoder == "tuned"
        self.encoder = encoder
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2 * config.seed + local)
            self.code = Code(encoder.features, config.latent)
            self.generator = Generator(size, config.latent, config.width)
            self.critic = Critic(size, config.critic_width)
        self.register_buffer("centre", torch.zeros(config.latent))
        self.register_buffer("sigma_sq", torch.ones(()))
        window, levels = (config.local_window, config.local_levels) if local else (config.window, config.levels)
        self.reconstruction = Reconstruction(window, fit_levels(size, window, levels), config.rho, config.space)
        self.encoder.requires_grad_(self.tuned)
        self.to(memory_format=torch.channels_last)  # generator and critic: 1.3 times as fast on two cores

    def train(self, mode: bool = True) -> IGDModel:
        """Sets the mode; a frozen encoder stays in eval mode, so that its batch statistics are frozen as well."""
        super().train(mode)
        if not self.tuned:
            self.encoder.eval()
        return self

    def encode(self, x: Tensor, features: Tensor | None = None) -> Tensor:
        """Encodes x (B, 3, s, s) in [0, 1] as z (B, latent). features: (B, F), the backbone's result if cached."""
        h = self.encoder.backbone(x) if features is None else features
        with torch.autocast(h.device.type, enabled=False):
            return self.code(h.float())

    @torch.inference_mode()
    def estimate(self, items: Items, batch: int) -> None:
        """Estimates the classifier's c and sigma^2 from all items."""
        was_training = self.training
        self.eval()
        centre, sigma_sq = classifier(self.code(h) for h in items.blocks(self.encoder, batch))
        self.centre.copy_(centre)
        self.sigma_sq.copy_(sigma_sq)
        self.train(was_training)

    @torch.inference_mode()
    def judge(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns `judged(x)`, computed without gradients."""
        return self.judged(x)

    def judged(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the reconstruction error (B,), h_psi (B,) and residual map (B, s, s) of x (B, 3, s, s)."""
        z = self.encode(x)
        back = self.generator(z)
        return self.reconstruction(x, back), gauss(z, self.centre, self.sigma_sq), self.reconstruction.map(x, back)
