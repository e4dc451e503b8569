"""The reading room's look: one dark theme, the same whether the machine prefers light or dark."""

from __future__ import annotations

import gradio as gr

# Ink and light. Every pair used for text is at least 4.5 : 1 (tests/app/test_theme.py measures them).
PALETTE = {
    "ground": "#0d1013",
    "panel": "#14181c",
    "raised": "#1b2026",
    "line": "#2b333c",
    "edge": "#66727f",
    "text": "#e4e8ec",
    "dim": "#a3adb8",
    "accent": "#7cc4d4",
    "fill": "#23667a",
    "fill_hover": "#2b7a91",
    "on_fill": "#ffffff",
    "good": "#86c99f",
    "warn": "#e6bd6a",
    "bad": "#f0917f",
}
SANS = ("system-ui", "-apple-system", "Segoe UI", "Noto Sans", "DejaVu Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "DejaVu Sans Mono", "Consolas", "monospace")


def variables() -> str:
    """The palette as CSS custom properties, for the page's own style sheets."""
    return ":root{" + "".join(f"--{name.replace('_', '-')}:{value};" for name, value in PALETTE.items()) + "}"


def theme() -> gr.themes.Base:
    """Gradio's theme with both of its modes set to the dark one, so that no first paint is white."""
    p = PALETTE
    grey = f"{p['text']} #d3d9df #bcc4cc {p['dim']} #8b96a2 {p['edge']} #46515c {p['line']} {p['raised']} {p['panel']}"
    teal = f"#e3f4f7 #c9e8ee #a6d8e2 {p['accent']} #55a9bc #3a8ca0 {p['fill_hover']} {p['fill']} #1c5263 #16404d"
    grey = gr.themes.Color(*grey.split(), p["ground"], name="room")
    teal = gr.themes.Color(*teal.split(), "#102f39", name="teal")
    built = gr.themes.Base(
        primary_hue=teal,
        secondary_hue=teal,
        neutral_hue=grey,
        text_size=gr.themes.sizes.text_md,
        spacing_size=gr.themes.sizes.spacing_sm,
        radius_size=gr.themes.sizes.radius_sm,
        font=SANS,
        font_mono=MONO,
    )
    chosen = {
        "body_background_fill": p["ground"],
        "body_text_color": p["text"],
        "body_text_color_subdued": p["dim"],
        "background_fill_primary": p["panel"],
        "background_fill_secondary": p["ground"],
        "block_background_fill": p["panel"],
        "block_border_color": p["line"],
        "block_label_background_fill": p["panel"],
        "block_label_text_color": p["dim"],
        "block_title_text_color": p["dim"],
        "block_info_text_color": p["dim"],
        "border_color_primary": p["line"],
        "border_color_accent": p["accent"],
        "input_background_fill": p["raised"],
        "input_border_color": p["edge"],
        "input_border_color_focus": p["accent"],
        "input_placeholder_color": p["dim"],
        "button_primary_background_fill": p["fill"],
        "button_primary_background_fill_hover": p["fill_hover"],
        "button_primary_text_color": p["on_fill"],
        "button_primary_border_color": p["fill"],
        "button_secondary_background_fill": p["raised"],
        "button_secondary_background_fill_hover": p["line"],
        "button_secondary_text_color": p["text"],
        "button_secondary_border_color": p["line"],
        "color_accent": p["accent"],
        "color_accent_soft": p["raised"],
        "link_text_color": p["accent"],
        "slider_color": p["accent"],
        "checkbox_background_color_selected": p["fill_hover"],
        "checkbox_border_color": p["edge"],
        "checkbox_border_color_hover": p["accent"],
        "checkbox_border_color_focus": p["accent"],
        "checkbox_border_color_selected": p["fill_hover"],
        "table_even_background_fill": p["panel"],
        "table_odd_background_fill": p["panel"],
        "panel_background_fill": p["panel"],
        "panel_border_color": p["line"],
        "shadow_drop": "none",
        "shadow_drop_lg": "none",
        "block_shadow": "none",
    }
    for name, value in chosen.items():
        setattr(built, name, value)
        if hasattr(built, f"{name}_dark"):
            setattr(built, f"{name}_dark", value)
    for name in [n for n in vars(built) if n.endswith("_dark") and n.removesuffix("_dark") not in chosen]:
        if getattr(built, name) is not None:
            setattr(built, name.removesuffix("_dark"), getattr(built, name))
    return built
