"""MedMix settings by name. `paper` is the paper's; the others were chosen by looking at real images."""

from __future__ import annotations

from core.engine.augment.settings import MedMixConfig

MEDMIX_PRESETS: dict[str, MedMixConfig] = {
    "paper": MedMixConfig(),
    "quick": MedMixConfig(
        size=(0.15, 0.35), avoid_overlap=True, shape="ellipse", softness=(0.1, 0.3), p_jitter=0.8, p_fisheye=0.5
    ),
    "soft": MedMixConfig(
        size=(0.1, 0.35),
        shape="irregular",
        softness=(0.2, 0.7),
        blend="alpha",
        opacity=(0.5, 1.0),
        p_jitter=0.8,
        jitter=(0.3, 0.3, 0.3, 0.05),
        p_noise=0.1,
        noise=(0.01, 0.04),
        p_fisheye=0.25,
        p_wave=0.25,
        wave=(0.02, 0.06),
        bulge=(0.0, 0.5),
        shading=(0.0, 0.2),
        avoid_overlap=True,
    ),
}
