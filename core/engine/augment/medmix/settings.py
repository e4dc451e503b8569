"""Configuration of MedMix (Sec. MedMix and implementation details; the paper gives no sizes or strengths)."""

from __future__ import annotations

from dataclasses import dataclass

from core.engine.augment.strong import check_k, check_range
from core.engine.config import BadConfig, Config

SHAPES = ("rectangle", "ellipse", "irregular")
BLENDS = ("paste", "alpha", "poisson")
DONORS = ("other", "same", "here", "texture", "foreign")
_MIXED = {"shape": ("ellipse", "irregular"), "blend": ("alpha", "poisson"), "donor": ("other", "same", "texture")}


@dataclass(frozen=True)
class MedMixConfig(Config):
    """MedMix. Ranges are (low, high), drawn evenly per lesion; lengths are fractions of the image's or patch's side.

    `shape`, `blend` and `donor` take one name, several joined by "+" (drawn evenly per lesion), or "mixed".
    The defaults are the paper's; what it does not print (size, strengths) was chosen by looking.

    k: strongest class, 1..7. size: side of a lesion's box, of the image's side; even_ratio: drawn evenly in its
      logarithm, as many small ones as large. aspect: longest ratio of its sides.
    shape: rectangle | ellipse | irregular. irregularity: 0 an ellipse .. 1 a ragged blob.
    softness: width of the edge as a part of the radius; 0 is a hard edge.
    blend: paste (opaque) | alpha (opacity drawn) | poisson (gradient domain, then opacity). opacity: of alpha, poisson.
    p_jitter, p_noise, p_fisheye, p_wave: chance of each. jitter: brightness, contrast, saturation, hue.
    noise: standard deviation, of the range 0..1. fisheye: magnification of each control point.
    wave: horizontal displacement, of the patch's side. control_points: of fisheye and wave.
    donor: other (another image of the batch) | same (the image itself, elsewhere) | here (the image itself, in place:
      only deformed) | texture (drawn) | foreign (another modality: the pool given, else a made-up one).
    donor_study: name of the study whose normal images are that pool; whoever builds the augmentation hands them in.
    donor_scale: side of what is cut, of the side of what is pasted. bulge: magnification of the whole lesion.
    shading: strength of light from one side. contrast: of drawn textures. noise_colour: whether each channel has a
      noise of its own. match: how far the mean colour of what is cut is first brought to that of where it goes.
    avoid_overlap: keep lesions apart, smaller where there is no room. inside: part of a box in the region of interest.
    """

    k: int = 3
    size: tuple[float, float] = (0.1, 0.3)
    even_ratio: bool = False
    aspect: float = 2.0
    shape: str = "rectangle"
    irregularity: float = 0.5
    softness: tuple[float, float] = (0.0, 0.0)
    blend: str = "paste"
    opacity: tuple[float, float] = (1.0, 1.0)
    p_jitter: float = 0.25
    p_noise: float = 0.25
    p_fisheye: float = 0.25
    p_wave: float = 0.25
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    noise: tuple[float, float] = (0.02, 0.1)
    noise_colour: bool = True
    fisheye: tuple[float, float] = (0.3, 0.8)
    wave: tuple[float, float] = (0.03, 0.1)
    control_points: int = 3
    donor: str = "other"
    donor_study: str = ""
    donor_scale: tuple[float, float] = (1.0, 1.0)
    bulge: tuple[float, float] = (0.0, 0.0)
    shading: tuple[float, float] = (0.0, 0.0)
    contrast: tuple[float, float] = (0.1, 0.4)
    match: tuple[float, float] = (0.0, 0.0)
    avoid_overlap: bool = False
    inside: float = 0.95

    def __post_init__(self) -> None:
        check_k(self.k)
        check_range("size", self.size, 0.01, 1)
        check_range("softness", self.softness, 0, 1)
        check_range("opacity", self.opacity, 0.01, 1)
        check_range("noise", self.noise, 0, 1)
        check_range("fisheye", self.fisheye, 0, 0.95)
        check_range("wave", self.wave, 0, 1)
        check_range("donor_scale", self.donor_scale, 0.1, 4)
        check_range("bulge", self.bulge, 0, 0.95)
        check_range("shading", self.shading, 0, 1)
        check_range("contrast", self.contrast, 0, 1)
        check_range("match", self.match, 0, 1)
        for name in ("p_jitter", "p_noise", "p_fisheye", "p_wave", "irregularity", "inside"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadConfig(f"{name} must be within 0..1, not {getattr(self, name)}")
        if not 1 <= self.aspect <= 5:
            raise BadConfig(f"aspect, the longest ratio of a lesion's sides, must be 1..5, not {self.aspect}")
        if not 1 <= self.control_points <= 16:
            raise BadConfig(f"control_points must be 1..16, not {self.control_points}")
        if min(self.jitter) < 0 or max(self.jitter[:3]) > 1 or self.jitter[3] > 0.5:
            raise BadConfig(f"jitter is brightness, contrast, saturation (0..1) and hue (0..0.5), not {self.jitter}")
        for what, names in (("shape", SHAPES), ("blend", BLENDS), ("donor", DONORS)):
            self.choices(what, names)

    @property
    def pooled(self) -> str:
        """The study whose images are needed as the pool, or '' if none is."""
        return self.donor_study if DONORS.index("foreign") in self.choices("donor", DONORS) else ""

    def choices(self, what: str, names: tuple[str, ...]) -> list[int]:
        """The members of `names` that the setting `what` allows, as indices into it."""
        value = getattr(self, what)
        wanted = _MIXED[what] if value == "mixed" else value.split("+")
        unknown = [w for w in wanted if w not in names]
        if unknown:
            raise BadConfig(f"{what} takes {', '.join(names)}, several joined by '+', or mixed; not {value!r}")
        return [names.index(w) for w in wanted]
