"""Configuration of IGD (Sec. Anomaly Detection and Segmentation, Eqs. 10 to 12) and its presets."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import BadConfig, Config


@dataclass(frozen=True)
class IGDConfig(Config):
    """Options of IGD.

    Defaults are the constants of IGD's paper and released settings; the preset `published` is closer to the released
    code, and `quick` fits in a minute on a CPU.

    encoder: 'frozen' (as released: only a linear layer on top is trained) or 'tuned' (the whole encoder is fine-tuned,
    as the PMSACL paper says). local_encoder: encoder of the local model, a run or its folder; None for the same as that
    of the global model. local_from: smallest image side at which the local model is used (the paper: none at 64).
    flip: probability that an image is mirrored left to right in training; the features of a frozen encoder are then
    computed in every step instead of cached. patches: random patches per image and step of the local model, 0 for all.
    local_batch: images per step of the local model, 0 for `batch`.
    space: in which images are compared, 'imagenet' (normalised, data range 4.7579) or 'unit' ([0, 1], range 1).
    rho: share of L1 in the reconstruction error. xi, xi_local: share of that error in the score of the global and the
    local model; the rest is the classifier's. local_share: weight of the local model in score and map, 1 - nu of Eq.
    11. overlaps: 'mean' or 'sum' of the patches that cover a pixel of the local map. rescale: whether features are
    scaled to mean 0 and standard deviation 1 before the latent layer.
    w_gauss, w_reg: weights of the classifier and of the critic in the generator's loss. gamma: the critic's mixing.
    reestimate: epochs between estimates of the classifier. sigma: blur of the heat map in pixels at 256 x 256. width,
    critic_width: channels at full resolution. max_steps: largest number of steps of each model, 0 for no limit.
    autocast: whether networks run in bf16 on devices where that is faster.
    """

    encoder: str = "frozen"
    local_encoder: str | None = None
    latent: int = 128
    width: int = 32
    critic_width: int = 32
    epochs: int = 256
    max_steps: int = 0
    batch: int = 16
    lr: float = 1e-4
    betas: tuple[float, float] = (0.0, 0.9)
    weight_decay: float = 1e-6
    power: float = 0.9
    rho: float = 0.15
    w_gauss: float = 1.0
    w_reg: float = 0.1
    gamma: float = 0.2
    reestimate: int = 10
    space: str = "imagenet"
    flip: float = 0.0
    window: int = 11
    levels: tuple[float, ...] = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
    xi: float = 0.1
    local_from: int = 96
    patch: int = 32
    stride: int = 16
    patches: int = 0
    local_window: int = 3
    local_levels: tuple[float, ...] = (0.0516, 0.3295, 0.3463, 0.2726)
    xi_local: float = 0.9
    local_share: float = 0.5
    local_batch: int = 0
    overlaps: str = "mean"
    rescale: bool = True
    sigma: float = 0.0
    autocast: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.encoder not in ("frozen", "tuned"):
            raise BadConfig(f"IGD's encoder must be frozen or tuned, not {self.encoder!r}")
        if self.space not in ("imagenet", "unit"):
            raise BadConfig(f"IGD's space must be imagenet or unit, not {self.space!r}")
        if min(self.latent, self.width, self.critic_width, self.epochs, self.reestimate, self.patch, self.stride) < 1:
            raise BadConfig("IGD's latent, widths, epochs, reestimate, patch and stride must be at least 1")
        if self.batch < 2:
            raise BadConfig("IGD's batch must be at least 2, because an interpolation needs two images")
        if self.lr <= 0 or self.max_steps < 0 or self.patches < 0:
            raise BadConfig("IGD's lr must be above 0, and its max_steps and patches 0 or more")
        shares = (self.flip, self.rho, self.xi, self.xi_local, self.local_share)
        if not all(0 <= share <= 1 for share in shares):
            raise BadConfig("IGD's flip, rho, xi, xi_local and local_share must be between 0 and 1")
        if self.local_batch == 1 or self.local_batch < 0 or self.overlaps not in ("mean", "sum"):
            raise BadConfig("IGD's local_batch must be 0 or at least 2, and its overlaps mean or sum")
        if self.window % 2 == 0 or self.local_window % 2 == 0:
            raise BadConfig("IGD's windows must have an odd number of pixels")

    def uses_local(self, size: int) -> bool:
        """Whether the local model is used for images of side `size`."""
        return self.local_share > 0 and size >= max(self.local_from, self.patch)


PRESETS = {
    "paper": IGDConfig(),
    "published": IGDConfig(flip=0.5, local_batch=2, width=64, overlaps="sum", rescale=False),
    "quick": IGDConfig(width=16, critic_width=16, epochs=80, max_steps=300, lr=1e-3, patches=4),
}
