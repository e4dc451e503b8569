"""The Results page in a real browser: figures are the server's, each button does what it says."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest

from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.review import sessions
from core.studio.runs import records as runs
from core.studio.runs.results import baseline_row, evaluate_run
from tests.app.conftest import Served, arrived, open_tab, routed
from tests.studio.review.conftest import add_readings, draw_folder

STUDY = "results"


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A served home with two evaluated fits and the baseline. (server, store, {"lesion-head": run, "padim": run})"""
    base = tmp_path_factory.mktemp("results")
    store = opening.open(str(base / "home"))
    studies.import_study(store, STUDY, draw_folder(base / "images", 12, 8, 8))
    encoder = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32})
    made = {}
    for seed, method in enumerate(("padim", "lesion-head")):
        made[method] = add_readings(store, STUDY, method, seed=seed)
        store.execute("UPDATE runs SET parent = ? WHERE id = ?", [encoder, made[method]])
        evaluate_run(store, made[method], True, bootstrap=50)
    baseline_row(store, STUDY, 32, True, bootstrap=50)
    server = Served(base / "home")
    yield server, store, made
    server.stop()
    store.close()


@pytest.fixture
def page_url(scored):
    return scored[0].url


def asked(url: str, run: str = "") -> dict:
    with urllib.request.urlopen(f"{url}api/results/{STUDY}?run={run}") as answer:
        return json.load(answer)


@pytest.mark.long
def test_detectors_stand_side_by_side_and_a_click_shows_their_results(page, page_url, scored):
    open_tab(page, page_url, "Results", STUDY)
    table = page.locator(".rs-compared tr[data-run]")
    table.nth(2).wait_for()
    read_rows = asked(page_url)["compared"]
    for i, row in enumerate(read_rows):
        cells = table.nth(i).locator("td").all_inner_texts()
        assert cells[0] == row["title"] and cells[2] == str(row["cases"])
        assert float(cells[3]) == pytest.approx(row["auroc"], abs=0.00051)
        assert cells[6] == ("–" if row["pixel_auroc"] is None else f"{row['pixel_auroc']:.3f}")
    assert [r["run"] for r in read_rows] == [scored[2]["lesion-head"], scored[2]["padim"], None]
    for method in ("padim", "lesion-head"):
        run = scored[2][method]
        page.locator(f".rs-compared tr[data-run='{run}'] button").click()
        page.locator(f".rs-compared tr[data-run='{run}'] button[aria-pressed=true]").wait_for()
        found = asked(page_url, run)
        assert f"AUROC {found['labels']['auroc'] + 1e-9:.3f}" in page.locator(".rs-page").inner_text()
    assert found["labels"]["auroc"] == pytest.approx(read_rows[0]["auroc"]), "one figure, two ways"


def test_dice_by_lesion_size_comes_after_the_other_figures(page, page_url, scored):
    run, held = scored[2]["padim"], []
    page.route("**/api/results/*/sizes?*", lambda route: held.append(route))
    open_tab(page, page_url, "Results", STUDY)
    page.get_by_text("Reading masks and heat maps…").wait_for()
    page.locator(f".rs-compared tr[data-run='{run}'] button").click()
    page.locator(f".rs-compared tr[data-run='{run}'] button[aria-pressed=true]").wait_for()
    arrived(page, held, 2)
    for route in held:
        with page.expect_response("**/api/results/*/sizes?*"):
            route.continue_()
    with urllib.request.urlopen(f"{page_url}api/results/{STUDY}/sizes?run={run}") as answer:
        found = json.load(answer)
    dots = page.locator(".rs-plot circle[fill-opacity]")
    dots.nth(len(found["points"]) - 1).wait_for()
    first = found["points"][0]
    assert dots.count() == len(found["points"]) > 0
    assert dots.first.text_content() == f"{first['name']}: Dice {first['dice']:.2f}", "of the run that was chosen last"


def test_a_prediction_opens_its_case_in_review(page, page_url):
    open_tab(page, page_url, "Results", STUDY)
    first = page.locator(".rs-case").first
    first.wait_for()
    case = asked(page_url)["panel"][0]
    assert first.get_attribute("title").startswith(case["name"])
    first.click()
    page.wait_for_function(f"document.querySelector('.widget-review')?.review?.detail?.id === {case['id']}")


@pytest.mark.long
def test_blind_first_is_switched_on_and_off_in_the_database(page, page_url, scored):
    store = scored[1]
    open_tab(page, page_url, "Results", STUDY)
    switch = page.get_by_role("button", name="Blind-first reading")
    for state in ("on", "off"):
        switch.click()
        page.get_by_role("button", name=f"Blind-first reading: {state}").wait_for()
        assert sessions.is_blind(store, STUDY) == (state == "on")


def test_what_is_taken_away_is_what_the_button_says(page, page_url):
    open_tab(page, page_url, "Results", STUDY)
    for name, head in (("Decisions, CSV", b"case"), ("Masks, COCO", b"{"), ("Whole study, bundle", b"PK")):
        with page.expect_download() as coming:
            page.get_by_role("button", name=name).click()
        assert Path(coming.value.path()).read_bytes().startswith(head), name


def test_an_export_that_cannot_be_made_says_why_even_if_its_form_is_gone(page, page_url):
    open_tab(page, page_url, "Results", STUDY)

    def late(route):
        page.evaluate("document.querySelector('.rs-page').replaceChildren()")
        route.continue_()

    routed(page, "**/api/export/*/dicom-seg", late)
    page.get_by_role("button", name="DICOM, masks", exact=True).click()
    page.get_by_text("no case of this study came as DICOM with a mask").wait_for()


def test_results_open_with_a_verdict_on_each_detector(page, page_url, scored):
    said = asked(page_url)["verdicts"]
    assert {v["run"] for v in said} == set(scored[2].values())
    open_tab(page, page_url, "Results", STUDY)
    lines = page.locator(".rs-verdict")
    lines.nth(1).wait_for()
    first = page.locator(".rs-page > section").first
    assert first.locator("h2").inner_text() == "Verdict", "above all figures"
    for line, verdict in zip(lines.all(), said, strict=True):
        text = line.inner_text()
        assert verdict["title"] in text and verdict["words"] in text and verdict["advice"] in text
        assert verdict["level"] in line.get_attribute("class").split()
    lines.nth(1).get_by_role("button").click()
    page.locator(".rs-verdict button[aria-pressed=true]", has_text=said[1]["title"]).wait_for()


@pytest.mark.long
def test_an_answer_that_comes_late_does_not_undo_a_choice(page, page_url, scored):
    second = asked(page_url)["verdicts"][1]["title"]
    open_tab(page, page_url, "Results", STUDY)
    chosen = page.locator(".rs-verdict button[aria-pressed=true]", has_text=second)
    page.locator(".rs-verdict").nth(1).wait_for()
    held = []
    routed(page, re.compile(r"/api/results/.*run=&"), lambda route: held.append(route))
    page.get_by_role("tab", name="Study", exact=True).click()
    page.get_by_role("tab", name="Results", exact=True).click()
    page.locator(".rs-verdict button", has_text=second).click()
    chosen.wait_for()
    arrived(page, held)
    assert len(held) == 1, "the question asked before the choice is still open"
    with page.expect_response(lambda r: "run=&" in r.url):
        held[0].continue_()
    page.wait_for_timeout(200)
    assert chosen.is_visible()


def test_what_is_the_same_is_not_drawn_anew_when_the_tab_is_asked_for_again(page, page_url, scored):
    """Else what somebody is about to drag or to tick would be gone under the hand."""
    with page.expect_response("**/sizes?*"):
        open_tab(page, page_url, "Results", STUDY)
    page.locator(".rs-point").evaluate("(dot) => { dot.dataset.old = '1'; }")
    for _ in range(3):
        with page.expect_response("**/sizes?*"):  # asked anew: readers' masks may have come meanwhile
            page.get_by_role("tab", name="Results", exact=True).click()
    assert page.locator(".rs-point").get_attribute("data-old") == "1"


def test_the_operating_point_is_dragged_and_the_flags_of_the_list_follow(page, page_url, scored):
    run = scored[2]["lesion-head"]
    open_tab(page, page_url, "Results", STUDY)
    dot = page.locator(".rs-point")
    dot.wait_for()
    assert "95th percentile" in page.locator(".rs-chosen").inner_text()
    curve = page.locator(".rs-point").locator("xpath=..").bounding_box()
    box = dot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    # To the corner at the top right: everything is flagged.
    page.mouse.move(curve["x"] + curve["width"] * 0.95, curve["y"] + curve["height"] * 0.05, steps=4)
    assert page.locator(".rs-said").inner_text() == "Sensitivity 100.0 %, specificity 0.0 %"
    page.mouse.up()
    page.get_by_text("set to a chosen score, with the labels visible").first.wait_for()
    found = asked(page_url, run)
    assert found["chosen"]["source"] == "dragged" and found["labels"]["sensitivity"]["value"] == 1
    (unflagged,) = scored[1].columns(
        "SELECT r.case_id FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.split = 'test' "
        "AND NOT coalesce(r.flagged_roi, r.flagged)",
        [run],
    )
    assert len(unflagged) == 0
    page.get_by_role("button", name="Fit to readers").click()
    page.get_by_text("Readers must call some cases normal").wait_for()
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("In effect: the 95th percentile").wait_for()
    page.get_by_text("1 earlier operating point").click()
    page.get_by_text("set to a chosen score, with the labels visible, above a score of").wait_for()
    assert asked(page_url, run)["labels"]["specificity"]["value"] > 0
    kinds = [e["kind"] for e in scored[1].query("SELECT kind FROM events WHERE kind = 'operating-point'")]
    assert len(kinds) == 2


def test_exports_can_keep_names_and_hold_all_scores(page, page_url, scored):
    open_tab(page, page_url, "Results", STUDY)
    page.locator(".rs-named").wait_for()
    page.locator(".rs-named").check()
    with page.expect_response("**/sizes?*"):
        page.evaluate("Studio.emit('scored')")
    assert page.locator(".rs-named").is_checked(), "the figures came again meanwhile"
    with page.expect_download() as held:
        page.get_by_role("button", name="All scores, CSV").click()
    lines = Path(held.value.path()).read_text(encoding="utf-8").splitlines()
    names = [r["name"].rsplit(".", 1)[0] for r in scored[1].query("SELECT name FROM cases WHERE split != 'train'")]
    assert len(lines) == 1 + scored[1].first("SELECT count(*) AS n FROM readings")["n"]
    assert {line.split(",")[0] for line in lines[1:]} == set(names)


@pytest.mark.long
def test_who_does_not_administer_is_offered_nothing_that_would_be_refused(page, page_url):
    page.route("**/api/manage", lambda route: route.fulfill(json={"ok": True, "administer": False}))
    open_tab(page, page_url, "Results", STUDY)
    page.get_by_text("An administrator moves the operating point.").wait_for()
    assert page.get_by_role("slider", name="Operating point").count() == 0
    for name in ("Fit to readers", "Limit false alarms to 5 %", "Plant test lesions", "Whole study, bundle"):
        assert page.get_by_role("button", name=name).count() == 0, name
    assert page.get_by_role("button", name="Decisions, CSV").is_visible()


def test_what_is_missed_is_measured_by_a_button(page, page_url, scored):
    open_tab(page, page_url, "Results", STUDY)
    sent = []

    def queued(route):
        if route.request.method != "POST":
            return route.continue_()
        sent.append(route.request.url)
        route.fulfill(json={"ok": True, "job": 1})

    routed(page, re.compile(r"/api/results/[^/]*/believe"), queued)
    page.get_by_text("Not measured yet").wait_for()
    assert "pmsacl-studio" not in page.locator(".rs-page").inner_text(), "no command of a terminal"
    page.get_by_role("button", name="Plant test lesions").click()
    page.get_by_text("Planting lesions.").wait_for()
    assert sent and scored[2]["lesion-head"] in sent[0]


def test_one_explanation_of_the_limit_stands_at_the_operating_point(page, page_url):
    open_tab(page, page_url, "Results", STUDY)
    summary = page.get_by_text("What the 5 % limit guarantees")
    summary.wait_for()
    assert summary.count() == 1 and page.locator(".rs-page > section").nth(1).get_by_text("What the 5 %").count() == 1
