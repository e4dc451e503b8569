"""The MedMix tab: repaints, presets, figures, comparisons, the way to the training, matched lesions."""

from __future__ import annotations

import json
import re

import cv2
import numpy as np
import pytest
import yaml

from core.engine.augment.config import MEDMIX_PRESETS
from tests.app.conftest import STUDY, preset, routed


def painted(page) -> int:
    return int(page.locator(".widget-medmix").get_attribute("data-painted") or 0)


@pytest.fixture
def tab(page, page_url, go):
    """The tab with round and opaque lesions, which are easier to tell apart than those that a usual training pastes."""
    go(page, page_url, "MedMix")
    page.wait_for_selector(".widget-medmix[data-painted]")
    assert page.locator(".presets summary").inner_text() == "varied"
    change(page, lambda: preset(page, "quick"))
    return page


def change(page, act) -> None:
    before = painted(page)
    act()
    page.wait_for_function(f"Number(document.querySelector('.widget-medmix').dataset.painted) > {before}")


def mosaic(page, row: int | None = None, grid: int = 0) -> str:
    """A fingerprint of the first three samples of a grid: of all its rows, or of one."""
    return page.evaluate(
        """([row, grid]) => { const c = document.querySelectorAll('.medmix-room .grid canvas')[grid]; const h = 256;
        const [top, high] = row === null ? [0, c.height] : [row * h, h];
        const d = c.getContext('2d').getImageData(0, top, 3 * h, high).data; let s = 0;
        for (let i = 0; i < d.length; i += 4) s = (s * 31 + d[i] + 7 * d[i + 1]) % 1e9; return String(s); }""",
        [row, grid],
    )


def set_number(page, key: str, value) -> None:
    box = page.locator(f"[data-key='{key}'] input[type=number]").first
    box.fill(str(value))
    box.press("Enter")


def test_a_slider_changes_lesions_and_nothing_else(tab):
    normal, one = mosaic(tab, 0), mosaic(tab, 1)
    assert tab.locator(".grid polygon").count() >= 18
    change(tab, lambda: tab.get_by_label("Size of a lesion, highest").fill("0.6"))
    assert mosaic(tab, 0) == normal
    larger = mosaic(tab, 1)
    assert larger != one
    change(tab, lambda: tab.get_by_label("Size of a lesion, highest").fill("0.35"))
    assert mosaic(tab, 1) == one, "the same setting gives the same draws"
    change(tab, lambda: tab.get_by_role("button", name="Other samples").click())
    assert mosaic(tab, 0) != normal


@pytest.mark.long
def test_classes_weak_views_and_two_settings(tab):
    change(tab, lambda: set_number(tab, "k", 5))
    assert tab.locator(".grid .class-name").count() == 6
    change(tab, lambda: tab.get_by_label("Compare with").select_option(label="paper"))
    assert tab.locator(".grid").count() == 2
    normal = mosaic(tab, 0)
    change(tab, lambda: tab.get_by_label("Weak views").check())
    assert mosaic(tab, 0) != normal
    tab.get_by_label("Lesions", exact=True).uncheck()
    assert tab.locator(".grid polygon").count() == 0


def test_where_lesions_were_cut(tab):
    assert tab.locator("rect.cut").count() == 0
    tab.get_by_label("Sources").check()
    assert tab.locator("rect.cut").count() >= 4


def test_a_wrong_value_is_named_beside_its_field(tab):
    set_number(tab, "k", 9)
    error = tab.locator("[data-key=k] .error")
    error.filter(has_text="must be within 1..7").wait_for()


@pytest.mark.long
def test_every_augmentation_can_be_looked_at(tab):
    for name in ("Rotation", "Permutation", "Cutout", "Gaussian noise", "CutMix"):
        change(tab, lambda name=name: tab.get_by_label("Augmentation").select_option(label=name))
        assert tab.locator(".grid .class-name").count() == 4


def test_presets_have_versions_and_travel_as_yaml(tab, tmp_path):
    for value, version in ((0.4, "v1"), (0.5, "v2")):
        change(tab, lambda value=value: tab.get_by_label("Size of a lesion, highest").fill(str(value)))
        tab.get_by_role("button", name="Save as…").click()
        tab.get_by_label("Name of the preset").fill("Flat polyps")
        tab.get_by_role("button", name="Save", exact=True).click()
        tab.locator(".toast.good").filter(has_text=f"Flat polyps · {version}").wait_for()
    with tab.expect_download() as download:
        tab.get_by_role("button", name="YAML ↓").click()
    saved = tmp_path / "preset.yaml"
    download.value.save_as(saved)
    data = yaml.safe_load(saved.read_text())
    assert (data["preset"], data["version"], data["config"]["size"][1]) == ("Flat polyps", 2, 0.5)
    data["config"]["size"] = [0.2, 0.7]
    saved.write_text(yaml.safe_dump(data))
    change(tab, lambda: tab.locator("input.yaml").set_input_files(str(saved)))
    assert tab.locator("[data-key=size] output").inner_text() == "0.2 – 0.7"


@pytest.mark.long
def test_the_grid_is_saved_as_a_figure(tab, tmp_path):
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        with tab.expect_download() as download:
            tab.get_by_label("Save the grid as a figure").select_option(kind)
        download.value.save_as(tmp_path / "figure")
        assert (tmp_path / "figure").read_bytes().startswith(start)


@pytest.mark.long
def test_numbers_beside_the_picture(tab):
    tab.get_by_role("button", name="Numbers").click()
    tab.wait_for_selector(".numbers.panel[data-done]", timeout=120_000)
    numbers, stage = (tab.locator(name).bounding_box() for name in (".numbers.panel", ".medmix-room .stage"))
    assert numbers["x"] >= stage["x"] + stage["width"], "docked: it covers nothing of the picture"
    text = tab.locator(".numbers.panel").inner_text()
    assert "Linear-probe accuracy, classes" in text and "Weak views that lose most of the lesion" in text
    assert tab.locator(".numbers .matrix span").count() == 25
    facts = tab.locator(".numbers .facts span").all_inner_texts()
    whose = facts[facts.index("Real lesions") + 1]
    assert re.fullmatch(rf"(\d+ of|too few masks in) {STUDY}", whose), whose


@pytest.mark.long
def test_six_lesions_fill_the_width_and_what_takes_long_is_timed_stopped_and_never_stale(tab):
    change(tab, lambda: set_number(tab, "k", 6))
    assert tab.evaluate(
        "document.querySelector('.grid').offsetWidth / document.querySelector('.medmix-room .stage').clientWidth > 0.8"
    )
    tab.get_by_role("button", name="Numbers").click()
    panel = tab.locator(".numbers.panel")
    tab.wait_for_selector(".numbers.panel[data-done]", timeout=120_000)
    assert "Encoder: random weights; " in panel.inner_text() and "images at 64 px" in panel.inner_text()
    assert panel.evaluate("e => e.scrollWidth <= e.clientWidth")
    stale = tab.get_by_text("These numbers belong to earlier settings.")
    assert not stale.is_visible()
    change(tab, lambda: tab.get_by_label("Size of a lesion, highest").fill("0.5"))
    assert stale.is_visible()
    # The next one takes as long as the reader lets it: the rate of the one before says how long, and Stop ends it.
    routed(tab, "**/api/medmix/grid", lambda route: None)
    shown = painted(tab)
    tab.get_by_label("Size of a lesion, highest").fill("0.3")
    status = tab.locator(".medmix-room .status")
    status.filter(has_text=re.compile(r"Making 42 images, (about .* left|longer than usual)")).wait_for()
    status.get_by_role("button", name="Stop").click()
    status.filter(has_text="Stopped: the picture shows the earlier settings.").wait_for()
    assert painted(tab) == shown


def blue(page) -> int:
    """Pixels on the picture that are blue and nothing else."""
    return page.evaluate(
        """() => { const c = document.querySelector('.medmix-room .grid canvas');
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
        for (let i = 0; i < d.length; i += 4) n += d[i + 2] > 200 && d[i] < 20 && d[i + 1] < 20; return n; }"""
    )


@pytest.mark.long
def test_lesions_are_cut_from_another_study_and_handed_to_the_training(tab, served, tmp_path):
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
    assert blue(tab) == 0
    tab.get_by_text("Colour and grain").click() if not tab.locator("[data-key=match]").is_visible() else None
    change(tab, lambda: tab.get_by_label("Colour brought to its place, highest").fill("0"))
    for key in ("p_jitter", "p_noise"):
        tab.get_by_text("Colour and grain").click() if not tab.locator(f"[data-key={key}]").is_visible() else None
        change(tab, lambda key=key: set_number(tab, key, 0))
    tab.get_by_text("Where it is cut from", exact=True).click()
    change(tab, lambda: tab.get_by_role("group", name="Donor").get_by_role("button", name="other study").click())
    select = tab.get_by_label("Other study", exact=True)
    select.focus()
    select.locator("option", has_text="blue").wait_for(state="attached")
    change(tab, lambda: select.select_option("blue"))
    assert blue(tab) > 500
    tab.get_by_role("button", name="Train with this").click()
    tab.locator(".handed").filter(has_text="from the MedMix tab").wait_for()
    for key, value in (("size", 32), ("batch", 4), ("epochs", 1)):
        box = tab.locator(f".training-room [data-key='{key}'] input[type=number]").first
        box.fill(str(value))
        box.press("Enter")
    tab.get_by_label("Quick detectors and lesion head", exact=True).uncheck()
    with tab.expect_response("**/api/training/start") as answer:
        tab.get_by_role("button", name="Train", exact=True).click()
    config = runs.get_run(opened, answer.value.json()["run"])["config"]
    assert (config["medmix"]["donor"], config["medmix"]["donor_study"]) == ("foreign", "blue")


@pytest.mark.long
def test_images_of_ones_own_are_dropped_on_the_picture_or_chosen(tab, tmp_path):
    studys = mosaic(tab, 0)
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
    change(tab, lambda: tab.evaluate(drop, list(file.read_bytes())))
    assert blue(tab) > 100_000
    tab.locator(".medmix-room .status").filter(has_text="Your own images").wait_for()
    change(tab, lambda: tab.get_by_role("button", name="Back to the study").click())
    assert mosaic(tab, 0) == studys
    change(tab, lambda: tab.locator(".own-files").set_input_files(str(file)))
    assert blue(tab) > 100_000


def test_each_preset_has_a_picture_and_a_line(tab):
    tab.locator(".presets summary").click()
    items = tab.locator(".presets .item")
    drawn = "(c) => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0 && v < 255)"
    tab.wait_for_function(f"[...document.querySelectorAll('.presets canvas')].every({drawn})")
    lines = [line for line in items.locator("small").all_inner_texts() if line != "Saved preset"]
    assert len(lines) == len(set(lines)) == len(MEDMIX_PRESETS) and all(len(line) > 10 for line in lines)


def test_outlines_are_switched_in_the_enlarged_image(tab):
    box = tab.locator(".grid").first.bounding_box()
    tab.mouse.click(box["x"] + 20, box["y"] + box["height"] * 0.4)  # A_1 of the first sample
    zoom = tab.locator("dialog.zoom")
    outline = zoom.locator("polygon").first
    outline.wait_for(state="visible")
    zoom.get_by_label("Lesion outlines").uncheck()
    assert not outline.is_visible()
    tab.keyboard.press("Escape")
    zoom.wait_for(state="detached")


CELLS = """(grids) => grids.map((grid) =>
    grid.getBoundingClientRect().width / (grid.querySelector('canvas').width / 256))"""


@pytest.mark.long
def test_what_is_kept_beside_stays_as_it_was_and_is_named(tab):
    seen = mosaic(tab)  # of the first three samples
    change(tab, lambda: tab.get_by_label("Compare with").select_option("now"))
    assert tab.locator(".grid h3").all_inner_texts() == ["now", "copy"]
    assert [mosaic(tab, grid=i) for i in (0, 1)] == [seen, seen], "the very images that were on screen"
    asked = []
    tab.on("request", lambda r: asked.append(r) if r.url.endswith("/api/medmix/grid") else None)
    change(tab, lambda: tab.get_by_label("Size of a lesion, highest").fill("0.6"))
    assert mosaic(tab) != seen and mosaic(tab, grid=1) == seen
    assert len(asked) == 1, "what is kept is not drawn again"
    change(tab, lambda: tab.get_by_label("Augmentation").select_option(label="Rotation"))
    assert mosaic(tab, grid=1) == seen, "nor is it drawn by another augmentation"
    change(tab, lambda: tab.get_by_label("Augmentation").select_option(label="MedMix"))
    change(tab, lambda: set_number(tab, "k", 6))
    cells = tab.locator(".grid").evaluate_all(CELLS)
    assert cells[0] == pytest.approx(cells[1], rel=0.02), "seven classes beside four, at one scale"
    change(tab, lambda: tab.get_by_label("Compare with").select_option(label="paper"))
    assert tab.locator(".grid h3").all_inner_texts() == ["now", "paper"]


def test_images_are_shown_in_their_own_proportions(tab):
    size = tab.evaluate(f"fetch('/api/study/{STUDY}/overview').then((r) => r.json()).then((o) => o.sizes[0][0])")
    wide, high = (int(side) for side in size.split(" x "))
    box = tab.locator(".grid canvas").bounding_box()
    shown = box["width"] / 6 / (box["height"] / 4)
    if tab.locator(".status").filter(has_text="different aspect ratios").count():
        assert abs(shown - 1) < 0.02
    else:
        assert abs(shown - wide / high) < 0.03
        assert ("squeezes" in tab.locator(".medmix-room .status").inner_text()) == (wide != high)


CONTROLS = """[...document.querySelectorAll('.medmix-room .controls :is(input, output, [aria-pressed])')]
    .map((e) => e.value ?? e.ariaPressed).join()"""


def settle(page) -> None:
    page.wait_for_selector(".match .missed", timeout=180_000)


def begin(page, seconds: int = 5) -> None:
    page.get_by_label("Seconds to search").fill(str(seconds))
    page.get_by_role("button", name="Match", exact=True).click()


@pytest.mark.long
def test_from_a_dropped_image_to_a_saved_preset(tab, tmp_path):
    tab.get_by_role("button", name="Match lesions").click()
    tab.wait_for_selector(".match .row")
    assert tab.get_by_role("button", name="Match", exact=True).is_disabled()
    image = np.random.default_rng(0).integers(90, 140, (120, 160, 3), np.uint8)
    cv2.circle(image, (80, 60), 22, (40, 60, 220), -1)
    file = tmp_path / "own.png"
    cv2.imwrite(str(file), image)
    with tab.expect_file_chooser() as chooser:
        tab.get_by_role("button", name="Outline on own image").click()
    chooser.value.set_files(str(file))
    tab.get_by_label("How to outline").select_option("hand")
    tab.wait_for_function("document.querySelector('.mm-outline img').naturalWidth > 0")
    box = tab.locator(".mm-outline svg").bounding_box()
    points = [(0.36, 0.3), (0.64, 0.3), (0.64, 0.7), (0.36, 0.7)]
    for i, (x, y) in enumerate(points):
        tab.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        if not i:
            tab.mouse.down()
    tab.mouse.up()
    tab.get_by_role("button", name="Use this lesion").click()
    assert tab.locator(".match .lesion[aria-pressed=true]").count() == 1
    begin(tab)
    tab.wait_for_selector(".match progress", timeout=60_000)
    settle(tab)
    assert "is unknown" in tab.locator(".match").inner_text(), "one lesion tells nothing about others"
    tab.locator(".match-rows img").nth(3).wait_for()
    assert tab.locator(".match-rows > div").count() == 2
    with tab.expect_download() as download:
        tab.get_by_role("button", name="JSON ↓").click()
    download.value.save_as(tmp_path / "matched.json")
    exported = json.loads((tmp_path / "matched.json").read_text())
    assert len(exported["origin"]["outlined"]) == len(exported["config"]["matched"]) == 1
    tab.get_by_role("button", name="Save as preset").click()
    tab.get_by_label("Name of the preset").fill("like mine")
    tab.get_by_role("button", name="Save", exact=True).click()
    tab.locator(".toast.good").filter(has_text="like mine · v1").wait_for()
    listed = tab.evaluate("fetch('/api/medmix/presets').then((r) => r.json())")["presets"]
    (mine,) = [p for p in listed if p["name"] == "like mine"]
    assert mine["config"]["matched"] == exported["config"]["matched"] and "Matched to 1 lesion" in mine["note"]


@pytest.mark.long
def test_a_click_undoes_a_setting_and_a_reload_finds_the_search_again(tab):
    tab.get_by_role("button", name="Match lesions").click()
    tab.wait_for_selector(".match .lesion")
    tab.get_by_role("button", name="Choose 5").click()
    assert tab.locator(".match .lesion[aria-pressed=true]").count() == 5
    begin(tab, 20)
    tab.wait_for_selector(".match .big", timeout=90_000)
    tab.reload()
    tab.wait_for_selector(".widget-medmix[data-painted]")
    tab.get_by_role("button", name="Match lesions").click()
    tab.wait_for_selector(".match .big", timeout=60_000)
    stop = tab.get_by_role("button", name="Stop and keep the best")
    if stop.count():
        stop.click()
    settle(tab)
    assert (
        tab.locator(".presets summary").inner_text() in ("matched, not saved", "changed by hand")
        or tab.locator(".match .changed label").count() == 0
    )
    for box in tab.locator(".match .changed input").all():
        before = tab.evaluate(CONTROLS)
        change(tab, box.uncheck)
        after = tab.evaluate(CONTROLS)
        assert before != after, "the setting goes back"
        change(tab, box.check)
        assert tab.evaluate(CONTROLS) == before
