"""Text can be read: every pair of colours used for it has the contrast that AA asks for."""

from __future__ import annotations

import pytest

from app.theme import PALETTE, theme


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", ["ground", "panel", "raised"])
@pytest.mark.parametrize("ink", ["text", "dim", "accent", "good", "warn", "bad"])
def test_text_has_aa_contrast(ink, ground):
    assert contrast(PALETTE[ink], PALETTE[ground]) >= 4.5


@pytest.mark.parametrize("fill", ["fill", "fill_hover"])
def test_buttons_have_aa_contrast(fill):
    assert contrast(PALETTE["on_fill"], PALETTE[fill]) >= 4.5


def test_edges_of_inputs_can_be_seen():
    assert contrast(PALETTE["edge"], PALETTE["raised"]) >= 3


def test_light_and_dark_mode_are_the_same():
    built = theme()
    both = [n.removesuffix("_dark") for n in vars(built) if n.endswith("_dark") and getattr(built, n) is not None]
    assert len(both) > 50
    assert [n for n in both if getattr(built, n) != getattr(built, f"{n}_dark")] == []
