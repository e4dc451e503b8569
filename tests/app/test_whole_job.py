"""The whole job on the page, by one person, on real colonoscopy frames: from a folder to three reviews in SQLite."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.app.conftest import frames

COUNTS = {"train/normal": 16, "test/normal": 6, "test/abnormal": 6}
POINTS = 16 + 6 + 6  # every image of the study is a point; MedMix's are beside them
SHOTS = os.environ.get("PMSACL_SHOTS")  # a folder: a screenshot of each stage is left there
SLOW = 240_000  # ms; seconds on a quiet machine
ROOM = "document.querySelector('.widget-review')"
SCATTER = "document.querySelector('.widget-clusters')?.scatter"


def masked_frames(source: Path, target: Path) -> Path:
    """A small part of a study of colonoscopy frames, with the masks that belong to it."""
    frames(source, target, COUNTS)
    (target / "test/mask").mkdir()
    for path in (target / "test/abnormal").iterdir():
        shutil.copy(source / "test/mask" / f"{path.stem}.png", target / "test/mask")
    return target


@pytest.fixture
def page_url(unused) -> str:
    return unused.url


@pytest.fixture
def rows(unused):
    """rows("SELECT ...", *values) -> tuples, read from the SQLite file itself and not through the studio's code."""

    def read(sql: str, *values) -> list[tuple]:
        with sqlite3.connect(f"file:{unused.home / 'studio.sqlite'}?mode=ro", uri=True) as file:
            return file.execute(sql, values).fetchall()

    return read


def shoot(page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png")


def tab(page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def set_number(page, key: str, value) -> None:
    box = page.locator(f".training-room [data-key='{key}'] input[type=number]").first
    if not box.is_visible():
        page.locator(f".training-room details.group:has([data-key='{key}']) summary").click()
    box.fill(str(value))
    box.press("Enter")


def import_folder(page, folder: Path) -> None:
    page.get_by_label("Name").first.fill("Colon")
    page.get_by_label("Folder or CSV on this machine").fill(str(folder))
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("heading", name="Colon").wait_for(timeout=SLOW)
    assert page.locator(".counts tr.total td").all_inner_texts()[1:4] == ["22", "6", "6"]
    page.wait_for_function("document.querySelectorAll('.tile svg[data-outlined] .lesion').length >= 3")
    page.wait_for_function("window.Studio.study === 'colon'")
    page.wait_for_function("[...document.querySelectorAll('.tile img')].slice(0, 12).every((i) => i.naturalWidth > 0)")
    shoot(page, "1-study")


def look_too_early(page) -> None:
    """Before anything is trained the cases are there already, without a reading."""
    tab(page, "Review")
    page.wait_for_function(f"{ROOM}?.review?.picture && !{ROOM}.review.run")


def train(page) -> str:
    """One epoch of few steps, then PaDiM and the lesion head, as one chain. The encoder's run."""
    tab(page, "Training")
    page.wait_for_selector(".widget-training[data-ready]")
    page.locator(".advanced-turn").click()
    assert page.get_by_label("Objective").input_value() == "pmsacl"
    page.locator(".training-room .preset").select_option("quick")
    for key, value in (("size", 64), ("batch", 4), ("epochs", 1)):
        set_number(page, key, value)
    page.get_by_label("Quick detectors and lesion head", exact=True).uncheck()
    page.get_by_label("PaDiM", exact=True).check()
    page.locator("[data-detector='lesion-head']").check()
    set_number(page, "lesion-head.steps", 4)
    shoot(page, "2-training")
    with page.expect_response("**/api/training/start") as answer:
        page.get_by_role("button", name="Train", exact=True).click()
    made = answer.value.json()
    assert made["ok"], made
    for run in (made["run"], *made["fits"]):
        page.locator(f"tr[data-run='{run}'] .state").filter(has_text="done").wait_for(timeout=SLOW)
    # Both fits are scored and evaluated before the chain is done: AUROC is the third column from the right.
    for run in made["fits"]:
        figure = page.locator(f"tr[data-run='{run}'] td:nth-last-child(3)")
        figure.filter(has_text=".").wait_for(timeout=SLOW)
    page.locator(f"tr[data-run='{made['run']}']").click()
    page.wait_for_function("Number(document.querySelector('.widget-training').dataset.step) >= 1")
    shoot(page, "3-trained")
    return made["run"]


def draw_map(page) -> None:
    tab(page, "Clusters")
    page.wait_for_function(f"{SCATTER}?.listed.value.runs.length === 1")
    page.get_by_label("Method").select_option("pca")
    page.locator(".scatter-room").get_by_text("Settings", exact=True).click()
    page.get_by_label("MedMix per Aₙ").fill("4")
    page.get_by_role("button", name="Draw map").click()
    page.wait_for_function(f"{SCATTER}.panes[0].map && {SCATTER}.panes[0].plot.width > 0", timeout=SLOW)
    seen = page.evaluate(
        f"""(() => {{ const {{ map, plot, column }} = {SCATTER}.panes[0];
        const at = Array.from({{ length: map.n }}, (_, i) => plot.screen(i));
        return {{ n: map.n, own: map.lesions.filter((l) => l === 0).length, names: column.names,
          inside: at.filter(({{ x, y }}, i) => plot.visible[i] && Math.min(x, y) >= 0
            && x <= plot.width && y <= plot.height).length,
          places: new Set(at.map((p) => `${{p.x.toFixed(1)}} ${{p.y.toFixed(1)}}`)).size }} }})()"""
    )
    assert seen["own"] == POINTS and seen["n"] > POINTS, seen
    assert seen["inside"] == seen["n"] and seen["places"] > POINTS, "every point is in sight, at a place of its own"
    assert "Abnormal, test" in seen["names"]
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
    shoot(page, "4-clusters")


def review(page) -> list[int]:
    """Three decisions by keyboard; the ids of the cases that were on screen for them."""
    tab(page, "Review")
    page.wait_for_function(f"Boolean({ROOM}?.review?.picture && {ROOM}.review.heat)", timeout=SLOW)
    if page.evaluate(f"{ROOM}.review.list.rows.keys().next().value !== {ROOM}.review.detail.id"):
        page.locator(".rv-row").first.click()  # the room stays at the case seen before; the worst is on top
        page.evaluate(f"{ROOM}.idle()")
        page.wait_for_function(f"{ROOM}.review.list.rows.keys().next().value === {ROOM}.review.detail.id")
    shoot(page, "5-review")
    decided = []
    for key in "nau":
        decided.append(page.evaluate(f"{ROOM}.review.detail.id"))
        page.keyboard.press(key)
        page.evaluate(f"{ROOM}.idle()")
        page.wait_for_function(f"(was) => {ROOM}.review.detail.id !== was", arg=decided[-1])
    page.locator(".rv-tally b").filter(has_text="3 of 12 read").wait_for()
    shoot(page, "6-reviewed")
    return decided


@pytest.mark.longest
@pytest.mark.timeout(900)  # under a minute on a quiet machine
def test_from_a_folder_to_three_reviews_in_sqlite(page, page_url, real, rows, tmp_path):
    folder = masked_frames(real("hyperkvasir"), tmp_path / "colon")
    page.set_default_timeout(60_000)
    page.goto(page_url)
    page.wait_for_function("window.Studio && window.Studio.started")
    import_folder(page, folder)
    look_too_early(page)
    run = train(page)
    assert rows("SELECT status FROM jobs ORDER BY id") == [("done",)]
    assert rows("SELECT kind, method, parent FROM runs ORDER BY created, kind DESC") == [
        ("pretrain", "pmsacl", None),
        ("fit", "lesion-head", run),
        ("fit", "padim", run),
    ]
    assert rows("SELECT count(*) FROM metrics WHERE run = ? AND name = 'loss'", run)[0][0] >= 3
    draw_map(page)
    decided = review(page)
    kept = rows("SELECT case_id, decision, active FROM reviews ORDER BY id")
    assert kept == [(case, word, 1) for case, word in zip(decided, ("normal", "abnormal", "unsure"), strict=True)]
    assert rows("SELECT count(*) FROM cases WHERE split = 'test' AND id IN (?, ?, ?)", *decided) == [(3,)]
    # The worklist begins with what the detector that was shown found least like the held-out normals.
    (shown,) = rows("SELECT DISTINCT run FROM reviews")
    first = rows(
        "SELECT case_id FROM readings JOIN cases ON cases.id = case_id WHERE run = ? AND split = 'test' "
        "AND percentile = (SELECT max(percentile) FROM readings r JOIN cases c ON c.id = r.case_id "
        "WHERE r.run = ? AND c.split = 'test')",
        *shown * 2,
    )
    assert decided[0] in [case for (case,) in first]
