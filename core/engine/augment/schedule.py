"""From easy lesions to hard ones while training goes on."""

from __future__ import annotations

from core.engine.augment.settings import MedMixConfig


def eased(config: MedMixConfig, ease: float) -> MedMixConfig:
    """`config` made easier: 0 is `config` itself, 1 its largest, most opaque, hardest-edged and most coloured lesions.

    Ranges shrink towards their easy end; ValueError if `ease` is not within 0..1.
    """
    if not 0 <= ease <= 1:
        raise ValueError(f"ease must be within 0..1, not {ease}")

    def up(ends: tuple[float, float]) -> tuple[float, float]:
        return ends[0] + ease * (ends[1] - ends[0]), ends[1]

    def down(ends: tuple[float, float]) -> tuple[float, float]:
        return ends[0], ends[1] + ease * (ends[0] - ends[1])

    return config.replace(
        size=up(config.size),
        opacity=up(config.opacity),
        softness=down(config.softness),
        match=down(config.match),
        bulge=up(config.bulge),
        shading=up(config.shading),
        p_jitter=config.p_jitter + ease * (1 - config.p_jitter),
    )
