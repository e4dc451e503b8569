"""The Training tab: what is on screen is what is trained; pause, reload, resume; the buttons of a run."""

from __future__ import annotations

import json

import pytest

from core.engine.detectors.lesion_head.config import LESION_PRESETS
from core.studio.db import opening
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from tests.app.conftest import preset
from tests.conftest import ARCH
from tests.holding import held, steps

CHOOSE = """(select, name) => {
  select.add(new Option(name));
  select.value = name;
  select.dispatchEvent(new Event('change'));
}"""


def stored(served):
    return opening.open(str(served.home))


def set_number(page, key: str, value) -> None:
    box = page.locator(f".training-room [data-key='{key}'] input[type=number]").first
    box.fill(str(value))
    box.press("Enter")


def small(page, url, go, epochs: int = 2) -> None:
    """The tab, with a run settled that takes seconds; its backbone is none that the form offers."""
    go(page, url, "Training")
    page.wait_for_selector(".widget-training[data-ready]")
    page.locator(".training-room .preset").select_option("quick")
    for key, value in (("size", 32), ("batch", 4), ("epochs", epochs)):
        set_number(page, key, value)
    backbone = page.locator(".training-room [data-key='encoder.arch'] select").first
    backbone.evaluate(CHOOSE, ARCH)


def begin(page) -> str:
    """Presses Train; the new run's id."""
    with page.expect_response("**/api/training/start") as answer:
        page.get_by_role("button", name="Train", exact=True).click()
    found = answer.value.json()
    assert found["ok"], found
    return found["run"]


def state(page, run: str, wanted: str, timeout: int = 150_000) -> None:
    page.locator(f"tr[data-run='{run}'] .state").filter(has_text=wanted).wait_for(timeout=timeout)


@pytest.mark.long
def test_what_is_on_screen_is_what_is_trained(page, page_url, go, served):
    go(page, page_url, "MedMix")
    page.wait_for_selector(".widget-medmix[data-painted]")
    preset(page, "quick")
    page.get_by_label("Size of a lesion, highest").fill("0.45")
    page.get_by_role("group", name="Shape").get_by_role("button", name="irregular").click()
    page.get_by_role("button", name="Train with this").click()
    page.wait_for_selector(".widget-training[data-ready]")
    page.locator(".handed").filter(has_text="from the MedMix tab").wait_for()
    page.locator(".training-room .preset").select_option("quick")
    for key, value in (("size", 32), ("batch", 4), ("epochs", 1)):
        set_number(page, key, value)
    page.get_by_text("Optimiser", exact=True).first.click()
    set_number(page, "lr", 0.002)
    page.locator("[data-key=optimiser] select").select_option("sgd")
    assert page.get_by_label("Quick detectors and lesion head", exact=True).is_checked()  # the page's own choice
    page.get_by_label("Quick detectors and lesion head", exact=True).uncheck()
    page.get_by_label("PaDiM", exact=True).check()
    run = begin(page)
    config = runs.get_run(stored(served), run)["config"]
    assert config["medmix"]["size"] == [0.15, 0.45] and config["medmix"]["shape"] == "irregular"
    wanted = {"size": 32, "batch": 4, "epochs": 1, "lr": 0.002, "optimiser": "sgd", "strong": "medmix"}
    assert {k: config[k] for k in wanted} == wanted
    page.locator("tr.child .state").filter(has_text="done").first.wait_for(timeout=240_000)
    children = [r for r in runs.list_runs(stored(served)) if r["parent"] == run]
    assert [c["method"] for c in children] == ["padim"]
    page.locator(f"tr[data-run='{children[0]['id']}']").click()
    page.locator(".of-fit .fitted").filter(has_text="training images").wait_for()
    page.locator(".of-fit .result").filter(has_text="AUROC").wait_for()
    assert page.locator(".board:not(.of-fit)").is_hidden(), "a fit shows none of an encoder's panels"
    assert stored(served).one("SELECT count(*) AS n FROM readings WHERE run = ?", [children[0]["id"]])["n"] > 0


@pytest.mark.long
def test_lesions_are_chosen_by_what_the_images_are(page, page_url, go, served):
    """The choice fills the lesion head's settings, a change by hand stays, and the fit is stored with both."""
    small(page, page_url, go)
    page.get_by_label("Synthetic lesions for").select_option(label="X-ray")
    steps_of = page.locator(".group").filter(has=page.locator("[data-key='lesion-head.steps']"))
    assert not steps_of.is_visible(), "settings of detectors that are not chosen are not shown"
    page.get_by_label("Lesion head", exact=True).check()
    steps_of.locator("summary").click()
    set_number(page, "lesion-head.steps", 20)
    page.get_by_label("Lesion head + PaDiM", exact=True).check()
    run = begin(page)
    opened = stored(served)
    for job in jobs.list_jobs(opened, "queued", "running"):
        jobs.cancel(opened, job["id"])
    fits = {r["method"]: r["config"] for r in runs.list_runs(opened) if r["parent"] == run}
    wanted = json.loads(LESION_PRESETS["xray"].to_json())
    assert fits["lesion-head"] == {**wanted, "steps": 20}
    assert fits["combined"]["head"] == wanted


@pytest.mark.long
def test_another_study_begins_with_the_usual_settings(page, page_url, go):
    go(page, page_url, "Training")
    page.wait_for_selector(".widget-training[data-ready]")
    epochs = page.locator(".training-room [data-key='epochs'] input[type=number]").first
    was = epochs.input_value()
    pasted = page.locator(".training-room p.lesions")
    assert pasted.text_content() == "Strong augmentation: MedMix “quick”"
    boxes = page.locator(".training-room .detectors input")
    ticked = boxes.evaluate_all("all => all.map((b) => b.checked)")
    set_number(page, "epochs", 3)
    for i in range(boxes.count()):
        boxes.nth(i).set_checked(not ticked[i])
    page.evaluate("window.Studio.emit('study', window.Studio.study)")
    assert epochs.input_value() == was
    assert boxes.evaluate_all("all => all.map((b) => b.checked)") == ticked


def test_only_settings_with_an_effect_are_shown(page, page_url, go):
    go(page, page_url, "Training")
    page.wait_for_selector(".widget-training[data-ready]")
    page.evaluate("for (const group of document.querySelectorAll('.training-room .forms details')) group.open = true")
    alpha, patch = (page.locator(f".training-room [data-key={key}]") for key in ("alpha", "patch"))
    assert alpha.is_visible() and not patch.is_visible()
    drawer, room = (page.locator(name).bounding_box() for name in (".training-room > aside", ".training-room"))
    assert drawer["width"] == room["width"]
    page.get_by_label("Objective").select_option(label="CCD")
    assert not alpha.is_visible() and patch.is_visible()
    page.get_by_label("Objective").select_option(label="SimCLR")
    assert not patch.is_visible() and page.locator(".training-room [data-key=tau]").is_visible()


def test_a_wrong_setting_is_named_at_once_and_cannot_start(page, page_url, go):
    small(page, page_url, go)
    set_number(page, "batch", 0)
    page.locator("[data-key=batch] .error").filter(has_text="at least 1").wait_for()
    assert page.get_by_role("button", name="Train", exact=True).is_disabled()
    set_number(page, "batch", 4)
    page.wait_for_function("!document.querySelector('.training-room .start').disabled")


@pytest.mark.long
def test_dry_run_shows_time_and_memory(page, page_url, go):
    small(page, page_url, go)
    page.get_by_role("button", name="Try a few steps").click()
    page.wait_for_selector(".estimate[data-done]", timeout=150_000)
    text = page.locator(".estimate").inner_text()
    assert "per epoch" in text and "of memory" in text and "fits" in text


@pytest.mark.long
def test_pause_reload_resume_loses_and_repeats_no_step(page, page_url, go, served):
    small(page, page_url, go, epochs=20)
    page.get_by_label("Quick detectors and lesion head", exact=True).uncheck()
    run = begin(page)
    page.wait_for_function("Number(document.querySelector('.widget-training').dataset.step) >= 2", timeout=150_000)
    with held(served.home, run), page.expect_response("**/pause"):  # else it may have ended before the press
        page.get_by_role("button", name="Pause").click()
    state(page, run, "paused")
    page.reload()
    page.wait_for_selector(f"tr[data-run='{run}']", timeout=30_000)
    state(page, run, "paused")
    page.locator(f"tr[data-run='{run}']").click()
    page.get_by_role("button", name="Resume").click()
    state(page, run, "done")
    opened = stored(served)
    done = steps(served.home, run)
    assert done == list(range(1, len(done) + 1))
    history = (runs.run_folder(opened, run) / "history.jsonl").read_text().splitlines()
    assert len(history) == len(done), "no step was done twice"


@pytest.mark.long
def test_rename_note_repeat_compare_archive_delete(page, page_url, go, served):
    opened = stored(served)
    small(page, page_url, go, epochs=1)
    page.get_by_label("Quick detectors and lesion head", exact=True).uncheck()
    run = begin(page)
    state(page, run, "done")
    page.locator(".run-name").click()
    page.get_by_label("Name of the run").fill("First try")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Note", exact=True).click()
    page.get_by_role("textbox", name="Note").fill("lesions too large")
    page.get_by_role("button", name="Save", exact=True).click()
    page.locator(".said-note").filter(has_text="lesions too large").wait_for()
    page.locator(".run-name").filter(has_text="First try").wait_for()
    with page.expect_response("**/repeat") as answer:
        page.get_by_role("button", name="Repeat", exact=True).click()
    again = answer.value.json()["run"]
    assert runs.get_run(opened, again)["config"] == runs.get_run(opened, run)["config"]
    state(page, again, "done")
    for one in (run, again):
        page.locator(f"tr[data-run='{one}'] input").check()
    page.get_by_role("button", name="Compare").click()
    page.locator(".differences").filter(has_text="these runs have the same settings").wait_for()
    drawn = page.locator(".versus .chart figcaption > b")
    drawn.nth(1).wait_for()
    assert drawn.all_inner_texts() == ["Total loss", "Class accuracy, held out"], "several curves at once, by name"
    page.get_by_role("group", name="Metrics").get_by_role("button", name="Class loss", exact=True).click()
    drawn.nth(2).wait_for()
    page.locator(f"tr[data-run='{again}']").click()
    page.get_by_role("button", name="Delete").click()
    with page.expect_response("**/delete"):  # the list may forget the run before its files are gone
        page.locator("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_selector(f"tr[data-run='{again}']", state="detached")
    assert runs.get_run(opened, again)["binned"], "it stays in the bin for a week"
    page.locator(f"tr[data-run='{run}']").click()
    page.get_by_role("button", name="Archive").click()
    page.wait_for_selector(f"tr[data-run='{run}']", state="detached")
    assert runs.get_run(opened, run)["archived"]


def test_three_ways_and_the_rest_folded(page, page_url):
    page.goto(f"{page_url}?study=small&tab=training")
    page.wait_for_selector(".widget-training[data-ready]")
    ways = page.locator(".training-room .way b").all_inner_texts()
    assert ways == ["First look", "Train PMSACL", "Reproduce the paper"]
    assert not page.locator(".training-room .detectors").is_visible()
    page.locator(".advanced-turn").click()
    page.locator(".training-room .detectors").wait_for()
    page.reload()
    page.locator(".training-room .detectors").wait_for()
    page.locator(".go-report").click()
    page.wait_for_function("document.querySelector('[role=tab][aria-selected=true]').innerText === 'Report'")
