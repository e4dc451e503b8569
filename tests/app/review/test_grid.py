"""The worklist as a grid: keys, selection and tags, chips, the strip; ten thousand rows; a blind session."""

from __future__ import annotations

import json

import pytest

from core.studio.db import opening
from tests.app.conftest import routed
from tests.app.review.conftest import CASES, SESSIONS, STUDY, WIDGET, come_back, enter
from tests.studio.review.conftest import decide

GRID = f"{WIDGET}.review.grid"
READY = f"{GRID}.pages.total && document.querySelector('.rv-tile:not(.waits) img[src]')"
PIXEL = bytes.fromhex("524946461a000000574542505650384c0e0000002f00000000071011fd0f4444ff03")  # a WebP of one


def show(page) -> None:
    """The grid, without keeping the choice for other tests."""
    page.evaluate(f"{GRID}.show(true)")
    page.wait_for_function(READY)


def at(page) -> int:
    return page.evaluate(f"{GRID}.at")


@pytest.mark.long
def test_arrows_move_enter_opens_and_the_case_is_found_again(page, page_url):
    enter(page, page_url)
    show(page)
    assert page.evaluate(f"{GRID}.pages.row(0).id === {WIDGET}.review.detail.id"), "the cursor begins at the case"
    columns = page.evaluate(f"{GRID}.shape.columns")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert at(page) == 2 + columns
    page.keyboard.press("n")
    assert page.locator(".toast").last.inner_text().startswith("Decide on the image")
    assert page.locator(".rv-tile[data-now]").get_attribute("data-at") == str(2 + columns)
    wanted = page.evaluate(f"{GRID}.pages.row({2 + columns}).id")
    page.keyboard.press("Enter")
    page.wait_for_function(f"{WIDGET}.review.detail.id === {wanted}")
    assert page.locator(".rv-stage").is_visible() and not page.locator(".rv-grid").is_visible()
    words = page.locator(".rv-strip-words")
    page.wait_for_function(
        "t => document.querySelector('.rv-strip-words').innerText.startsWith(t)", arg=f"{3 + columns} of"
    )
    assert "score" in words.inner_text()
    show(page)
    page.wait_for_function(f"{GRID}.at === {2 + columns}")


@pytest.mark.long
def test_the_heat_map_key_repaints_the_pictures_and_its_button_says_so(page, page_url):
    enter(page, page_url)
    page.evaluate(f"{WIDGET}.review.display.apply({{ heat: false }})")
    show(page)
    heated, button = "document.querySelectorAll('.rv-tile img[src*=\"run=\"]').length", page.locator(".rv-grid-top")
    button = button.get_by_role("button", name="Heat map")
    for pressed in ("true", "false"):
        page.keyboard.press("h")
        page.wait_for_function(f"Boolean({heated}) === {pressed} && {READY}")
        assert button.get_attribute("aria-pressed") == pressed


@pytest.mark.long
def test_a_selection_is_tagged_and_the_chip_filters_by_it(page, page_url):
    enter(page, page_url)
    show(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_function(f"{GRID}.selection.ids.size === 3")
    page.keyboard.press("t")
    page.keyboard.type("second look")
    page.keyboard.press("Enter")
    chip = page.get_by_role("group", name="Tag", exact=True).get_by_role("button", name="second look")
    chip.click()
    page.wait_for_function("document.querySelectorAll('.rv-tile:not(.waits)').length === 3")
    assert page.locator(".rv-tile .rv-tag", has_text="second look").count() == 3
    page.keyboard.press("Enter")
    taken = page.get_by_role("button", name="Remove tag second look")
    taken.click()
    taken.wait_for(state="detached")
    page.locator(".rv-chip[aria-pressed=true]", has_text="second look").click()  # in the list it stays in sight
    page.wait_for_function(f"{WIDGET}.review.list.rows.size === {CASES}")
    assert page.locator(".rv-row .rv-tag", has_text="second look").count() == 2


@pytest.mark.long
def test_the_order_by_disagreement_has_the_cases_that_readers_differ_on(page, page_url, review_home):
    store = opening.open(str(review_home))
    ids = [row["id"] for row in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [STUDY])]
    for case, second in ((ids[7], "abnormal"), (ids[3], "normal"), (ids[11], "abnormal")):
        decide(store, case, "Cleo", "normal")
        decide(store, case, "Dan", second)
    store.close()
    enter(page, page_url)
    show(page)
    with page.expect_response("**/api/review/overview*"):
        page.locator("select[title='Order of the worklist']").select_option("disagreement")
    page.wait_for_function(f"{GRID}.pages.total < 10 && {GRID}.pages.row({GRID}.pages.total - 1)?.disagreement > 0")
    shown = page.evaluate(f"{GRID}.pages.rows.map((row) => row.id)")
    assert {ids[7], ids[11]} <= set(shown) and ids[3] not in shown
    page.locator(".rv-tile[data-at='0'] .rv-differ").wait_for()


@pytest.mark.long
def test_chips_and_menus_say_the_same_and_space_goes_to_the_next_unread(page, page_url):
    enter(page, page_url)
    show(page)
    page.get_by_role("group", name="Flag", exact=True).get_by_role("button", name="Flagged", exact=True).click()
    page.wait_for_function(f"{GRID}.pages.total && {GRID}.pages.total < {CASES}")
    page.evaluate(f"{GRID}.loaded")  # the number comes before the rows
    assert page.locator("select[aria-label='Flag']").input_value() == "1"
    flagged = page.evaluate(f"{GRID}.pages.rows.every((row) => row.flagged)")
    assert flagged
    unread = page.evaluate(f"{GRID}.pages.rows.findIndex((row, i) => i > {GRID}.at && !row.decision)")
    assert unread > 0
    page.locator(".rv-tiles").focus()
    page.keyboard.press(" ")
    page.wait_for_function(f"{GRID}.at === {unread}")


@pytest.mark.long
def test_space_is_not_lost_where_another_window_changes_the_list_before_its_answer(page, page_url):
    enter(page, page_url)
    show(page)
    unread = f"{GRID}.pages.rows.flatMap((row, i) => i > {GRID}.at && !row.decision ? [i] : [])"
    nearest, second, *_ = page.evaluate(unread)
    other = page.evaluate(f"{GRID}.pages.row({second}).id")
    late = []
    routed(page, "**/api/review/place*unread=1*", lambda route: late.append(route), times=1)
    page.locator(".rv-tiles").focus()
    with page.expect_request("**/api/review/place*unread=1*"):
        page.keyboard.press(" ")
    assert page.request.post(f"{page_url}api/review/decide", data={"case": other, "decision": "unsure"}).ok
    come_back(page)
    page.wait_for_function(f"{GRID}.pages.row({second})?.decision === 'unsure'")
    late[0].continue_()
    page.wait_for_function(f"{GRID}.at === {nearest}", timeout=15_000)


@pytest.mark.long
def test_a_chip_that_is_drawn_again_while_it_is_pressed_takes_the_click(page, page_url):
    enter(page, page_url)
    show(page)
    chip = page.get_by_role("group", name="Flag", exact=True).get_by_role("button", name="Flagged", exact=True)
    chip.hover()
    page.mouse.down()
    page.evaluate(f"{WIDGET}.review.overview.draw()")  # as when an answer comes late
    page.mouse.up()
    page.wait_for_function(f"{GRID}.pages.total && {GRID}.pages.total < {CASES}")
    assert chip.get_attribute("aria-pressed") == "true"


@pytest.mark.long
def test_the_strip_leads_to_the_score_that_is_clicked(page, page_url):
    enter(page, page_url)
    show(page)
    page.wait_for_selector(".rv-strip svg rect")
    box = page.locator(".rv-strip svg").bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
    page.wait_for_function(f"{GRID}.at > 0")
    scores = page.evaluate(f"{GRID}.pages.rows.map((row) => row.score)")
    shown = page.evaluate(f"{WIDGET}.review.overview.got.scores")
    meant = shown["lo"] + 2 / box["width"] * (shown["hi"] - shown["lo"])
    assert scores[at(page)] == min(scores, key=lambda score: abs(score - meant))


@pytest.mark.long
def test_the_choice_of_the_grid_is_kept(page, page_url):
    enter(page, page_url)
    keep = {"data": {"show": {"listing": "list"}}}
    try:
        with page.expect_response(lambda r: r.url.endswith("/api/review/settings") and r.ok) as stored:
            page.keyboard.press("q")
        keep["data"]["show"] = {**json.loads(stored.value.request.post_data)["show"], "listing": "list"}
        page.reload()
        page.wait_for_function(f"{WIDGET}?.review?.grid.on && {READY}", timeout=120_000)
        page.get_by_role("button", name="Grid of pictures").click()
        page.wait_for_selector(".rv-stage", state="visible")
    finally:
        assert page.request.post(f"{page_url}api/review/settings", **keep).ok


@pytest.mark.long
def test_of_ten_thousand_rows_a_few_exist_and_a_fast_scroll_asks_for_no_picture_on_its_way(page, page_url):
    total, lists, tiles = 10_000, [], []
    row = {"name": "x.png", "v": "1", "decision": None, "first": None, "second": None, "adjudicated": None,
           "key": [0, 0, 0], "score": 0.5, "percentile": 50, "flagged": 0, "map": None, "tags": [], "kinds": [],
           }  # fmt: skip

    def listed(route):
        first = int(route.request.url.split("at=")[1].split("&")[0])
        lists.append(first)
        route.fulfill(json={"ok": True, "rows": [{**row, "id": first + i + 1} for i in range(100)], "cursor": None})

    enter(page, page_url)
    overview = {"ok": True, "total": total, "scores": None, "tags": [], "labels": False}
    page.route("**/api/review/overview*", lambda route: route.fulfill(json=overview))
    page.route("**/api/review/list*at=*", listed)
    page.route("**/tile.webp*", lambda route: (tiles.append(1), route.fulfill(body=PIXEL, content_type="image/webp")))
    show(page)
    most = page.evaluate(
        f"""async () => {{
      const box = {GRID}.box, frame = () => new Promise((done) => requestAnimationFrame(done));
      let most = 0;
      for (let i = 0; i <= 60; i += 1) {{
        box.scrollTop = (box.scrollHeight - box.clientHeight) * i / 60;
        await frame();
        most = Math.max(most, document.querySelectorAll('.rv-tile').length);
      }}
      return most;
    }}"""
    )
    page.wait_for_function("document.querySelector('.rv-tile[data-at=\"9999\"] img[src]')")
    assert most < 80
    assert len(lists) <= 12 and len(tiles) <= 4 * most, (lists, len(tiles))


def test_a_blind_session_shows_pictures_alone(page, page_url):
    body = {"study": SESSIONS, "choice": "all", "count": 6, "blind": True, "shuffled": True, "neutral": True}
    assert page.request.post(f"{page_url}api/reading/start", data=body).ok
    try:
        asked: list[str] = []
        page.on("request", lambda r: asked.append(r.url) if "tile.webp" in r.url else None)
        enter(page, page_url, SESSIONS)
        show(page)
        page.wait_for_function("[...document.images].filter(i => i.naturalWidth && i.closest('.rv-tile')).length === 6")
        assert asked and not any("run=" in url for url in asked), "no heat map is asked for"
        tile = page.locator(".rv-tile").first
        assert tile.locator(".rv-pct").inner_text() == "–" and tile.get_attribute("title").startswith("Case ")
        assert page.locator(".rv-tile.flagged, .rv-strip svg").count() == 0
        groups = page.locator(".rv-facet").evaluate_all("all => all.map((one) => one.dataset.key)")
        assert groups == ["decision", "assigned"]
    finally:
        page.request.post(f"{page_url}api/reading/end", data={})
