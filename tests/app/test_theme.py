"""Text can be read: every pair of colours used for it has the contrast that AA asks for."""

from __future__ import annotations

import pytest

from app.theme import DARK, LIGHT, SERIES, theme

THEMES = pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", ["ground", "panel", "raised"])
@pytest.mark.parametrize(
    "ink", ["text", "dim", "accent", "good", "warn", "bad", "normal", "abnormal", "unsure", "draft"]
)
@THEMES
def test_text_has_aa_contrast(palette, ink, ground):
    assert contrast(palette[ink], palette[ground]) >= 4.5


@THEMES
def test_words_on_colours_have_aa_contrast(palette):
    grounds = {"on_fill": ("fill", "fill_hover"), "on_mark": ("normal", "abnormal", "unsure"), "on_alarm": ("alarm",)}
    pairs = [(ink, ground) for ink, filled in grounds.items() for ground in filled] + [("text", "chosen")]
    assert [pair for pair in pairs if contrast(palette[pair[0]], palette[pair[1]]) < 4.5] == []


@THEMES
def test_edges_of_inputs_and_lines_of_charts_can_be_seen(palette):
    series = SERIES["dark" if palette is DARK else "light"]
    assert contrast(palette["edge"], palette["raised"]) >= 3
    assert [colour for colour in series if contrast(colour, palette["panel"]) < 3] == []


def test_both_themes_have_the_same_tokens():
    assert LIGHT.keys() == DARK.keys()


def test_light_and_dark_mode_are_the_same():
    built = theme()
    both = [n.removesuffix("_dark") for n in vars(built) if n.endswith("_dark") and getattr(built, n) is not None]
    assert len(both) > 50
    assert [n for n in both if getattr(built, n) != getattr(built, f"{n}_dark")] == []
