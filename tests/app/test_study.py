"""The Study tab: import by path and by choosing files, the report, the sample."""

import re
import shutil
import zipfile
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest

from core.studio.db import opening
from tests.app.conftest import STUDY, manage, small_folder


def test_import_by_path_reports_what_was_left_out(page, page_url, go, tmp_path):
    folder = small_folder(tmp_path / "brought", 6, 3, 3)
    (folder / "train/normal/notes.png").write_text("no picture at all")
    first = sorted((folder / "train/normal").glob("*.[jp][pn]g"))[0]
    shutil.copy(first, folder / "test/normal/twice.jpg")
    go(page, page_url, "Study")
    page.get_by_role("button", name="Import a study").click()
    page.get_by_label("Name").fill("Brought in")
    page.get_by_label("Folder or CSV on this machine").fill(str(folder))
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("heading", name="Brought in").wait_for()
    report = page.locator(".report")
    assert "notes.png" in report.inner_text()
    assert "twice.jpg is the same file as" in report.inner_text()
    total = page.locator(".counts tr.total td").all_inner_texts()
    assert total[:3] == ["all", "10", "3"]
    page.wait_for_function("document.querySelectorAll('.tile svg[data-outlined] .lesion').length >= 3")
    assert page.evaluate("window.Studio.study") == "brought-in"


@pytest.mark.long
def test_an_import_is_stopped_and_nothing_of_it_stays(page, page_url, go, tmp_path, served):
    folder = tmp_path / "many" / "train" / "normal"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(600):
        cv2.imwrite(str(folder / f"{i:04}.png"), rng.integers(0, 255, (256, 256, 3), np.uint8))
    go(page, page_url, "Study")
    page.get_by_role("button", name="Import a study").click()
    page.get_by_label("Name").fill("Stopped")
    page.get_by_label("Folder or CSV on this machine").fill(str(folder.parents[1]))
    page.get_by_role("button", name="Import", exact=True).click()
    page.locator("dialog.ask").get_by_role("button", name="Import").click()  # what was understood is confirmed
    page.locator(".import").get_by_role("button", name="Stop").click()
    page.locator(".toast.bad").filter(has_text=re.compile("The import was (stopped|cancelled); nothing was")).wait_for()
    assert page.get_by_role("button", name="Import", exact=True).is_enabled()
    assert page.get_by_label("Name").input_value() == "Stopped", "what was typed stays, to try again"
    store = opening.open(str(served.home))
    assert store.query("SELECT id FROM studies WHERE name = 'Stopped'") == []
    store.close()


@pytest.mark.long
def test_a_zip_keeps_its_layout(page, page_url, go, tmp_path):
    folder = small_folder(tmp_path / "inside", 5, 2, 2)
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, f"colon/{path.relative_to(folder)}")
    go(page, page_url, "Study")
    page.locator(".import input.files").set_input_files(str(tmp_path / "zipped.zip"))
    page.get_by_role("button", name="Continue").click()  # a zip is a new study unless the reader says otherwise
    page.get_by_role("heading", name="zipped").wait_for()
    assert page.locator(".counts tr.total td").all_inner_texts()[1:4] == ["7", "2", "2"]


@pytest.mark.long
def test_a_mistake_is_a_sentence(page, page_url, go):
    go(page, page_url, "Study")
    page.get_by_role("button", name="Import a study").click()
    page.get_by_label("Name").fill("Nowhere")
    page.get_by_label("Folder or CSV on this machine").fill("/no/such/folder")
    page.get_by_role("button", name="Import", exact=True).click()
    page.locator(".toast.bad").wait_for()
    assert "the folder /no/such/folder does not exist" in page.locator(".toast.bad").inner_text()
    folder = page.get_by_label("Folder or CSV on this machine")
    folder.fill("")
    page.get_by_role("button", name="Import", exact=True).click()
    page.locator(".toast.bad").filter(has_text="Enter the path of a folder").wait_for()
    assert folder.evaluate("box => box === document.activeElement")


@pytest.mark.long
def test_after_an_import_the_next_steps_and_the_kind_of_image(page, page_url, go, tmp_path):
    folder = small_folder(tmp_path / "next", 6, 2, 2)
    for path in folder.rglob("*.*"):
        if "mask" not in path.parts:  # a lit orange disc on black
            image = np.zeros((120, 160, 3), np.uint8)
            cv2.ellipse(image, (80, 60), (76, 57), 0, 0, 360, (30, 110, 210 - len(path.stem) % 9), -1)
            cv2.imwrite(str(path), image)
    go(page, page_url, "Study")
    page.get_by_role("button", name="Import a study").click()
    page.get_by_label("Folder or CSV on this machine").fill(str(folder))
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("heading", name="next", exact=True).first.wait_for()
    card = page.locator(".study-main .next")
    page.wait_for_function("document.querySelector('.study-main .next:not([hidden]) .kind')?.value === 'fundus'")
    assert "guessed" in card.locator(".kind-said").inner_text()
    assert re.search(r"about \d+ (s|min)", card.locator(".go-look").inner_text())
    card.get_by_role("button", name="Confirm").click()
    card.locator(".kind-said").filter(has_text="microaneurysm").wait_for()
    page.reload()
    card.locator(".kind-said").filter(has_text="confirmed").wait_for()
    page.locator("#tab-medmix-button").click()
    shown = page.locator(".widget-medmix[data-painted] .presets summary")
    assert shown.inner_text() == "fundus"
    page.locator("#tab-training-button").click()
    like = page.locator(".widget-training[data-ready]").get_by_label("Synthetic lesions for")
    assert like.locator("option:checked").text_content() == "fundus"
    page.locator("#tab-study-button").click()
    card.get_by_role("button", name="Review").click()
    page.locator(".widget-review .rv-row").first.wait_for()


@pytest.mark.long
def test_a_study_that_is_removed_is_brought_back(page, page_url, go, tmp_path):
    folder = small_folder(tmp_path / "gone", 5, 2, 2)
    go(page, page_url, "Study")
    page.get_by_role("button", name="Import a study").click()
    page.get_by_label("Name").fill("Gone for now")
    page.get_by_label("Folder or CSV on this machine").fill(str(folder))
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("heading", name="Gone for now").first.wait_for()
    manage(page, "Remove study")
    page.locator("dialog").get_by_role("button", name="Remove “Gone for now”").click()
    line = page.get_by_label("Bin").locator("li").filter(has_text="Study “Gone for now”")  # others remove things, too
    line.get_by_role("button", name="Restore").click()
    page.get_by_role("heading", name="Gone for now").first.wait_for()
    line.wait_for(state="hidden")


@pytest.mark.long
def test_a_visit_that_begins_elsewhere_asks_nothing_of_this_tab_until_it_is_in_sight(page, page_url):
    asked = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto(f"{page_url}?study={STUDY}&tab=review")
    page.wait_for_function("document.querySelector('.widget-review')?.review")
    page.wait_for_load_state("load")
    page.wait_for_timeout(500)  # what came too early would have come by now
    own = [path for path in asked if path.startswith(("/api/study/", "/api/manage/")) and not path.endswith("/kind")]
    assert own == []
    page.get_by_role("tab", name="Study", exact=True).click()
    page.locator(".tile svg[data-outlined]").first.wait_for()
    page.wait_for_function("document.querySelector('.m-labels form')")
    assert any(path.endswith("/sample") for path in asked)


def test_an_open_study_has_its_next_steps_and_the_import_is_folded_away(page, page_url, go):
    go(page, page_url, "Study", STUDY)
    turn = page.get_by_role("button", name="Import a study")
    turn.wait_for()
    folder = page.get_by_label("Folder or CSV on this machine")
    assert not folder.is_visible() and turn.get_attribute("aria-expanded") == "false"
    steps = page.get_by_label("Next steps").get_by_role("listitem")
    steps.first.wait_for()
    titles = [text.splitlines()[0].removeprefix("✓ ") for text in steps.all_inner_texts()]
    assert titles == ["Look", "Review", "Mark five lesions", "Train"]
    assert "of 5 marked" in steps.nth(2).inner_text()
    turn.click()
    assert folder.is_visible()
    turn.click()
    assert not folder.is_visible()
    manage(page, "Finding labels")
    assert page.locator(".m-labels").is_visible() and not page.locator(".study-main .menu nav").is_visible()


@pytest.mark.long
def test_the_first_screen_has_a_picture_and_two_ways(browser, unused):
    page = browser.new_page()
    page.goto(unused.url)
    page.get_by_role("button", name="Show me the demo").wait_for()
    picture = page.locator(".study-main .empty img")
    page.wait_for_function("document.querySelector('.study-main .empty img').complete")
    assert picture.evaluate("image => image.naturalWidth") > 600
    page.get_by_role("button", name="Start with my images").click()
    page.wait_for_function("document.activeElement === document.querySelector('.import .folder')")
    page.close()
