"""Matching lesions on the MedMix tab: from a dropped image to a saved preset, and settings that are undone."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from tests.app.test_medmix import change, open_tab

CONTROLS = """[...document.querySelectorAll('.medmix-room .controls :is(input, output, [aria-pressed])')]
    .map((e) => e.value ?? e.ariaPressed).join()"""


def settle(page) -> None:
    page.wait_for_selector(".match .missed", timeout=180_000)


def begin(page, seconds: int = 5) -> None:
    page.get_by_label("Seconds to search").fill(str(seconds))
    page.get_by_role("button", name="Match", exact=True).click()


@pytest.mark.long
def test_from_a_dropped_image_to_a_saved_preset(page, page_url, go, tmp_path):
    open_tab(page, page_url, go)
    page.get_by_role("button", name="Match lesions").click()
    page.wait_for_selector(".match .row")
    assert page.get_by_role("button", name="Match", exact=True).is_disabled()
    image = np.random.default_rng(0).integers(90, 140, (120, 160, 3), np.uint8)
    cv2.circle(image, (80, 60), 22, (40, 60, 220), -1)
    file = tmp_path / "own.png"
    cv2.imwrite(str(file), image)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Outline on own image").click()
    chooser.value.set_files(str(file))
    page.get_by_label("How to outline").select_option("hand")
    page.wait_for_function("document.querySelector('.mm-outline img').naturalWidth > 0")
    box = page.locator(".mm-outline svg").bounding_box()
    points = [(0.36, 0.3), (0.64, 0.3), (0.64, 0.7), (0.36, 0.7)]
    for i, (x, y) in enumerate(points):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        if not i:
            page.mouse.down()
    page.mouse.up()
    page.get_by_role("button", name="Use this lesion").click()
    assert page.locator(".match .lesion[aria-pressed=true]").count() == 1
    begin(page)
    page.wait_for_selector(".match progress", timeout=60_000)
    settle(page)
    assert "is unknown" in page.locator(".match").inner_text(), "one lesion tells nothing about others"
    assert page.locator(".match-rows > div").count() == 2 and page.locator(".match-rows img").count() > 3
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON ↓").click()
    download.value.save_as(tmp_path / "matched.json")
    exported = json.loads((tmp_path / "matched.json").read_text())
    assert len(exported["origin"]["outlined"]) == len(exported["config"]["matched"]) == 1
    page.get_by_role("button", name="Save as preset").click()
    page.get_by_label("Name of the preset").fill("like mine")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(".toast.good").filter(has_text="like mine · v1").wait_for()
    listed = page.evaluate("fetch('/api/medmix/presets').then((r) => r.json())")["presets"]
    (mine,) = [p for p in listed if p["name"] == "like mine"]
    assert mine["config"]["matched"] == exported["config"]["matched"] and "Matched to 1 lesion" in mine["note"]


@pytest.mark.long
def test_a_click_undoes_a_setting_and_a_reload_finds_the_search_again(page, page_url, go):
    open_tab(page, page_url, go)
    page.get_by_role("button", name="Match lesions").click()
    page.wait_for_selector(".match .lesion")
    page.get_by_role("button", name="Choose 5").click()
    assert page.locator(".match .lesion[aria-pressed=true]").count() == 5
    begin(page, 20)
    page.wait_for_selector(".match .big", timeout=90_000)
    page.reload()
    page.wait_for_selector(".widget-medmix[data-painted]")
    page.get_by_role("button", name="Match lesions").click()
    page.wait_for_selector(".match .big", timeout=60_000)
    stop = page.get_by_role("button", name="Stop and keep the best")
    if stop.count():
        stop.click()
    settle(page)
    assert (
        page.locator(".presets summary").inner_text() in ("matched, not saved", "changed by hand")
        or page.locator(".match .changed label").count() == 0
    )
    for box in page.locator(".match .changed input").all():
        before = page.evaluate(CONTROLS)
        change(page, box.uncheck)
        after = page.evaluate(CONTROLS)
        assert before != after, "the setting goes back"
        change(page, box.check)
        assert page.evaluate(CONTROLS) == before
