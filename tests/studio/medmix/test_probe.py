"""The verb `probe`: several presets on one study, before any training."""

from __future__ import annotations

import json

import pytest

from app.commands import main
from core.studio.medmix import presets
from core.studio.medmix.probe import words


@pytest.mark.slow
def test_presets_side_by_side(store, tiny_study, capsys):
    presets.save_preset(store, "mine", "medmix", {"size": (0.1, 0.2)})
    line = ["probe", tiny_study, "--preset", "quick", "--preset", "easy", "--preset", "mine", "--home"]
    assert main([*line, str(store.home.path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    found = {row["preset"]: row for row in answer["rows"]}
    assert set(found) == {"quick", "easy", "mine"} and answer["study"] == tiny_study
    assert found["easy"]["accuracy"] > found["quick"]["accuracy"] + 0.05
    for row in found.values():
        assert row["chance"] == 0.25 and len(row["confusion"]) == 4 and row["encoder"] == "untrained"
        assert sum(map(sum, row["confusion"])) == 4 * row["images"]


@pytest.mark.parametrize(("line", "words"), [(["--preset", "nobody"], "quick"), (["--weak", "strong"], "gentle")])
def test_mistakes_are_sentences(store, tiny_study, capsys, line, words):
    assert main(["probe", tiny_study, *line, "--home", str(store.home.path)]) == 2
    assert words in capsys.readouterr().err


def test_too_easy_is_said():
    found = {"accuracy": 0.95, "chance": 0.25, "lost": None, "near": None}
    assert "Too easy: even a linear probe" in words(found)[0]["text"]
    absurd = {**found, "accuracy": 0.55, "lesion_accuracy": 0.87}
    assert "Too easy: an encoder that has learnt nothing" in words({**absurd, "encoder": "untrained"})[0]["text"]
    chance = {**found, "accuracy": 0.26, "lesion_accuracy": 0.5, "near": {"distance": 1, "closeness": 0.1}}
    (said,) = words({**chance, "encoder": "untrained"})
    assert said["text"].startswith("No conclusion: this encoder is untrained"), "of chance nothing is hard"
    assert words({**chance, "encoder": "a run"})[0]["text"].startswith("Hard:")
    assert "can be learnt" in words({**absurd, "encoder": "a run"})[0]["text"], "it was taught to"
