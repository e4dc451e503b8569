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


def as_named_now(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Renames the tensors of older files as they are named now: up to version 0.2 the variance was called sigma."""
    return {"sigma_sq" if k == "sigma" else k: v for k, v in tensors.items()}


class IGDModel(nn.Module):
    """The global model (`size` the image's side) or the local one (`size` the patch's)."""

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
        """Sets the mode; a frozen encoder stays in eval mode: its batch statistics are part of what is frozen."""
        super().train(mode)
        if not self.tuned:
            self.encoder.eval()
        return self

    def encode(self, x: Tensor, features: Tensor | None = None) -> Tensor:
        """Encodes x (B, 3, s, s) in [0, 1] -> z (B, latent). `features` (B, F) spare the backbone's pass."""
        h = self.encoder.backbone(x) if features is None else features
        with torch.autocast(h.device.type, enabled=False):
            return self.code(h.float())

    @torch.inference_mode()
    def estimate(self, items: Items, batch: int) -> None:
        """Estimates c and sigma^2 of the classifier from all normal items (again every ten epochs and at the end)."""
        was = self.training
        self.eval()
        centre, sigma_sq = classifier(self.code(h) for h in items.blocks(self.encoder, batch))
        self.centre.copy_(centre)
        self.sigma_sq.copy_(sigma_sq)
        self.train(was)

    @torch.inference_mode()
    def judge(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns `judged(x)`, computed without keeping anything for a gradient."""
        return self.judged(x)

    def judged(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Judges x (B, 3, s, s), in eval mode -> reconstruction error (B,), classifier (B,), residual map (B, s, s)."""
        z = self.encode(x)
        back = self.generator(z)
        return self.reconstruction(x, back), gauss(z, self.centre, self.sigma_sq), self.reconstruction.map(x, back)

    def kept(self) -> dict[str, Tensor]:
        """Returns what the weights file must hold: all but a frozen encoder, which is saved as an encoder."""
        return {k: v for k, v in self.state_dict().items() if self.tuned or not k.startswith("encoder.")}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Loads what `kept` returned. Raises ValueError if a tensor is missing."""
        whole, tensors = self.state_dict(), as_named_now(tensors)
        missing = [k for k in self.kept() if k not in tensors]
        if missing:
            raise ValueError(
                f"this IGD model lacks {missing[0]}: it was saved with another configuration; fit it again"
            )
        self.load_state_dict({k: tensors.get(k, v) for k, v in whole.items()})
