"""MedMix settings by name. `paper` is the paper's; the others were chosen by looking at real images.

FAMILIES are kinds of lesion that have little in common: train on some and validate on others (no test lesion needed).
"""

from __future__ import annotations

from core.engine.augment.medmix.settings import MedMixConfig

_SOFT = MedMixConfig(
    size=(0.1, 0.35),
    shape="irregular",
    softness=(0.2, 0.7),
    blend="alpha",
    opacity=(0.5, 1.0),
    p_jitter=0.8,
    jitter=(0.3, 0.3, 0.3, 0.05),
    p_noise=0.1,
    noise=(0.01, 0.04),
    wave=(0.02, 0.06),
    bulge=(0.0, 0.5),
    shading=(0.0, 0.2),
    avoid_overlap=True,
)

MEDMIX_PRESETS: dict[str, MedMixConfig] = {
    "paper": MedMixConfig(),
    # the paper's idea with round lesions that never hide one another: classes that a small encoder learns in minutes
    "quick": MedMixConfig(
        size=(0.15, 0.35), avoid_overlap=True, shape="ellipse", softness=(0.1, 0.3), p_jitter=0.8, p_fisheye=0.5
    ),
    "soft": _SOFT,
    # for an image of any kind: every size from a spot to a third of the side, every shape, origin and edge
    "varied": _SOFT.replace(
        size=(0.03, 0.4),
        even_ratio=True,
        shape="ellipse+irregular",
        irregularity=0.7,
        softness=(0.1, 0.8),
        opacity=(0.6, 1.0),
        donor="other+same+here+texture",
        match=(0.3, 1.0),
        p_jitter=1.0,
        jitter=(0.5, 0.4, 0.4, 0.06),
        contrast=(0.05, 0.3),
    ),
    # polyps: domes of the mucosa's own colour, lit from one side
    "endoscopy": _SOFT.replace(
        size=(0.12, 0.42),
        aspect=1.7,
        irregularity=0.35,
        softness=(0.08, 0.45),
        blend="alpha+poisson",
        opacity=(0.6, 1.0),
        donor="same+other+here+texture",
        donor_scale=(0.6, 1.6),
        match=(0.4, 1.0),
        jitter=(0.25, 0.3, 0.35, 0.03),
        bulge=(0.1, 0.8),
        shading=(0.05, 0.3),
        contrast=(0.05, 0.2),
    ),
    # exudates, haemorrhages, scars: small, irregular, brighter or darker than the retina
    "fundus": _SOFT.replace(
        size=(0.02, 0.16),
        irregularity=0.9,
        softness=(0.2, 0.9),
        opacity=(0.6, 1.0),
        donor="here+texture+same",
        match=(0.7, 1.0),
        p_jitter=1.0,
        jitter=(0.6, 0.4, 0.4, 0.06),
        bulge=(0.0, 0.3),
        shading=(0.0, 0.1),
        contrast=(0.05, 0.3),
    ),
    # opacities and effusions: large, veiling, what lies beneath shows through
    "xray": _SOFT.replace(
        size=(0.12, 0.45),
        irregularity=0.7,
        softness=(0.6, 1.0),
        opacity=(0.4, 0.9),
        donor="here+texture+other",
        match=(0.7, 1.0),
        p_jitter=1.0,
        jitter=(0.35, 0.5, 0.0, 0.0),
        noise_colour=False,
        noise=(0.01, 0.03),
        bulge=(0.0, 0.2),
        shading=(0.0, 0.1),
        contrast=(0.03, 0.15),
    ),
    # masses and cysts: round or irregular, darker or brighter, with their own speckle
    "ultrasound": _SOFT.replace(
        size=(0.08, 0.38),
        shape="mixed",
        softness=(0.05, 0.4),
        opacity=(0.6, 1.0),
        donor="here+texture+same",
        match=(0.7, 1.0),
        p_jitter=1.0,
        jitter=(0.5, 0.4, 0.0, 0.0),
        p_noise=0.5,
        noise=(0.01, 0.04),
        noise_colour=False,
        bulge=(0.0, 0.3),
        contrast=(0.1, 0.35),
    ),
    # lesions that fill much of the frame, of every origin: what the lesion head learns from beside `endoscopy`
    "large": _SOFT.replace(
        size=(0.15, 0.6), opacity=(0.4, 1.0), donor="other+same+texture", bulge=(0.0, 0.6), shading=(0.0, 0.5)
    ),
    # the place's own tissue, swollen and lit, up to most of the frame
    "swell": _SOFT.replace(
        size=(0.2, 0.7), opacity=(0.6, 1.0), donor="here+same", bulge=(0.1, 0.7), shading=(0.1, 0.6)
    ),
    # large blocks of drawn noise, absurdly easy on purpose: to see what the probe says, and what such classes teach
    "easy": MedMixConfig(
        size=(0.34, 0.34),
        aspect=1.0,
        donor="texture",
        contrast=(1.0, 1.0),
        p_jitter=0.0,
        p_noise=1.0,
        noise=(0.4, 0.4),
        p_fisheye=0.0,
        p_wave=0.0,
        avoid_overlap=True,
    ),
    # families
    "cut": _SOFT.replace(shape="rectangle", softness=(0.0, 0.0), blend="paste", bulge=(0.0, 0.0), shading=(0.0, 0.0)),
    "seam": _SOFT.replace(blend="poisson", opacity=(0.8, 1.0), donor="other", p_jitter=0.3),
    "lens": _SOFT.replace(donor="here", opacity=(1.0, 1.0), bulge=(0.5, 0.9), p_fisheye=1.0, p_jitter=0.0),
    "stain": _SOFT.replace(donor="here", p_jitter=1.0, jitter=(0.5, 0.4, 0.5, 0.08), bulge=(0.0, 0.0), p_fisheye=0.0),
    "mottle": _SOFT.replace(donor="texture", contrast=(0.15, 0.5), shape="ellipse"),
    "grain": _SOFT.replace(donor="here", p_noise=1.0, noise=(0.04, 0.12), p_jitter=0.2, bulge=(0.0, 0.0)),
    "foreign": _SOFT.replace(donor="foreign", match=(0.5, 1.0)),
    "zoom": _SOFT.replace(donor="same", donor_scale=(0.3, 2.5), match=(0.5, 1.0)),
}

FAMILIES = ("cut", "soft", "seam", "lens", "stain", "mottle", "grain", "foreign", "zoom")
