"""Design tokens (colours by role) of the dark and the light theme, for style sheets, Gradio and charts."""

from __future__ import annotations

import gradio as gr

# Text and its background have a contrast of at least 4.5 : 1 (measured by tests/app/test_theme.py).
DARK = {
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
    "normal": "#7db8e8",
    "abnormal": "#f0a35e",
    "unsure": "#cfc48a",
    "draft": "#2fd6a3",
    "on_mark": "#10151a",
    "chosen": "#1d3a44",
    "alarm": "#3a1d18",
    "on_alarm": "#ffd9d0",
    "bins": "#6f8aa0",
    "grid": "#232a32",
    "shade": "#000000c0",
}
LIGHT = {
    "ground": "#eef1f4",
    "panel": "#ffffff",
    "raised": "#f4f6f8",
    "line": "#d3dae1",
    "edge": "#77838f",
    "text": "#1a2026",
    "dim": "#55606b",
    "accent": "#0f6479",
    "fill": "#1f6277",
    "fill_hover": "#2a7087",
    "on_fill": "#ffffff",
    "good": "#1d6b3c",
    "warn": "#80560a",
    "bad": "#ab2f1d",
    "normal": "#1a639f",
    "abnormal": "#9b4706",
    "unsure": "#6a5c10",
    "draft": "#0b6a50",
    "on_mark": "#ffffff",
    "chosen": "#d5e9ef",
    "alarm": "#fbe6e1",
    "on_alarm": "#7c2113",
    "bins": "#6f8aa0",
    "grid": "#e4e9ee",
    "shade": "#1a202655",
}
SERIES = {  # colours of the lines of a chart, by theme
    "dark": ["#7cc4d4", "#e6bd6a", "#f0917f", "#86c99f", "#c3a6f0", "#9db4c9", "#f2a7cf", "#d6d36a"],
    "light": ["#0f6479", "#8f5f0a", "#b5402d", "#22774a", "#6b4bb0", "#4d667d", "#a83a7a", "#6f6c10"],
}
# Overlays on an image or on the background of a map are dark in both themes.
PICTURES = ".rv-view, .rv-picture, .scatter-room .plot, dialog.zoom, #tour-ring, body.tour"
SANS = ("system-ui", "-apple-system", "Segoe UI", "Noto Sans", "DejaVu Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "DejaVu Sans Mono", "Consolas", "monospace")


def variables() -> str:
    """Returns CSS that declares the tokens as custom properties. `data-theme` on the root element selects the theme."""

    def declared(palette: dict[str, str], name: str) -> str:
        tokens = {**palette, **{f"series-{i}": colour for i, colour in enumerate(SERIES[name])}}
        return "".join(f"--{key.replace('_', '-')}:{value};" for key, value in tokens.items())

    dark, light = declared(DARK, "dark"), declared(LIGHT, "light")
    return (
        f":root{{{dark}color-scheme:dark}}:root[data-theme=light]{{{light}color-scheme:light}}"
        f":is({PICTURES}){{{dark}color:{DARK['text']};color-scheme:dark}}"
    )


def theme() -> gr.themes.Base:
    """Returns Gradio's theme. Its light and dark modes are equal, because the tokens depend on the selected theme."""
    p = {name: f"var(--{name.replace('_', '-')})" for name in DARK}
    shades = ["text"] * 3 + ["dim"] * 2 + ["edge"] * 2 + ["line", "raised", "panel", "ground"]
    blues = ["accent"] * 6 + ["fill_hover"] + ["fill"] * 3 + ["chosen"]
    grey = gr.themes.Color(*(p[name] for name in shades), name="room")
    teal = gr.themes.Color(*(p[name] for name in blues), name="teal")
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
