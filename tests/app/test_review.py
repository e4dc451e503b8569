"""The review room in a real browser: reading by keyboard alone, live threshold, drawing, blind readers side by side."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from core.studio.db import audit
from core.studio.db import store as stores
from core.studio.ingest import studies
from core.studio.review import accounts, blind, masks
from tests.app.conftest import REAL, Served
from tests.studio.review.conftest import add_readings, draw_folder

STUDY = "room"
ROOM = "document.querySelector('.widget-review')"
CASES = 50


def make_home(base: Path, cases: int = CASES) -> Path:
    """Fundus images of 512 pixels where they are at hand, else small drawn ones; two scored runs."""
    source, folder = REAL / "idrid", base / "images"
    if source.is_dir():
        for part, count in (("train/normal", 12), ("test/normal", cases - cases // 2), ("test/abnormal", cases // 2)):
            (folder / part).mkdir(parents=True)
            for path in sorted((source / part).iterdir())[:count]:
                shutil.copy(path, folder / part)
        (folder / "test/mask").mkdir()
        for path in (folder / "test/abnormal").iterdir():
            shutil.copy(source / "test/mask" / f"{path.stem}.png", folder / "test/mask")
    else:
        draw_folder(folder, 12, cases - cases // 2, cases // 2)
    store = stores.open(str(base / "home"))
    studies.import_study(store, STUDY, folder)
    add_readings(store, STUDY, "padim")
    add_readings(store, STUDY, "lesion-head", seed=1)
    store.close()
    return base / "home"


def add_recording(home: Path, folder: Path, study: str = "film", frames: int = 40, peaks: tuple = (9, 30)) -> None:
    """The study `film`: one multi-frame DICOM whose score rises to a peak at two of its frames.

    The study `volume`: the same of single slices, in files that are not named in their order.
    """
    from tests.studio.ingest.dicoms import write_dicom, write_volume

    rng = np.random.default_rng(0)
    (folder / "train/normal").mkdir(parents=True)
    (folder / "test/normal").mkdir(parents=True)
    written = {}
    for i in range(4):
        write_dicom(folder / f"train/normal/{i}.dcm", rng.integers(0, 3000, (48, 56), np.uint16))
    if study == "volume":
        written = write_volume(folder / "test/normal", frames, shape=(48, 56))
    else:
        write_dicom(folder / "test/normal/film.dcm", rng.integers(0, 3000, (frames, 48, 56), np.uint16))
    number = {str(path): k for k, path in written.items()}
    store = stores.open(str(home))
    studies.import_study(store, study, folder)
    run = add_readings(store, study, "padim")
    cases = store.query("SELECT id, frame, path FROM cases WHERE study = ? AND split = 'test'", [study])
    assert len(cases) == frames
    with store.write() as db:
        for case in cases:
            at = number.get(case["path"], case["frame"])
            score = max(1 - 0.04 * abs(at - p) for p in peaks)
            db.execute(
                "UPDATE readings SET score = ?, score_roi = ?, percentile = ?, percentile_roi = ? "
                "WHERE run = ? AND case_id = ?",
                [score, score, 100 * score, 100 * score, run, case["id"]],
            )
    store.close()


@pytest.fixture(scope="module")
def room_home(tmp_path_factory):
    home = make_home(tmp_path_factory.mktemp("room"))
    add_recording(home, tmp_path_factory.mktemp("film"))
    add_recording(home, tmp_path_factory.mktemp("volume"), "volume")
    return home


@pytest.fixture(scope="module")
def room_server(room_home):
    server = Served(room_home)
    yield server
    server.stop()


@pytest.fixture
def page_url(room_server):
    return room_server.url


def enter(page, url, study=STUDY):
    page.goto(f"{url}?study={study}&tab=review")
    page.wait_for_function(f"{ROOM}?.review?.picture", timeout=120_000)


def settle(page):
    page.evaluate(f"{ROOM}.idle()")


def rows(home, sql, *params):
    with sqlite3.connect(home / "studio.sqlite") as db:
        return db.execute(sql, params).fetchall()


def test_fifty_cases_by_keyboard_alone(page, page_url, room_home):
    enter(page, page_url)
    order, shown = page.evaluate(f"[...{ROOM}.review.list.rows.keys()]"), []
    page.evaluate(
        f"""{ROOM}.review.painted = (r) => {{
            const now = r.detail.id; window.seen ||= [];
            if (window.seen.at(-1) !== now) window.seen.push(now) }}; {ROOM}.review.draw()"""
    )
    keys = ["n", "a", "u"] * (CASES // 3 + 1)
    for start in range(0, CASES, 10):  # ten keys, hit fast
        for key in keys[start : start + 10]:
            page.keyboard.press(key)
        settle(page)
    said = rows(room_home, "SELECT case_id, decision, stage FROM reviews ORDER BY id")
    words = {"n": "normal", "a": "abnormal", "u": "unsure"}
    assert [r[0] for r in said] == order[:CASES]
    assert [r[1] for r in said] == [words[k] for k in keys[:CASES]]
    shown = page.evaluate("window.seen")
    assert shown[: len(order)] == order[: len(shown)]
    assert page.locator(".rv-tally b").inner_text() == f"{CASES} of {CASES} read"
    told = rows(room_home, "SELECT shown, seconds FROM events WHERE kind = 'decision'")
    assert len(told) == CASES and all('"run":' in s and sec is not None for s, sec in told)
    for _ in range(3):
        page.keyboard.press("z")
    page.keyboard.press("y")
    settle(page)
    assert rows(room_home, "SELECT count(*) FROM reviews WHERE active = 1")[0][0] == CASES - 2
    store = stores.open(str(room_home))
    assert audit.verify(store)["ok"]


def test_the_next_case_is_painted_soon(page, page_url):
    enter(page, page_url)
    took = page.evaluate(
        f"""async () => {{ const out = [];
        for (let i = 0; i < 20; i++) {{
            const start = performance.now();
            document.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'ArrowRight', bubbles: true }}));
            await {ROOM}.idle();
            out.push({ROOM}.review.shownAt - start);
        }} return out }}"""
    )
    print("key to next image painted, ms:", [round(t) for t in took], "p95", round(np.percentile(took, 95)))
    assert np.median(took) < 1000  # the aim is 150 ms on a free machine; a busy one must not fail the suite


def test_threshold_dice_is_right_and_asks_nothing(page, page_url, room_home):
    enter(page, page_url)
    for _ in range(CASES):
        if page.evaluate(f"Boolean({ROOM}.review.lesion)"):
            break
        page.keyboard.press("ArrowRight")
        settle(page)
    page.wait_for_function(f"{ROOM}.review.counts")
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    slider = page.locator(".rv-threshold")
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
        f"""(() => {{ const r = {ROOM}.review;
        return {{ id: r.detail.id, mask: r.maskId, run: r.run, level: r.heat.level,
            dice: Number(document.querySelector('.rv-dice').textContent), components: r.heat.components }} }})()"""
    )
    import zlib

    import torch

    store = stores.open(str(room_home))
    lesion = masks.pixels(store, found["mask"]).astype(bool)
    row = store.one("SELECT * FROM readings WHERE run = ? AND case_id = ?", [found["run"], found["id"]])
    codes = np.frombuffer(zlib.decompress(row["map"]), "<u2").reshape(row["map_h"], row["map_w"]).astype(np.float64)
    heat = torch.from_numpy(row["map_lo"] + codes / 65535 * (row["map_hi"] - row["map_lo"]))
    full = torch.nn.functional.interpolate(heat[None, None], lesion.shape, mode="bilinear", align_corners=False)[
        0, 0
    ].numpy()
    from core.engine.roi import find_roi
    from core.studio.ingest.decode import read_image

    path = store.one("SELECT path FROM cases WHERE id = ?", [found["id"]])["path"]
    above = (full >= found["level"]) & (find_roi(read_image(path, 0)) > 0)  # the map is shown inside the region alone
    dice = 2 * (above & lesion).sum() / (above.sum() + lesion.sum())
    assert above.any() and found["dice"] == pytest.approx(dice, abs=2e-3)


def test_a_drawn_mask_is_saved_as_a_version_pixel_for_pixel(page, page_url, room_home):
    enter(page, page_url)
    before = page.evaluate(f"{ROOM}.review.detail.masks.length")
    page.keyboard.press("b")
    box = page.locator(".rv-pane canvas").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 60, y)
    page.mouse.down()
    page.mouse.move(x + 40, y + 30, steps=5)
    page.mouse.up()
    page.mouse.move(x, y - 80)
    page.mouse.down()
    page.mouse.up()
    page.keyboard.press("z")  # the dot goes, the stroke stays
    page.keyboard.press("p")
    for dx, dy in ((80, 40), (140, 40), (110, 110)):
        page.mouse.click(x + dx, y + dy)
    page.keyboard.press("Enter")
    drawn = page.evaluate(
        f"""(() => {{ const r = {ROOM}.review, m = r.editor.mask;
        return {{ id: r.detail.id, sum: m.reduce((a, b) => a + b), all: [...m].join('') }} }})()"""
    )
    page.keyboard.press("s")
    settle(page)
    store = stores.open(str(room_home))
    versions = masks.versions(store, drawn["id"])
    assert len(versions) == before + 1 and versions[0]["source"] == "hand" and versions[0]["reader"] == "reader"
    kept = masks.pixels(store, versions[0]["id"])
    assert kept.sum() == drawn["sum"] > 300
    assert "".join(map(str, kept.ravel())) == drawn["all"]
    page.wait_for_function(f"{ROOM}.review.maskId === {versions[0]['id']} && {ROOM}.review.lesion")
    assert page.evaluate(f"[...{ROOM}.review.lesion.pixels].join('')") == drawn["all"]


def test_typing_a_comment_decides_nothing_and_is_kept(page, page_url, room_home):
    enter(page, page_url)
    count = rows(room_home, "SELECT count(*) FROM reviews")[0][0]
    case = page.evaluate(f"{ROOM}.review.detail.id")
    page.keyboard.press("c")
    page.keyboard.type("an unusual naevus <b>")
    assert rows(room_home, "SELECT count(*) FROM reviews")[0][0] == count
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    settle(page)
    assert rows(room_home, "SELECT case_id, decision, comment FROM reviews ORDER BY id DESC LIMIT 1") == [
        (case, "abnormal", "an unusual naevus <b>")
    ]
    assert page.locator(".rv-comment").input_value() != "an unusual naevus <b>"


def test_keys_can_be_changed_and_stay_changed(page, page_url):
    enter(page, page_url)
    page.keyboard.press("?")
    page.locator(".rv-keys > div", has_text="Invert the image").locator("button").click()
    page.keyboard.press("q")
    page.locator(".rv-help .main").click()
    page.keyboard.press("q")
    assert page.evaluate(f"{ROOM}.review.show.invert") is True
    page.wait_for_timeout(300)
    enter(page, page_url)
    page.keyboard.press("q")
    assert page.evaluate(f"{ROOM}.review.show.invert") is True
    page.keyboard.press("i")
    assert page.evaluate(f"{ROOM}.review.show.invert") is True


def packed(body: bytes) -> list[dict]:
    """The parts that a pack says it has."""
    import json

    length = int.from_bytes(body[:4], "little")
    parts = json.loads(body[4 : 4 + length])
    assert len(body) == 4 + length + sum(p["bytes"] for p in parts)
    return parts


def test_the_next_cases_come_in_one_request_each_and_are_ready(page, page_url):
    enter(page, page_url)
    page.keyboard.press("ArrowRight")
    settle(page)
    ready = """async () => { const { heats } = await import('/page/widgets/review/js/layers.js');
        const made = await Promise.all(heats.held.values());
        return made.length >= 4 && made.every((h) => h.made?.contour && h.made?.counted) }"""
    page.wait_for_function(ready)
    asked = []
    page.on("request", lambda r: asked.append(r.url.removeprefix(page_url).split("?")[0]))
    page.keyboard.press("ArrowRight")
    settle(page)
    page.wait_for_timeout(500)
    asked = [a for a in asked if not a.endswith(("/thumb.png", "api/status"))]
    assert asked[0] == "api/review/step" and len(asked) == 2, asked
    assert asked[1].endswith("/pack")
    body = page.request.get(f"{page_url}{asked[1]}?run=" + page.evaluate(f"{ROOM}.review.run")).body()
    assert {"image", "heat", "roi"} <= {p["name"] for p in packed(body)}


def test_the_nearest_normal_image_and_how_sure_the_reading_is(page, page_url, room_home):
    import json

    enter(page, page_url)
    case, run = page.evaluate(f"[{ROOM}.review.detail.id, {ROOM}.review.run]")
    store = stores.open(str(room_home))
    train = store.one("SELECT id, name, \"row\" FROM cases WHERE study = ? AND split = 'train'", [STUDY])
    steady = {"flagged": [True, False, True, True], "percentile": [97, 91, 98, 99], "sd": 1, "spread": 1}
    extra = {"nearest": [[train["row"], 0.25]], "steady": steady, "head": 2.5, "padim": 0.1}
    change = "UPDATE readings SET extra = ? WHERE run = ? AND case_id = ?"
    store.execute(change, [json.dumps(extra), run, case])
    enter(page, page_url)
    lines = page.locator(".rv-sure").all_inner_texts()
    assert lines[0].startswith("The detectors differ") and lines[1].startswith("Unsteady: flagged in 3 of 4 views")
    page.keyboard.press("x")
    page.wait_for_function(f"{ROOM}.review.nearest")
    assert page.evaluate(f"{ROOM}.review.nearest.id") == train["id"]
    assert train["name"] in page.locator(".rv-caption").last.inner_text()
    drawn = "(c) => new Set(c.getContext('2d').getImageData(c.width / 2 - 40, c.height / 2, 80, 1).data).size"
    page.wait_for_timeout(300)
    assert page.locator(".rv-pane canvas").last.evaluate(drawn) > 8
    page.keyboard.press("x")
    assert page.locator(".rv-pane").count() == 1


def test_the_map_keeps_to_the_region_until_it_is_let_out(page, page_url):
    enter(page, page_url)
    outside = f"""(() => {{ const {{ heat, roi }} = {ROOM}.review;
        const d = heat.canvas.getContext('2d').getImageData(0, 0, heat.field.w, heat.field.h).data;
        let shown = 0, cells = 0;
        for (let i = 0; i < roi.pixels.length; i++) if (!roi.pixels[i]) {{ cells++; shown += d[4 * i + 3] > 0 }}
        return [shown, cells, heat.field.w === roi.w && heat.field.h === roi.h] }})()"""
    shown, cells, same = page.evaluate(outside)
    assert same and shown == 0
    page.keyboard.press("r")
    assert page.evaluate(f"{ROOM}.review.show.inside") is False
    if cells:
        assert page.evaluate(outside)[0] > 0
    page.keyboard.press("r")
    assert page.evaluate(outside)[0] == 0


def test_a_recording_has_its_timeline_and_a_key_to_the_next_peak(page, page_url):
    enter(page, page_url, "film")
    frame = f"{ROOM}.review.detail.frame"
    page.wait_for_selector(".rv-timeline svg")
    page.evaluate(f"{ROOM}.review.goTo([...{ROOM}.review.list.rows.keys()].sort((a, b) => a - b)[0])")
    settle(page)
    assert page.evaluate(frame) == 0
    seen = []
    for _ in range(3):
        page.keyboard.press("k")
        settle(page)
        seen.append(page.evaluate(frame))
    assert seen == [9, 30, 9]
    box = page.locator(".rv-timeline svg").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 20.5 / 40, box["y"] + 20)
    settle(page)
    assert page.evaluate(frame) == 20
    enter(page, page_url)
    assert not page.locator(".rv-timeline").is_visible()


def test_slices_in_files_of_their_own_have_one_timeline_too(page, page_url, room_home):
    places = dict(rows(room_home, "SELECT id, slice FROM cases WHERE study = 'volume' AND split = 'test'"))
    enter(page, page_url, "volume")
    page.wait_for_selector(".rv-timeline svg")

    def shown():
        settle(page)
        return 40 - places[page.evaluate(f"{ROOM}.review.detail.id")]  # numbered from the far end

    box = page.locator(".rv-timeline svg").bounding_box()
    for at in (0, 20, 39):
        page.mouse.click(box["x"] + box["width"] * (at + 0.5) / 40, box["y"] + 20)
        assert shown() == at
    reached = []
    for _ in range(3):
        page.keyboard.press("k")
        reached.append(shown())
    assert reached == [9, 30, 9]


@pytest.mark.parametrize("size", [(1024, 768), (820, 1180)])
def test_on_a_tablet_nothing_is_cut_and_fingers_pinch(browser, page_url, size):
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, has_touch=True)
    page = context.new_page()
    enter(page, page_url)
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for name in (".rv-rows", ".rv-view", ".rv-decide", ".rv-say.abnormal", ".rv-threshold", ".rv-top"):
        box = page.locator(name).first.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= size[0] + 1 and box["width"] > 60, name
    view = page.locator(".rv-view").bounding_box()
    assert view["width"] * view["height"] > 0.2 * size[0] * size[1]
    assert page.locator(".rv-say.normal").bounding_box()["height"] >= 44
    inside = page.evaluate(
        "[...document.querySelectorAll('.rv-decide > *, .rv-top > *')].every((e) => {"
        "const b = e.getBoundingClientRect(); return !b.width || b.right <= innerWidth + 1 })"
    )
    assert inside
    before = page.evaluate(f"{ROOM}.review.view.scale")
    page.evaluate(
        """() => { const c = document.querySelector('.rv-pane canvas'), b = c.getBoundingClientRect();
        c.setPointerCapture = () => null;
        const go = (type, id, dx) => c.dispatchEvent(new PointerEvent(type, { pointerId: id, pointerType: 'touch',
          isPrimary: id === 1, clientX: b.x + b.width / 2 + dx, clientY: b.y + b.height / 2, bubbles: true }));
        go('pointerdown', 1, -30); go('pointerdown', 2, 30); go('pointermove', 2, 60); go('pointermove', 1, -60);
        go('pointerup', 1, -60); go('pointerup', 2, 60) }"""
    )
    assert page.evaluate(f"{ROOM}.review.view.scale") > 1.5 * before
    page.locator(".rv-say.normal").tap()
    settle(page)
    context.close()


def sign_in(browser, url, name):
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.goto(f"{url}sign-in")
    page.locator("input[name=name]").fill(name)
    page.locator("input[name=password]").fill("a long password")
    page.locator("button[type=submit], button").first.click()
    page.wait_for_url(url + "**")
    return context, page


def test_two_blind_readers_see_no_score_before_they_commit(browser, tmp_path):
    from sklearn.metrics import cohen_kappa_score

    home = make_home(tmp_path, 6)
    store = stores.open(str(home))
    for name in ("ann", "ben"):
        accounts.add_reader(store, name, "a long password")
    blind.set_blind(store, STUDY, True, "root")
    runs = [r["id"] for r in store.query("SELECT id FROM runs")]
    cases = store.query("SELECT * FROM cases WHERE split = 'test'")
    server = Served(home, "--readers")
    try:
        pages = [sign_in(browser, server.url, name) for name in ("ann", "ben")]
        for _, page in pages:
            enter(page, server.url)
            html = page.content()
            assert not page.locator(".rv-ai").is_visible() and page.locator(".rv-veil").is_visible()
            assert not any(c["name"] in html for c in cases)
            listed = page.request.get(f"{server.url}api/review/list?study={STUDY}").json()["rows"]
            assert not {r["id"] for r in listed} & {c["id"] for c in cases} and len(listed) == len(cases)
            for case in listed:
                for path in (
                    "api/study/room/overview",
                    "api/study/room/sample",
                    "api/clusters/runs",
                    "api/training/runs",
                ):
                    assert page.request.get(server.url + path).status == 403
                hidden = (f"heat?run={runs[0]}", f"heat?run={runs[1]}", "mask.png", "mask.bits")
                for path in (*hidden, f"nearest?run={runs[0]}"):
                    assert page.request.get(f"{server.url}api/case/{case['id']}/{path}").status == 403
                body = page.request.get(f"{server.url}api/case/{case['id']}/pack?run={runs[0]}").body()
                assert [p["name"] for p in packed(body)] == ["image"]
                told = page.request.get(f"{server.url}api/review/case/{case['id']}?study={STUDY}&run={runs[0]}").json()
                assert set(told["case"]) == {"id", "v", "width", "height", "bits", "name", "blind", "mine"}
                frames = page.request.get(f"{server.url}api/review/timeline/{case['id']}?run={runs[0]}").json()
                assert frames["frames"] == []
            for sort in ("percentile", "score", "disagreement", "name"):
                again = page.request.get(
                    f"{server.url}api/review/list?study={STUDY}&run={runs[0]}&sort={sort}&flagged=1"
                ).json()
                assert [r["id"] for r in again["rows"]] == [r["id"] for r in listed]
                assert not any({"score", "percentile", "flagged"} & set(r) for r in again["rows"])
        words = {"ann": "nanann", "ben": "naaaun"}
        for i in range(6):
            for (_, page), name in zip(pages, words, strict=True):
                page.keyboard.press(words[name][i])
                settle(page)
                assert page.locator(".rv-ai").is_visible(), "after the commit the reading is shown"
                page.keyboard.press(words[name][i])  # the second decision
                settle(page)
        assert store.one("SELECT count(*) AS n FROM reviews")["n"] == 24
        from core.studio.review.agreement import agreement

        long = {"n": "normal", "a": "abnormal", "u": "unsure"}
        said = [[long[k] for k in words[name]] for name in words]
        assert agreement(store, STUDY)["pairs"][0]["kappa"] == pytest.approx(cohen_kappa_score(*said), abs=1e-12)
        assert audit.verify(store)["ok"]
        for context, _ in pages:
            context.close()
    finally:
        server.stop()
