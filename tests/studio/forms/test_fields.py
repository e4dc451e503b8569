"""Forms: every option has one control, and its defaults and presets lie within the control's limits."""

from __future__ import annotations

import dataclasses

import pytest

from core.engine.augment.config import MEDMIX_PRESETS, WEAK_PRESETS, MedMixConfig, WeakConfig
from core.engine.backbones.config import EncoderConfig
from core.engine.config import Config, option
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import DETECTORS, STRONG
from core.studio.forms.fields import form

PRESETS = {MedMixConfig: MEDMIX_PRESETS, WeakConfig: WEAK_PRESETS, PretrainConfig: PRETRAIN_PRESETS}
KINDS = [MedMixConfig, WeakConfig, PretrainConfig, EncoderConfig]


def fields(kind) -> list[dict]:
    return [f for g in form(kind) for f in g["fields"]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_has_one_control_in_a_named_group(kind):
    apart = {
        PretrainConfig: {"medmix", "weak", "encoder", "preset", "objective", "strong", "strong_options"},
        MedMixConfig: {"matched"},
    }
    wanted = {f.name for f in dataclasses.fields(kind)} - apart.get(kind, set())
    assert sorted(f["key"] for f in fields(kind)) == sorted(wanted)
    assert "Settings" not in [g["title"] for g in form(kind)], "give the new option a group"


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_and_presets_lie_within_the_limits(kind):
    for config in (kind(), *PRESETS.get(kind, {}).values()):
        for f in fields(kind):
            value = getattr(config, f["key"])
            if f["kind"] == "choice":
                assert value in f["options"]
            elif f["kind"] in ("number", "integer", "range", "numbers") and f["min"] is not None:
                for one in value if isinstance(value, tuple) else (value,):
                    assert f["min"] <= one <= f["max"], (f["key"], one)
                if f["kind"] == "numbers":
                    assert len(f["names"]) == len(value)


@pytest.mark.parametrize(
    "kind", [DETECTORS.get(n).Config for n in DETECTORS.names()] + [STRONG.get(n).Config for n in STRONG.names()]
)
def test_every_member_of_a_family_has_a_form(kind):
    assert {f["key"] for f in fields(kind)} <= {f.name for f in dataclasses.fields(kind)}
    assert fields(kind)


def test_a_control_follows_from_type_and_declaration():
    @dataclasses.dataclass(frozen=True)
    class Every(Config):
        flag: bool = option(True, "On or off.", group="First")
        count: int = option(3, "How many.", low=1, high=7, unit="pixels", label="Number of things")
        rate: float = option(0.1, above=0, slider=(0.01, 1), step=0.01, log=True)
        span: tuple[float, float] = option((0.1, 0.2), low=0, high=1, ascending=True, group="Second")
        parts: tuple[float, float] = option((0.1, 0.2), low=0, high=(1, 0.5), parts=("a", "b"))
        word: str = option("x", choices=("x", "y"), names={"x": "an x"})
        words: str = option("x+y", choices=("x", "y"), several=True)
        offered: str = option("z", offered=lambda: ("z",), group="First")
        pool: str = option("", control="study")
        kept: str = option("", control="hidden")
        plain: int = 1

    first, second = form(Every)
    assert [first["title"], second["title"]] == ["First", "Second"]
    by_key = {f["key"]: f for f in first["fields"] + second["fields"]}
    assert {k: f["kind"] for k, f in by_key.items()} == {
        "flag": "flag", "count": "integer", "rate": "number", "span": "range", "parts": "numbers", "word": "choice",
        "words": "several", "offered": "choice", "pool": "study", "plain": "integer",
    }  # fmt: skip
    assert by_key["count"] == {
        "key": "count", "label": "Number of things", "help": "How many. In pixels.", "kind": "integer", "min": 1,
        "max": 7, "step": 1,
    }  # fmt: skip
    assert (by_key["rate"]["min"], by_key["rate"]["max"], by_key["rate"]["log"]) == (0.01, 1, True)
    assert by_key["parts"]["names"] == ["a", "b"] and by_key["word"]["names"] == {"x": "an x"}
    assert [f["key"] for f in first["fields"]] == ["flag", "count", "rate", "offered", "pool", "plain"]
