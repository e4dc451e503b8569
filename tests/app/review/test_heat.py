"""The heat map over the image: threshold and Dice, region of interest, what the reading rests on."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
import torch

from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import level_of, outlined, peaks
from core.engine.roi import find_roi
from core.engine.segment import lite_medsam
from core.studio.db import opening
from core.studio.ingest.decode import read_image
from core.studio.runs.readings import pixel_scale, stored_map, unpack_map
from core.studio.runs.records import get_run, update_run
from tests.app.review.conftest import CASES, STUDY, WIDGET, enter, settle
from tests.app.review.test_findings import FURTHEST
from tests.studio.review.conftest import mask_pixels

pytestmark = pytest.mark.long


def test_threshold_dice_is_right_and_asks_nothing(page, page_url, review_home):
    enter(page, page_url)
    shown = f"{WIDGET}.review.show.truth = true; {WIDGET}.review.cases.enter({WIDGET}.review.detail)"
    page.evaluate(shown)  # imported masks before a decision too
    for _ in range(CASES):
        if page.evaluate(f"Boolean({WIDGET}.review.lesion)"):
            break
        page.keyboard.press("ArrowRight")
        settle(page)
    page.wait_for_function(f"{WIDGET}.review.counts")
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    slider = page.locator(".rv-threshold")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + box["height"] / 2)
    page.mouse.down()
    for step in range(12):
        page.mouse.move(box["x"] + 5 + step * (box["width"] - 12) / 14, box["y"] + box["height"] / 2)
    seen = [
        u for u in asked if not u.endswith("/api/status")
    ]  # the shell asks that every few seconds, whatever one does
    page.mouse.up()
    assert seen == []
    found = page.evaluate(
        f"""(() => {{ const r = {WIDGET}.review;
        return {{ id: r.detail.id, mask: r.maskId, run: r.run, level: r.heat.level,
            dice: Number(document.querySelector('.rv-dice').textContent), components: r.heat.components }} }})()"""
    )
    store = opening.open(str(review_home))
    lesion = mask_pixels(store, found["mask"]).astype(bool)
    row = store.one("SELECT * FROM readings WHERE run = ? AND case_id = ?", [found["run"], found["id"]])
    codes = np.frombuffer(zlib.decompress(row["map"]), "<u2").reshape(row["map_h"], row["map_w"]).astype(np.float64)
    heat = torch.from_numpy(row["map_lo"] + codes / 65535 * (row["map_hi"] - row["map_lo"]))
    full = torch.nn.functional.interpolate(heat[None, None], lesion.shape, mode="bilinear", align_corners=False)[
        0, 0
    ].numpy()
    path = store.one("SELECT path FROM cases WHERE id = ?", [found["id"]])["path"]
    above = (full >= found["level"]) & (find_roi(read_image(path, 0)) > 0)  # the map is shown inside the region alone
    dice = 2 * (above & lesion).sum() / (above.sum() + lesion.sum())
    assert above.any() and found["dice"] == pytest.approx(dice, abs=2e-3)


def test_untouched_the_contour_is_the_outline_that_results_count(page, page_url, review_home):
    enter(page, page_url)
    case, run = page.evaluate(f"[{WIDGET}.review.detail.id, {WIDGET}.review.run]")
    words = "document.querySelector('.rv-outline').textContent"
    assert "one level for all images" in page.evaluate(words), "a run of before there were outlines"
    store = opening.open(str(review_home))
    before = get_run(store, run)["summary"]
    row, rows = stored_map(store, run, case), ("0" * 8, *["1" * 8] * 7)
    usual = pixel_scale(get_run(store, run))
    scale = usual._replace(threshold=float(np.quantile(unpack_map(row), 0.8)), share=0.5, seen=rows)
    level = float(level_of(peaks(unpack_map(row)[None], None, scale), scale)[0])
    update_run(store, run, summary={**before, "pixels": scale._asdict()})
    change = "UPDATE readings SET extra = json_set(extra, '$.outline', ?) WHERE run = ? AND case_id = ?"
    store.execute(change, [level, run, case])
    try:
        page.reload()
        enter(page, page_url)
        page.wait_for_function(f"{WIDGET}.review.counts && {WIDGET}.review.heat.step === null")
        assert page.evaluate(f"[{WIDGET}.review.detail.id, {WIDGET}.review.heat.level]") == pytest.approx([case, level])
        assert "above 50 % of the range" in page.evaluate(words)
        area = page.evaluate("Number(document.querySelector('.rv-numbers [title$=\" pixels\"]').title.split(' ')[0])")
        image = read_image(store.one("SELECT path FROM cases WHERE id = ?", [case])["path"], 0)
        heat = upsample(unpack_map(row)[None], image.shape[:2])
        want = outlined(heat, level, scale, find_roi(image)[None] > 0)[0]
        assert want.any() and not want[: len(want) // 8].any() and area == pytest.approx(want.sum(), rel=0.02)
        page.keyboard.press("]")
        assert page.evaluate(words) == "" and page.evaluate(f"{WIDGET}.review.heat.level") != level
    finally:
        update_run(store, run, summary=before)
        store.execute("UPDATE readings SET extra = json_remove(extra, '$.outline')")


def test_an_image_that_is_not_flagged_is_outlined_only_when_asked(page, page_url, review_home):
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.display.apply({{ heat: false, contour: true }})")
    picture, run = "document.querySelector('.rv-pane canvas').toDataURL()", page.evaluate(f"{WIDGET}.review.run")
    store = opening.open(str(review_home))
    query = "SELECT case_id FROM readings r JOIN cases c ON c.id = r.case_id WHERE run = ? AND split = 'test' "
    query += "AND coalesce(flagged_roi, flagged) = ? AND map IS NOT NULL ORDER BY score_roi DESC LIMIT 1"
    for flagged in (1, 0):
        case = store.first(query, [run, flagged])["case_id"]
        page.evaluate(f"{WIDGET}.review.goTo({case})")
        page.wait_for_function(f"{WIDGET}.review.detail.id === {case} && {WIDGET}.review.heat")
        settle(page)
        caption = page.locator(".rv-caption").first.inner_text()
        assert ("Not flagged: outline hidden" in caption) == (not flagged)
        seen = []
        for _ in range(3):
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            seen.append((page.evaluate(f"{WIDGET}.review.outlines({WIDGET}.review.heat)"), page.evaluate(picture)))
            page.keyboard.press("o")
        assert [outlined for outlined, _ in seen] == [bool(flagged), not flagged, bool(flagged)]
        assert seen[0][1] == seen[2][1] != seen[1][1], "one key draws the outline, or takes it away"
        page.evaluate(f"{WIDGET}.review.display.apply({{ contour: true }})")


def test_the_map_keeps_to_the_region_until_it_is_let_out(page, page_url):
    enter(page, page_url)
    outside = f"""(() => {{ const {{ heat, roi }} = {WIDGET}.review;
        const d = heat.canvas.getContext('2d').getImageData(0, 0, heat.field.w, heat.field.h).data;
        let shown = 0, cells = 0;
        for (let i = 0; i < roi.pixels.length; i++) if (!roi.pixels[i]) {{ cells++; shown += d[4 * i + 3] > 0 }}
        return [shown, cells, heat.field.w === roi.w && heat.field.h === roi.h] }})()"""
    shown, cells, same = page.evaluate(outside)
    assert same and shown == 0
    page.keyboard.press("r")
    assert page.evaluate(f"{WIDGET}.review.show.inside") is False
    if cells:
        assert page.evaluate(outside)[0] > 0
    page.keyboard.press("r")
    assert page.evaluate(outside)[0] == 0


def test_the_nearest_normal_image_and_how_sure_the_reading_is(page, page_url, review_home):
    enter(page, page_url)
    case, run = page.evaluate(f"[{WIDGET}.review.detail.id, {WIDGET}.review.run]")
    store = opening.open(str(review_home))
    train = store.one("SELECT id, name, \"row\" FROM cases WHERE study = ? AND split = 'train'", [STUDY])
    steady = {"flagged": [True, False, True, True], "percentile": [97, 91, 98, 99], "sd": 1, "spread": 1}
    extra = {"nearest": [[train["row"], 0.25]], "steady": steady, "head": 2.5, "padim": 0.1}
    change = "UPDATE readings SET extra = ? WHERE run = ? AND case_id = ?"
    store.execute(change, [json.dumps(extra), run, case])
    enter(page, page_url)
    lines = page.locator(".rv-sure").all_inner_texts()
    assert lines[0].startswith("The detectors differ") and lines[1].startswith("Unsteady: flagged in 3 of 4 views")
    page.keyboard.press("x")
    page.wait_for_function(f"{WIDGET}.review.nearest")
    assert page.evaluate(f"{WIDGET}.review.nearest.id") == train["id"]
    assert train["name"] in page.locator(".rv-caption").last.inner_text()
    page.wait_for_function(
        """() => { const c = [...document.querySelectorAll('.rv-pane canvas')].at(-1);
        return new Set(c.getContext('2d').getImageData(c.width / 2 - 40, c.height / 2, 80, 1).data).size > 8 }"""
    )
    page.keyboard.press("x")
    assert page.locator(".rv-pane").count() == 1


EDITOR = f"{WIDGET}.review.editor"
PIXELS = f"{EDITOR}.mask.reduce((a, b) => a + b, 0)"


def steps(page, count: int) -> None:
    page.wait_for_function(f"{EDITOR}.history.length === {count}", timeout=120_000)


@pytest.mark.skipif(lite_medsam.file() is None, reason=f"{lite_medsam.PACKAGE} is not installed")
def test_snap_and_box_are_steps_of_a_drawing_that_clicks_correct(page, page_url):
    enter(page, page_url)
    page.keyboard.press("f")
    page.keyboard.press("b")  # an empty drawing, whatever version was on screen
    page.locator(".rv-clear").click()
    before = page.evaluate(f"{EDITOR}.history.length")
    box = page.locator(".rv-pane canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] + 400, box["y"])  # the hottest blob, for the pointer is elsewhere
    page.keyboard.press(";")
    steps(page, before + 1)
    snapped = page.evaluate(PIXELS)
    assert snapped > 0 and page.evaluate(f"{EDITOR}.tool") == "brush", "no tool is switched unasked"
    page.keyboard.press("g")
    page.keyboard.down("Alt")
    page.mouse.click(*page.evaluate(FURTHEST, 1))
    page.keyboard.up("Alt")
    steps(page, before + 2)
    assert 0 < page.evaluate(PIXELS) < snapped, "takes away from what was snapped"
    for left in (1, 0):
        page.keyboard.press("z")
        steps(page, before + left)
    assert page.evaluate(PIXELS) == 0
    page.keyboard.press("/")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 60, y - 60)
    page.mouse.down()
    page.mouse.move(x + 60, y + 60, steps=3)
    page.mouse.up()
    steps(page, before + 1)
    assert page.evaluate(PIXELS) > 0
    page.wait_for_selector(".rv-drafted:not([hidden])")
    page.locator(".rv-editing").get_by_role("button", name="Discard").click()
    settle(page)


def test_without_the_model_the_page_says_what_is_missing(page, page_url):
    answer = json.dumps({"ok": True, "missing": lite_medsam.HOW})
    page.route("**/api/review/boxes", lambda route: route.fulfill(body=answer, content_type="application/json"))
    enter(page, page_url)
    page.wait_for_selector(".rv-lacks:not([hidden])")
    assert lite_medsam.HOW in page.locator(".rv-lacks").inner_text()
    assert page.locator(".rv-tools button").filter(has_text="Box").is_disabled()
    page.keyboard.press(";")
    page.wait_for_function(f"document.body.innerText.includes({json.dumps(lite_medsam.PACKAGE)})")
    assert page.evaluate(f"{EDITOR}.mask") is None
    page.keyboard.press("b")
    assert page.evaluate(f"{EDITOR}.tool") == "brush"
    page.locator(".rv-editing").get_by_role("button", name="Discard").click()
    settle(page)
