"""Options and presets of MedMix and of the weak views. This module does not import torch, so forms load fast.

The paper describes MedMix (Sec. MedMix, implementation details) but gives no sizes or strengths. In all presets,
including `paper`, they were chosen by eye on real images. The presets `cut` to `zoom` paste very different kinds of
lesions: an encoder can be trained on some kinds and validated on others, without test lesions.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.config import Config, option, options

SHAPES = ("rectangle", "ellipse", "irregular")
BLENDS = ("paste", "alpha", "poisson")
DONORS = ("other", "same", "here", "texture", "foreign", "marked")
JITTER = ("brightness", "contrast", "saturation", "hue")
MOST_CLASSES = 7  # A_1 .. A_7
_JITTER_HIGH = (1.0, 1.0, 1.0, 0.5)  # a hue shift of 0.5 is the opposite colour
_CHANCE = "The paper uses a probability of 25 % (implementation details)."


def strong_classes(sentence: str = "", **declared: object) -> int:
    """Declares the option `k` of a strong augmentation: the largest n of its classes A_n (1 to 7, by default 3)."""
    field: int = option(3, sentence or "Largest n of the classes A_n.", low=1, high=MOST_CLASSES, **declared)
    return field


def spread(
    default: tuple[float, float], sentence: str, low: float, high: float, **declared: object
) -> tuple[float, float]:
    """Declares an option whose value is a range (low, high) from which a number is drawn uniformly.

    Args:
        default: Default range.
        sentence: Help text of the option.
        low: Smallest allowed value of the lower end.
        high: Largest allowed value of the upper end.
        declared: Additional arguments for `option`.
    """
    field: tuple[float, float] = option(default, sentence, low=low, high=high, ascending=True, **declared)
    return field


def _colour_jitter(*default: float) -> tuple[float, float, float, float]:
    field: tuple[float, float, float, float] = option(
        default,
        "Strength of each change. The strength of the hue shift is at most 0.5.",
        low=0,
        high=_JITTER_HIGH,
        step=0.02,
        parts=JITTER,
        label="Colour jitter",
    )
    return field


@dataclass(frozen=True)
class MedMixConfig(Config):
    """Options of MedMix. If an option is a range (low, high), its value is drawn uniformly for each lesion.

    Lengths are relative to the side length of the image or patch. `shape`, `blend` and `donor` take one name, several
    names joined by "+" (one is drawn for each lesion) or "mixed" (a predefined combination).
    """

    k: int = strong_classes(
        "Classes A_0 to A_k: n lesions make class A_n (Sec. MedMix).",
        label="Most lesions per image",
        group="Lesions",
    )
    size: tuple[float, float] = spread(
        (0.1, 0.3),
        "Relative to the image's side length. The paper gives no size.",
        0.01,
        1,
        label="Size of a lesion",
        slider=(0.02, 0.8),
        step=0.01,
    )
    even_ratio: bool = option(False, "2 to 4 % is then as frequent as 20 to 40 %.", label="As many small as large")
    aspect: float = option(
        2.0, "With 1, the box of a lesion is a square.", low=1, high=5, step=0.1, label="Largest ratio of sides"
    )
    shape: str = option(
        "rectangle",
        "The paper cuts rectangular crops (Sec. MedMix).",
        choices=SHAPES,
        several=True,
        aliases={"mixed": ("ellipse", "irregular")},
        label="Shape",
    )
    irregularity: float = option(
        0.5, "0 gives an ellipse, 1 a ragged blob.", low=0, high=1, step=0.05, label="Irregularity"
    )
    avoid_overlap: bool = option(
        True,
        "Class A_2 then always shows two lesions. Lesions are made smaller if an image has no room for them.",
        label="Keep lesions apart",
    )
    least_contrast: float = option(
        15.0,
        "Mean change of the three channels, out of 255, that makes a lesion's pixel visible. Lesions with too few "
        "visible pixels are made brighter or darker, because their class would be wrong. 0 turns this off.",
        low=0,
        high=100,
        step=1,
        unit="grey levels",
        label="Least contrast",
    )
    least_area: int = option(
        12, "Smallest number of visible pixels of a lesion.", low=1, high=400, unit="pixels", label="Least area"
    )
    inside: float = option(
        0.95,
        "Smallest fraction of a lesion's box, so that lesions do not lie on the border or on text.",
        low=0,
        high=1,
        step=0.05,
        label="Part inside the region of interest",
    )
    blend: str = option(
        "paste",
        "paste is opaque, alpha is translucent, poisson keeps the patch's gradients (no seam) and is then translucent.",
        choices=BLENDS,
        several=True,
        aliases={"mixed": ("alpha", "poisson")},
        label="Blending",
        group="Edge and blending",
    )
    softness: tuple[float, float] = spread(
        (0.0, 0.0),
        "Relative to the lesion's radius. 0 gives a hard edge.",
        0,
        1,
        step=0.02,
        label="Softness of the edge",
    )
    opacity: tuple[float, float] = spread(
        (1.0, 1.0), "Used by alpha and poisson blending.", 0.01, 1, slider=(0.05, 1), step=0.05, label="Opacity"
    )
    donor: str = option(
        "other",
        "other: a random image of the minibatch (Sec. MedMix). same: another place in the same image. here: the same "
        "place, deformed. texture: a drawn texture. foreign: another study. marked: a lesion that readers annotated, "
        "with its outline and size; if there is no annotation, 'other' is used.",
        choices=DONORS,
        several=True,
        aliases={"mixed": ("other", "same", "texture")},
        label="Donor",
        names={
            "other": "other image",
            "same": "same image",
            "here": "in place",
            "texture": "drawn",
            "foreign": "other study",
            "marked": "readers' marks",
        },
        group="Where it is cut from",
    )
    donor_study: str = option(
        "",
        "Study that the donor 'foreign' cuts from. If none is chosen, changed colours imitate another modality.",
        control="study",
        label="Other study",
    )
    donor_scale: tuple[float, float] = spread(
        (1.0, 1.0),
        "Above 1, the patch is shrunk; below 1, it is enlarged.",
        0.1,
        4,
        slider=(0.2, 3),
        step=0.05,
        label="Cut size / pasted size",
    )
    contrast: tuple[float, float] = spread(
        (0.1, 0.4), "For the donor 'texture'.", 0, 1, step=0.02, label="Contrast of drawn textures"
    )
    p_jitter: float = option(
        0.25, _CHANCE, low=0, high=1, step=0.05, label="Chance of colour jitter", group="Colour and grain"
    )
    jitter: tuple[float, float, float, float] = _colour_jitter(0.4, 0.4, 0.4, 0.1)
    p_noise: float = option(0.25, _CHANCE, low=0, high=1, step=0.05, label="Chance of Gaussian noise")
    noise: tuple[float, float] = spread(
        (0.02, 0.1), "Standard deviation, for pixels from 0 to 1.", 0, 1, slider=(0, 0.4), step=0.005, label="Noise"
    )
    noise_colour: bool = option(True, "Off: the same noise in all channels.", label="Noise in each channel")
    match: tuple[float, float] = spread(
        (0.0, 0.0),
        "Shift of a lesion's mean colour towards the mean colour where it is pasted: 0 is none, 1 is complete.",
        0,
        1,
        step=0.05,
        label="Colour brought to its place",
    )
    shading: tuple[float, float] = spread(
        (0.0, 0.0), "Strength of a light that falls on the lesion.", 0, 1, step=0.02, label="Light from one side"
    )
    p_fisheye: float = option(0.25, _CHANCE, low=0, high=1, step=0.05, label="Chance of fisheye", group="Deformation")
    fisheye: tuple[float, float] = spread(
        (0.3, 0.8), "Strength of the magnification at each control point.", 0, 0.95, step=0.05, label="Fisheye"
    )
    p_wave: float = option(0.25, _CHANCE, low=0, high=1, step=0.05, label="Chance of a wave")
    wave: tuple[float, float] = spread(
        (0.03, 0.1), "Amplitude, relative to the patch.", 0, 1, slider=(0, 0.5), step=0.01, label="Horizontal wave"
    )
    control_points: int = option(
        3, "Used by fisheye and wave. The paper uses three.", low=1, high=16, label="Control points"
    )
    bulge: tuple[float, float] = spread(
        (0.0, 0.0), "Strength of the magnification of the whole lesion.", 0, 0.95, step=0.05, label="Bulge"
    )

    matched: tuple[str, ...] = option(
        tuple,
        "SHA-256 digests of the images whose lesions these settings were matched to. Metrics exclude these images.",
        control="hidden",
    )

    @property
    def shown(self) -> tuple[float, int]:
        """Smallest change (0 to 1) and number of changed pixels of a visible lesion; (0, 0) disables the check."""
        return (self.least_contrast / 255, self.least_area) if self.least_contrast else (0.0, 0)

    @property
    def pooled(self) -> str:
        """Name of the study from which the donor `foreign` cuts lesions, or '' if that donor is not used."""
        return self.donor_study if DONORS.index("foreign") in self.choices("donor") else ""

    @property
    def from_marks(self) -> bool:
        """Whether lesions annotated by readers are pasted (the donor `marked`)."""
        return DONORS.index("marked") in self.choices("donor")

    def choices(self, name: str) -> list[int]:
        """Returns the selected choices of the option `name`, as indices into its list of allowed choices."""
        declared = options(type(self))[name]
        return [declared.choices.index(v) for v in declared.chosen(getattr(self, name))]


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
)

MEDMIX_PRESETS: dict[str, MedMixConfig] = {
    "paper": MedMixConfig(),
    "quick": MedMixConfig(
        size=(0.15, 0.35),
        shape="ellipse",
        softness=(0.1, 0.3),
        match=(0.3, 1.0),
        p_jitter=0.8,
        jitter=(0.3, 0.3, 0.3, 0.03),
        p_fisheye=0.5,
    ),
    "soft": _SOFT,
    "varied": _SOFT.replace(
        size=(0.03, 0.4),
        even_ratio=True,
        shape="ellipse+irregular",
        irregularity=0.7,
        softness=(0.2, 0.8),
        opacity=(0.5, 1.0),
        donor="other+same+here+texture",
        match=(0.3, 1.0),
        p_jitter=1.0,
        jitter=(0.4, 0.4, 0.3, 0.03),
        contrast=(0.05, 0.3),
    ),
    "lesions": _SOFT.replace(
        size=(0.1, 0.45),
        shape="ellipse+irregular",
        irregularity=0.6,
        softness=(0.3, 0.9),
        opacity=(0.5, 1.0),
        donor="same+same+other+texture",
        donor_scale=(0.6, 1.6),
        match=(0.3, 1.0),
        jitter=(0.25, 0.35, 0.3, 0.03),
        bulge=(0.0, 0.6),
        shading=(0.0, 0.4),
        contrast=(0.05, 0.25),
    ),
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
    "large": _SOFT.replace(
        size=(0.15, 0.6), opacity=(0.4, 1.0), donor="other+same+texture", bulge=(0.0, 0.6), shading=(0.0, 0.5)
    ),
    "swell": _SOFT.replace(
        size=(0.2, 0.7), opacity=(0.6, 1.0), donor="here+same", bulge=(0.1, 0.7), shading=(0.1, 0.6)
    ),
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
    ),
    "cut": _SOFT.replace(shape="rectangle", softness=(0.0, 0.0), blend="paste", bulge=(0.0, 0.0), shading=(0.0, 0.0)),
    "seam": _SOFT.replace(blend="poisson", opacity=(0.8, 1.0), donor="other", p_jitter=0.3),
    "lens": _SOFT.replace(donor="here", opacity=(1.0, 1.0), bulge=(0.5, 0.9), p_fisheye=1.0, p_jitter=0.0),
    "stain": _SOFT.replace(donor="here", p_jitter=1.0, jitter=(0.5, 0.4, 0.5, 0.08), bulge=(0.0, 0.0), p_fisheye=0.0),
    "mottle": _SOFT.replace(donor="texture", contrast=(0.15, 0.5), shape="ellipse"),
    "grain": _SOFT.replace(donor="here", p_noise=1.0, noise=(0.04, 0.12), p_jitter=0.2, bulge=(0.0, 0.0)),
    "foreign": _SOFT.replace(donor="foreign", match=(0.5, 1.0)),
    "zoom": _SOFT.replace(donor="same", donor_scale=(0.3, 2.5), match=(0.5, 1.0)),
}
MEDMIX_NOTES = {  # shown next to the presets
    "paper": "As published: rectangular patches of other images",
    "quick": "Round, opaque lesions that a small encoder learns in minutes",
    "soft": "Soft edges, no corners",
    "varied": "For any kind of image: every size, shape and edge",
    "lesions": "Larger lesions of the image's own tissue, fading edges",
    "endoscopy": "Polyps: domes of mucosa, lit from one side",
    "fundus": "Exudates and haemorrhages: small, irregular, bright or dark",
    "xray": "Opacities and effusions: large, veiling",
    "ultrasound": "Masses and cysts with their own speckle",
    "large": "Lesions that fill much of the frame",
    "swell": "Tissue that swells, up to most of the frame",
    "easy": "Blocks of noise, easy to detect on purpose, to check the numbers",
    "cut": "Hard-edged rectangles",
    "seam": "Patches of other images, blended without a seam",
    "lens": "Bulges of the image itself, its colour unchanged",
    "stain": "Spots of another colour, flat",
    "mottle": "Ovals of drawn texture",
    "grain": "Grainy spots of the image itself",
    "foreign": "Cut from another study",
    "zoom": "The image's own tissue, enlarged or reduced",
}


@dataclass(frozen=True)
class WeakConfig(Config):
    """Options of the weak views. Defaults are SimCLR's (Chen et al. 2020, appendix A), as in the paper."""

    crop: tuple[float, float] = spread(
        (0.08, 1.0),
        "Relative to the image's area. With SimCLR's 0.08, a fifth of the crops of A_1 show no lesion.",
        0.01,
        1,
        slider=(0.05, 1),
        step=0.01,
        label="Area of the crop",
        group="Weak views",
    )
    ratio: tuple[float, float] = spread(
        (3 / 4, 4 / 3), "Aspect ratio of the crop.", 0.1, 10, slider=(0.3, 3), step=0.01, label="Width over height"
    )
    flip: float = option(0.5, "Swaps left and right.", low=0, high=1, step=0.05, label="Chance of mirroring")
    jitter: tuple[float, float, float, float] = _colour_jitter(0.8, 0.8, 0.8, 0.2)
    p_jitter: float = option(0.8, "For each view.", low=0, high=1, step=0.05, label="Chance of colour jitter")
    p_grey: float = option(0.2, "For each view.", low=0, high=1, step=0.05, label="Chance of greyscale")
    p_blur: float = option(0.5, "For each view.", low=0, high=1, step=0.05, label="Chance of blur")
    sigma: tuple[float, float] = spread(
        (0.1, 2.0),
        "Standard deviation for an image with a side of 256 pixels. It scales with the side.",
        0,
        20,
        unit="pixels",
        slider=(0, 8),
        step=0.1,
        label="Blur",
    )


WEAK_PRESETS: dict[str, WeakConfig] = {
    "simclr": WeakConfig(),
    "gentle": WeakConfig(crop=(0.6, 1.0), jitter=(0.2, 0.2, 0.2, 0.05), p_grey=0.1, p_blur=0.3, sigma=(0.1, 1.0)),
}
