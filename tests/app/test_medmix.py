"""The MedMix tab: repaints as settings change, outlines, presets, YAML, figures, comparisons, the way to training."""

from __future__ import annotations

import re

import cv2
import numpy as np
import pytest
import yaml

from core.engine.augment.config import MEDMIX_PRESETS
from tests.app.conftest import STUDY, preset, routed


def painted(page) -> int:
    return int(page.locator(".widget-medmix").get_attribute("data-painted") or 0)


def open_tab(page, url, go):
    """With round and opaque lesions, which are easy to tell apart, and not with those that a usual training pastes."""
    go(page, url, "MedMix")
    page.wait_for_selector(".widget-medmix[data-painted]")
    assert page.locator(".presets summary").inner_text() == "varied"
    change(page, lambda: preset(page, "quick"))


def change(page, act) -> None:
    before = painted(page)
    act()
    page.wait_for_function(f"Number(document.querySelector('.widget-medmix').dataset.painted) > {before}")


def mosaic(page, row: int) -> str:
    """A fingerprint of one row of the canvas."""
    return page.evaluate(
        """(row) => { const c = document.querySelector('.medmix-room .grid canvas'); const h = 256;
        const d = c.getContext('2d').getImageData(0, row * h, c.width, h).data; let s = 0;
        for (let i = 0; i < d.length; i += 4) s = (s * 31 + d[i] + 7 * d[i + 1]) % 1e9; return String(s); }""",
        row,
    )


def set_number(page, key: str, value) -> None:
    box = page.locator(f"[data-key='{key}'] input[type=number]").first
    box.fill(str(value))
    box.press("Enter")


def test_a_slider_changes_lesions_and_nothing_else(page, page_url, go):
    open_tab(page, page_url, go)
    normal, one = mosaic(page, 0), mosaic(page, 1)
    assert page.locator(".grid polygon").count() >= 18
    change(page, lambda: page.get_by_label("Size of a lesion, highest").fill("0.6"))
    assert mosaic(page, 0) == normal
    larger = mosaic(page, 1)
    assert larger != one
    change(page, lambda: page.get_by_label("Size of a lesion, highest").fill("0.35"))
    assert mosaic(page, 1) == one, "the same setting gives the same draws"
    change(page, lambda: page.get_by_role("button", name="Other samples").click())
    assert mosaic(page, 0) != normal


@pytest.mark.long
def test_classes_weak_views_and_two_settings(page, page_url, go):
    open_tab(page, page_url, go)
    change(page, lambda: set_number(page, "k", 5))
    assert page.locator(".grid .class-name").count() == 6
    change(page, lambda: page.get_by_label("Compare with").select_option(label="paper"))
    assert page.locator(".grid").count() == 2
    normal = mosaic(page, 0)
    change(page, lambda: page.get_by_label("Weak views").check())
    assert mosaic(page, 0) != normal
    page.get_by_label("Lesions", exact=True).uncheck()
    assert page.locator(".grid polygon").count() == 0


def test_where_lesions_were_cut(page, page_url, go):
    open_tab(page, page_url, go)
    assert page.locator("rect.cut").count() == 0
    page.get_by_label("Sources").check()
    assert page.locator("rect.cut").count() >= 4


def test_a_wrong_value_is_named_beside_its_field(page, page_url, go):
    open_tab(page, page_url, go)
    set_number(page, "k", 9)
    error = page.locator("[data-key=k] .error")
    error.filter(has_text="must be within 1..7").wait_for()


@pytest.mark.long
def test_every_augmentation_can_be_looked_at(page, page_url, go):
    open_tab(page, page_url, go)
    for name in ("Rotation", "Permutation", "Cutout", "Gaussian noise", "CutMix"):
        change(page, lambda name=name: page.get_by_label("Augmentation").select_option(label=name))
        assert page.locator(".grid .class-name").count() == 4


def test_presets_have_versions_and_travel_as_yaml(page, page_url, go, tmp_path):
    open_tab(page, page_url, go)
    for value, version in ((0.4, "v1"), (0.5, "v2")):
        change(page, lambda value=value: page.get_by_label("Size of a lesion, highest").fill(str(value)))
        page.get_by_role("button", name="Save as…").click()
        page.get_by_label("Name of the preset").fill("Flat polyps")
        page.get_by_role("button", name="Save", exact=True).click()
        page.locator(".toast.good").filter(has_text=f"Flat polyps · {version}").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="YAML ↓").click()
    saved = tmp_path / "preset.yaml"
    download.value.save_as(saved)
    data = yaml.safe_load(saved.read_text())
    assert (data["preset"], data["version"], data["config"]["size"][1]) == ("Flat polyps", 2, 0.5)
    data["config"]["size"] = [0.2, 0.7]
    saved.write_text(yaml.safe_dump(data))
    change(page, lambda: page.locator("input.yaml").set_input_files(str(saved)))
    assert page.locator("[data-key=size] output").inner_text() == "0.2 – 0.7"


@pytest.mark.long
def test_the_grid_is_saved_as_a_figure(page, page_url, go, tmp_path):
    open_tab(page, page_url, go)
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        with page.expect_download() as download:
            page.get_by_label("Save the grid as a figure").select_option(kind)
        download.value.save_as(tmp_path / "figure")
        assert (tmp_path / "figure").read_bytes().startswith(start)


@pytest.mark.long
def test_numbers_beside_the_picture(page, page_url, go):
    open_tab(page, page_url, go)
    page.get_by_role("button", name="Numbers").click()
    page.wait_for_selector(".numbers.panel[data-done]", timeout=120_000)
    numbers, stage = (page.locator(name).bounding_box() for name in (".numbers.panel", ".medmix-room .stage"))
    assert numbers["x"] >= stage["x"] + stage["width"], "docked: it covers nothing of the picture"
    text = page.locator(".numbers.panel").inner_text()
    assert "Linear-probe accuracy, classes" in text and "Weak views that lose most of the lesion" in text
    assert page.locator(".numbers .matrix span").count() == 25
    facts = page.locator(".numbers .facts span").all_inner_texts()
    whose = facts[facts.index("Real lesions") + 1]
    assert re.fullmatch(rf"(\d+ of|too few masks in) {STUDY}", whose), whose


@pytest.mark.long
def test_six_lesions_fill_the_width_and_what_takes_long_is_timed_stopped_and_never_stale(page, page_url, go):
    open_tab(page, page_url, go)
    change(page, lambda: set_number(page, "k", 6))
    assert page.evaluate(
        "document.querySelector('.grid').offsetWidth / document.querySelector('.medmix-room .stage').clientWidth > 0.8"
    )
    page.get_by_role("button", name="Numbers").click()
    panel = page.locator(".numbers.panel")
    page.wait_for_selector(".numbers.panel[data-done]", timeout=120_000)
    assert "Encoder: random weights; " in panel.inner_text() and "images at 64 px" in panel.inner_text()
    assert panel.evaluate("e => e.scrollWidth <= e.clientWidth")
    stale = page.get_by_text("These numbers belong to earlier settings.")
    assert not stale.is_visible()
    change(page, lambda: page.get_by_label("Size of a lesion, highest").fill("0.5"))
    assert stale.is_visible()
    # The next one takes as long as the reader lets it: the rate of the one before says how long, and Stop ends it.
    routed(page, "**/api/medmix/grid", lambda route: None)
    shown = painted(page)
    page.get_by_label("Size of a lesion, highest").fill("0.3")
    status = page.locator(".medmix-room .status")
    status.filter(has_text=re.compile(r"Making 42 images, (about .* left|longer than usual)")).wait_for()
    status.get_by_role("button", name="Stop").click()
    status.filter(has_text="Stopped: the picture shows the earlier settings.").wait_for()
    assert painted(page) == shown


def blue(page) -> int:
    """Pixels on the picture that are blue and nothing else."""
    return page.evaluate(
        """() => { const c = document.querySelector('.medmix-room .grid canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
        for (let i = 0; i < d.length; i += 4) n += d[i + 2] > 200 && d[i] < 20 && d[i + 1] < 20; return n; }"""
    )


@pytest.mark.long
def test_lesions_are_cut_from_another_study_and_handed_to_the_training(page, page_url, go, served, tmp_path):
    from core.studio.db import opening
    from core.studio.ingest import studies
    from core.studio.runs import records as runs

    opened = opening.open(str(served.home))
    if opened.one("SELECT 1 FROM studies WHERE id = 'blue'") is None:
        folder = tmp_path / "blue"  # one whose name says nothing of what the images show
        folder.mkdir()
        for i in range(4):
            picture = np.zeros((64, 64, 3), np.uint8)
            picture[..., 0] = 240 + i  # OpenCV writes blue first
            cv2.imwrite(str(folder / f"{i}.png"), picture)
        studies.import_study(opened, "blue", folder, copy=True)
    open_tab(page, page_url, go)
    assert blue(page) == 0
    page.get_by_text("Colour and grain").click() if not page.locator("[data-key=match]").is_visible() else None
    change(page, lambda: page.get_by_label("Colour brought to its place, highest").fill("0"))
    for key in ("p_jitter", "p_noise"):
        page.get_by_text("Colour and grain").click() if not page.locator(f"[data-key={key}]").is_visible() else None
        change(page, lambda key=key: set_number(page, key, 0))
    page.get_by_text("Where it is cut from", exact=True).click()
    change(page, lambda: page.get_by_role("group", name="Donor").get_by_role("button", name="other study").click())
    select = page.get_by_label("Other study", exact=True)
    select.focus()
    select.locator("option[value=blue]").wait_for(state="attached")
    change(page, lambda: select.select_option("blue"))
    assert blue(page) > 500
    page.get_by_role("button", name="Train with this").click()
    page.locator(".handed").filter(has_text="from the MedMix tab").wait_for()
    for key, value in (("size", 32), ("batch", 4), ("epochs", 1)):
        box = page.locator(f".training-room [data-key='{key}'] input[type=number]").first
        box.fill(str(value))
        box.press("Enter")
    page.get_by_label("Quick detectors and lesion head", exact=True).uncheck()
    with page.expect_response("**/api/training/start") as answer:
        page.get_by_role("button", name="Train", exact=True).click()
    config = runs.get_run(opened, answer.value.json()["run"])["config"]
    assert (config["medmix"]["donor"], config["medmix"]["donor_study"]) == ("foreign", "blue")


@pytest.mark.long
def test_images_of_ones_own_are_dropped_on_the_picture_or_chosen(page, page_url, go, tmp_path):
    open_tab(page, page_url, go)
    studys = mosaic(page, 0)
    file = tmp_path / "mine.png"
    picture = np.zeros((80, 80, 3), np.uint8)
    picture[..., 0] = 250
    cv2.imwrite(str(file), picture)
    drop = """async (bytes) => {
        const files = new DataTransfer();
        files.items.add(new File([new Uint8Array(bytes)], 'mine.png', {type: 'image/png'}));
        const stage = document.querySelector('.medmix-room .stage');
        stage.dispatchEvent(new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true}));
    }"""
    change(page, lambda: page.evaluate(drop, list(file.read_bytes())))
    assert blue(page) > 100_000
    page.locator(".medmix-room .status").filter(has_text="Your own images").wait_for()
    change(page, lambda: page.get_by_role("button", name="Back to the study").click())
    assert mosaic(page, 0) == studys
    change(page, lambda: page.locator(".own-files").set_input_files(str(file)))
    assert blue(page) > 100_000


def test_each_preset_has_a_picture_and_a_line(page, page_url, go):
    open_tab(page, page_url, go)
    page.locator(".presets summary").click()
    items = page.locator(".presets .item")
    drawn = "(c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0 && v < 255)"
    page.wait_for_function(f"[...document.querySelectorAll('.presets canvas')].every({drawn})")
    lines = [line for line in items.locator("small").all_inner_texts() if line != "Saved preset"]
    assert len(lines) == len(set(lines)) == len(MEDMIX_PRESETS) and all(len(line) > 10 for line in lines)


def test_outlines_are_switched_in_the_enlarged_image(page, page_url, go):
    open_tab(page, page_url, go)
    box = page.locator(".grid").first.bounding_box()
    page.mouse.click(box["x"] + 20, box["y"] + box["height"] * 0.4)  # A_1 of the first sample
    zoom = page.locator("dialog.zoom")
    outline = zoom.locator("polygon").first
    outline.wait_for(state="visible")
    zoom.get_by_label("Lesion outlines").uncheck()
    assert not outline.is_visible()
    page.keyboard.press("Escape")
    zoom.wait_for(state="detached")


PIXELS = """(at) => { const c = document.querySelectorAll('.medmix-room .grid canvas')[at]; const side = 256;
    const d = c.getContext('2d').getImageData(0, 0, 3 * side, c.height).data; let s = 0;
    for (let i = 0; i < d.length; i += 4) s = (s * 31 + d[i] + 7 * d[i + 1]) % 1e9; return String(s); }"""

CELLS = """(grids) => grids.map((grid) =>
    grid.getBoundingClientRect().width / (grid.querySelector('canvas').width / 256))"""


@pytest.mark.long
def test_what_is_kept_beside_stays_as_it_was_and_is_named(page, page_url, go):
    open_tab(page, page_url, go)
    seen = page.evaluate(PIXELS, 0)  # of the first three samples
    change(page, lambda: page.get_by_label("Compare with").select_option("now"))
    assert page.locator(".grid h3").all_inner_texts() == ["now", "copy"]
    assert [page.evaluate(PIXELS, i) for i in (0, 1)] == [seen, seen], "the very images that were on screen"
    asked = []
    page.on("request", lambda r: asked.append(r) if r.url.endswith("/api/medmix/grid") else None)
    change(page, lambda: page.get_by_label("Size of a lesion, highest").fill("0.6"))
    assert page.evaluate(PIXELS, 0) != seen and page.evaluate(PIXELS, 1) == seen
    assert len(asked) == 1, "what is kept is not drawn again"
    change(page, lambda: page.get_by_label("Augmentation").select_option(label="Rotation"))
    assert page.evaluate(PIXELS, 1) == seen, "nor is it drawn by another augmentation"
    change(page, lambda: page.get_by_label("Augmentation").select_option(label="MedMix"))
    change(page, lambda: set_number(page, "k", 6))
    cells = page.locator(".grid").evaluate_all(CELLS)
    assert cells[0] == pytest.approx(cells[1], rel=0.02), "seven classes beside four, at one scale"
    change(page, lambda: page.get_by_label("Compare with").select_option(label="paper"))
    assert page.locator(".grid h3").all_inner_texts() == ["now", "paper"]


def test_images_are_shown_in_their_own_proportions(page, page_url, go):
    open_tab(page, page_url, go)
    size = page.evaluate(f"fetch('/api/study/{STUDY}/overview').then((r) => r.json()).then((o) => o.sizes[0][0])")
    wide, high = (int(side) for side in size.split(" x "))
    box = page.locator(".grid canvas").bounding_box()
    shown = box["width"] / 6 / (box["height"] / 4)
    if page.locator(".status").filter(has_text="different aspect ratios").count():
        assert abs(shown - 1) < 0.02
    else:
        assert abs(shown - wide / high) < 0.03
        assert ("squeezes" in page.locator(".medmix-room .status").inner_text()) == (wide != high)
