"""Presets: versions, checks, YAML there and back."""

from __future__ import annotations

import tracemalloc

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
    presets.save_preset(store, "Flat", "medmix", CONFIG)  # another name, next to it in the list
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
    [("a: [", "not YAML"), ("- 1", "keys preset"), ("preset: x\nconfig: {size: [0.1]}", "are invalid"),
     ("preset: x\nconfig: {colour: 1}", "colour"), ("preset: x\nstrong: magic\nconfig: {}", "magic")],
)  # fmt: skip
def test_a_bad_file_is_a_sentence(text, word):
    with pytest.raises(ValueError, match=word):
        presets.from_yaml(text)


BILLION = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text, sentence",
    [
        (BILLION, "line 2 refers to another part"),
        ("a: &a 1\nb: *a\n", "line 2 refers to another part"),
        ("[" * 5000, "nested too deeply"),
        ("{a: " * 17 + "1" + "}" * 17, "nested too deeply"),
        ("a: " + "x" * 70_000, "too long"),
        ("a: [1, 2", "not YAML"),
        ("a: !!python/object:os.system x", "not YAML"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("a: 2020-99-99", "cannot be read"),
        ("? [a]\n: 1", "not YAML"),
    ],
)
def test_yaml_from_a_stranger_is_refused_before_anything_is_built(text, sentence):
    tracemalloc.start()
    with pytest.raises(presets.BadPreset, match=sentence):
        presets.from_yaml(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_presets_are_read_as_they_were_written():
    for preset in presets.built_in():
        assert presets.from_yaml(presets.to_yaml(preset))["config"] == preset["config"]
