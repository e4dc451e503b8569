"""The settings of comparators that differ between our presets and the published ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.engine.objectives.presets import PRETRAIN_PRESETS, PUBLISHED
from core.engine.registry import DETECTORS, OBJECTIVES
from core.studio.runs.records import dotted

HEADS = ("comparator", "source", "setting", "ours (`paper`)", "published", "why ours differs")
_WEAK = "the paper asks for SimCLR's weak views for every method"


@dataclass(frozen=True)
class Source:
    """The publication of a comparator, and by setting the reason why the preset `paper` differs."""

    reference: str
    why: dict[str, str]


SOURCES = {
    "droc": Source(
        "Sohn et al. 2021, released code",
        {"weak.crop": _WEAK, "weak.jitter": _WEAK},
    ),
    "csi": Source(
        "Tack et al. 2020, released code",
        {"tau": "one temperature for all methods", "weak.jitter": _WEAK, "weak.p_blur": _WEAK},
    ),
    "ccd": Source(
        "Tian et al. 2021, released configuration",
        {
            "strong": "the paper's own row has MedMix; its plain row is permutation in every budget",
            "class_views": "PMSACL Eq. 8 has strongly augmented images alone",
            "weak.crop": _WEAK,
            "weak.jitter": _WEAK,
            "weak.p_blur": _WEAK,
            "aug_on": "PMSACL Eq. 8 has the projection",
            "learn_head": "PMSACL Eq. 8 learns beta",
            "pos_on": "PMSACL Eq. 9 has the pair",
        },
    ),
    "f-anogan": Source(
        "Schlegl et al. 2019, released code",
        {
            "batch": "as all comparators",
            "code_optimiser": "Adam learns sooner in short trainings",
            "code_lr": "as that of the generator",
            "code_bound": "1 is not in the released code, which has no bound; a third of normal draws lie beyond 1",
            "span": "as all comparators, 0..1",
        },
    ),
    "ocgan": Source(
        "Perera et al. 2019, released code",
        {
            "w_mse": "the text's lambda",
            "w_latent": "the text has no weight here",
            "searches": "the text has several",
            "rate": "the text has none",
            "squashed": "codes stay uniform before the search",
            "mine_from": "short trainings would hardly search",
        },
    ),
    "cutpaste": Source(
        "Li et al. 2021, and its public implementations",
        {"whole_jitter": "the text jitters the piece", "unit": "the text takes features as they are"},
    ),
    "panda": Source("Reiss et al. 2021, released code", {"squared": "the text has distances"}),
    "igd": Source(
        "Chen et al. 2021, released code",
        {
            "flip": "features of a frozen encoder can then be kept",
            "width": "narrower, for CPUs",
            "local_batch": "as many images as the global model",
            "overlaps": "the border is covered by fewer patches",
            "rescale": "features of every backbone then have one scale",
        },
    ),
}


def compared() -> list[tuple[str, ...]]:
    """Lists the settings of comparators that differ from the published ones, as rows under HEADS.

    Raises KeyError if a setting differs without a reason in SOURCES.
    """
    rows: list[tuple[str, ...]] = []
    for name, source in SOURCES.items():
        objective = name in PUBLISHED
        presets = PRETRAIN_PRESETS if objective else DETECTORS.get(name).presets
        published_preset = f"published-{name}" if objective else "published"
        ours, theirs = (dotted(presets[preset].to_dict()) for preset in ("paper", published_preset))
        start = (OBJECTIVES if objective else DETECTORS).title(name), source.reference
        for setting in (s for s in ours if ours[s] != theirs[s] and s not in ("preset", "objective")):
            rows.append((*start, setting, _text(ours[setting]), _text(theirs[setting]), source.why[setting]))
    return rows


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
