"""Presets: versions, checks, YAML there and back."""

from __future__ import annotations

import pytest

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.config import BadConfig
from core.studio.db.store import NotFound
from core.studio.medmix import presets

CONFIG = MEDMIX_PRESETS["soft"].to_dict()


def test_saving_again_makes_a_version_unless_nothing_changed(store):
    assert presets.save_preset(store, "flat", "medmix", CONFIG)["version"] == 1
    assert presets.save_preset(store, "flat", "medmix", CONFIG)["version"] == 1
    assert presets.save_preset(store, "flat", "medmix", {**CONFIG, "k": 5})["version"] == 2
    assert presets.get_preset(store, "flat")["config"]["k"] == 5
    for versions, k in ((True, {2: 5, 1: CONFIG["k"]}), (False, {2: 5})):
        listed = [p for p in presets.list_presets(store, versions) if p["name"] == "flat"]
        assert {p["version"]: p["config"]["k"] for p in listed} == k


def test_built_in_ones_are_listed_and_fixed(store):
    assert {p["name"] for p in presets.list_presets(store)} == set(MEDMIX_PRESETS)
    with pytest.raises(presets.BadPreset, match="comes with the studio"):
        presets.save_preset(store, "paper", "medmix", CONFIG)
    with pytest.raises(presets.BadPreset, match="comes with the studio"):
        presets.remove_preset(store, "paper")


def test_removed_ones_leave_the_list_and_their_numbers(store):
    presets.save_preset(store, "flat", "medmix", CONFIG)
    presets.remove_preset(store, "flat")
    with pytest.raises(NotFound, match="paper"):
        presets.get_preset(store, "flat")
    assert presets.save_preset(store, "flat", "medmix", CONFIG)["version"] == 2


def test_wrong_settings_and_names_are_refused(store):
    with pytest.raises(BadConfig, match="k must be within 1..7"):
        presets.save_preset(store, "flat", "medmix", {**CONFIG, "k": 9})
    with pytest.raises(presets.BadPreset, match="name"):
        presets.save_preset(store, "  ", "medmix", CONFIG)


def test_yaml_there_and_back(store):
    kept = presets.save_preset(store, "flat", "medmix", CONFIG, note="two lines\nof note")
    read = presets.from_yaml(presets.to_yaml(kept))
    assert read == {
        "name": "flat",
        "strong": "medmix",
        "config": presets.checked("medmix", CONFIG),
        "note": kept["note"],
    }


@pytest.mark.parametrize(
    ("text", "word"),
    [("a: [", "not YAML"), ("- 1", "keys preset"), ("preset: x\nconfig: {size: [0.1]}", "do not fit"),
     ("preset: x\nconfig: {colour: 1}", "colour"), ("preset: x\nstrong: magic\nconfig: {}", "magic")],
)  # fmt: skip
def test_a_bad_file_is_a_sentence(text, word):
    with pytest.raises(ValueError, match=word):
        presets.from_yaml(text)
