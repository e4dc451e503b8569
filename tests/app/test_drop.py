"""Files dropped on the page: new cases of the open study, or a new study, as the reader says; what a removal takes."""

from __future__ import annotations

import base64
import itertools

import cv2
import numpy as np
import pytest

from tests.app.conftest import manage, small_folder

NUMBERS = itertools.count()
DROP = """([name, text, where]) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const data = new DataTransfer();
    data.items.add(new File([bytes], name, { type: 'image/png' }));
    const target = document.querySelector(where);
    for (const kind of ['dragover', 'drop'])
        target.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def image(seed: int) -> str:
    pixels = np.random.default_rng(seed).integers(0, 255, (40, 50, 3), np.uint8)
    return base64.b64encode(cv2.imencode(".png", pixels)[1].tobytes()).decode()


@pytest.fixture
def study(page, page_url, go, tmp_path):
    """A study of its own, open on the Study tab."""
    name = f"dropping-{next(NUMBERS)}"
    folder = small_folder(tmp_path / "images", 4, 1, 1)
    task = page.request.post(f"{page_url}api/study/import", data={"name": name, "folder": str(folder)}).json()["task"]
    go(page, page_url, "Study")
    page.wait_for_function(
        "async (task) => (await (await fetch(`/api/study/import/${task}`)).json()).state === 'done'", arg=task
    )
    go(page, page_url, "Study", name)
    page.wait_for_function("document.querySelectorAll('.counts tr.total td').length")
    return name


def studies(page, page_url) -> set[str]:
    return set(page.request.get(f"{page_url}api/status").json()["studies"])


@pytest.mark.long
def test_an_image_dropped_on_any_tab_becomes_a_case_of_the_open_study(page, page_url, study):
    before = studies(page, page_url)
    page.get_by_role("tab", name="MedMix", exact=True).click()
    page.evaluate(DROP, ["new frame.png", image(1), "body"])
    dialog = page.locator("dialog.ask")
    dialog.wait_for()
    assert f"New cases of “{study}”" in dialog.inner_text() and "A new study" in dialog.inner_text()
    assert dialog.get_by_label("New cases of").is_checked(), "a loose image is a new case unless the reader says no"
    dialog.get_by_role("button", name="Continue").click()
    page.wait_for_function("document.querySelector('.widget-review')?.review?.detail?.name === 'new frame.png'")
    assert studies(page, page_url) == before
    overview = page.request.get(f"{page_url}api/study/{study}/overview").json()
    assert overview["table"]["test"]["unknown"] == 1, "a test case without a label, and no normal image to learn from"


@pytest.mark.long
def test_what_is_dropped_can_be_a_new_study_or_nothing(page, page_url, study):
    before = studies(page, page_url)
    page.evaluate(DROP, ["another.png", image(2), ".import .drop"])
    page.locator("dialog.ask").get_by_role("button", name="Cancel").click()
    page.evaluate(DROP, ["another.png", image(2), ".import .drop"])
    page.locator("dialog.ask").get_by_label("A new study").check()
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("heading", name="another").wait_for()
    assert len(studies(page, page_url) - before) == 1


def test_add_cases_takes_dropped_files(page, page_url, study):
    page.get_by_role("button", name="Add cases").click()
    page.locator(".m-add .drop").wait_for()
    page.evaluate(DROP, ["one more.png", image(3), ".m-add .drop"])
    page.wait_for_function("document.querySelector('.widget-review')?.review?.detail?.name === 'one more.png'")
    assert not page.locator("dialog.ask").count(), "there it is clear what they are"


@pytest.mark.long
def test_removing_a_study_is_red_and_says_what_goes(page, page_url, study):
    manage(page, "Remove study")
    dialog = page.locator("dialog.ask")
    dialog.wait_for()
    text = dialog.inner_text()
    assert (
        f"Remove “{study}”?" in text
        and "bin for a week" in text
        and "6 cases" in text
        and "0 runs" in text
        and "decisions" in text
    )
    button = dialog.get_by_role("button", name=f"Remove “{study}”")
    red, green, blue = button.evaluate("(b) => getComputedStyle(b).backgroundColor.match(/\\d+/g).map(Number)")[:3]
    assert red > 2 * max(green, blue)
    dialog.get_by_role("button", name="Keep it").click()
    assert study in studies(page, page_url)
    manage(page, "Remove study")
    button.click()
    page.wait_for_function("(name) => window.Studio.study !== name", arg=study)
    assert study not in studies(page, page_url)


@pytest.mark.long
def test_a_folder_that_is_unclear_is_asked_about_with_its_images(page, page_url, go, tmp_path):
    for i, (name, count) in enumerate({"benign": 6, "malignant": 3}.items()):
        for k in range(count):
            (tmp_path / f"{name} ({k + 1}).png").write_bytes(base64.b64decode(image(500 + 10 * i + k)))
    name, before = f"asked-{next(NUMBERS)}", studies(page, page_url)
    go(page, page_url, "Study")
    page.get_by_role("button", name="Import a study").click()

    def start():
        page.locator(".import .name").fill(name)
        page.locator(".import .folder").fill(str(tmp_path))
        page.locator(".import .go-path").click()
        dialog = page.locator("dialog.ask")
        dialog.wait_for()
        page.wait_for_function("[...document.querySelectorAll('dialog.ask img')].every((i) => i.naturalWidth)")
        return dialog

    start().get_by_role("button", name="Cancel").click()
    page.get_by_text("Nothing was imported").wait_for()
    assert studies(page, page_url) == before
    dialog = start()
    asked = dialog.locator("[role=radiogroup]")
    assert asked.count() and dialog.locator("img").count() >= 2
    dialog.get_by_role("button", name="Import").click()
    assert dialog.count(), "nothing is taken for normal unanswered"
    for group in asked.all():
        answer = "Skip" if "malignant" in group.get_attribute("aria-label") else "Normal"
        group.get_by_label(answer, exact=True).check()
    dialog.get_by_role("button", name="Import").click()
    page.get_by_role("heading", name=name).wait_for()
    overview = page.request.get(f"{page_url}api/study/{name}/overview").json()
    assert "abnormal" not in overview["table"]["train"] or not overview["table"]["train"]["abnormal"]
