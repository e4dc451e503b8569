"""Forms: every setting has a control, and its defaults and presets lie within the control's limits."""

from __future__ import annotations

import dataclasses

import pytest

from core.engine.augment.medmix.medmix import MEDMIX_PRESETS, MedMixConfig
from core.engine.augment.weak import WEAK_PRESETS, WeakConfig
from core.engine.backbones.encoder import EncoderConfig
from core.engine.objectives.config import PRETRAIN_PRESETS, PretrainConfig
from core.engine.registry import DETECTORS, STRONG
from core.studio.forms.fields import MORE, explained, form
from core.studio.forms.tables import HIDDEN, TABLES

PRESETS = {MedMixConfig: MEDMIX_PRESETS, WeakConfig: WEAK_PRESETS, PretrainConfig: PRETRAIN_PRESETS}
KINDS = [MedMixConfig, WeakConfig, PretrainConfig, EncoderConfig]


def fields(kind) -> list[dict]:
    groups = form(kind, TABLES.get(kind.__name__), HIDDEN.get(kind.__name__, ()))
    return [f for g in groups for f in g["fields"]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_has_one_control_in_a_named_group(kind):
    nested = {"medmix", "weak", "encoder"} if kind is PretrainConfig else set()
    wanted = {f.name for f in dataclasses.fields(kind)} - set(HIDDEN.get(kind.__name__, ())) - nested
    keys = [f["key"] for f in fields(kind)]
    assert sorted(keys) == sorted(wanted)
    groups = form(kind, TABLES[kind.__name__], HIDDEN.get(kind.__name__, ()))
    assert MORE not in [g["title"] for g in groups], "name the new setting in form_tables"


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
def test_members_without_a_table_have_forms_too(kind):
    assert {f["key"] for f in fields(kind)} <= {f.name for f in dataclasses.fields(kind)}
    assert fields(kind)


def test_help_comes_from_the_docstring():
    notes = explained(STRONG.get("cutout").Config)
    assert notes["fill"].startswith("mean")
