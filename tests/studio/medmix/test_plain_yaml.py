"""YAML from a stranger: aliases, depth and size are refused before anything is built."""

from __future__ import annotations

import tracemalloc

import pytest

from core.studio.medmix.presets import BadPreset, BadYaml, built_in, from_yaml, read_yaml, to_yaml

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
def test_what_is_refused(text, sentence):
    tracemalloc.start()
    with pytest.raises(BadYaml, match=sentence):
        read_yaml(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    with pytest.raises(BadPreset):
        from_yaml(text)


def test_presets_are_read_as_they_were_written():
    for preset in built_in():
        assert from_yaml(to_yaml(preset))["config"] == preset["config"]
