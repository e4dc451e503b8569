"""The Study tab: import by path and by choosing files, the report, the sample."""

from __future__ import annotations

import shutil
import zipfile

from tests.app.conftest import small_folder


def test_import_by_path_reports_what_was_left_out(page, page_url, go, tmp_path):
    folder = small_folder(tmp_path / "brought", 6, 3, 3)
    (folder / "train/normal/notes.png").write_text("no picture at all")
    first = sorted((folder / "train/normal").glob("*.[jp][pn]g"))[0]
    shutil.copy(first, folder / "test/normal/twice.jpg")
    go(page, page_url, "Study")
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


def test_a_zip_keeps_its_layout(page, page_url, go, tmp_path):
    folder = small_folder(tmp_path / "inside", 5, 2, 2)
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, f"colon/{path.relative_to(folder)}")
    go(page, page_url, "Study")
    page.locator("input.files").set_input_files(str(tmp_path / "zipped.zip"))
    page.get_by_role("heading", name="zipped").wait_for()
    assert page.locator(".counts tr.total td").all_inner_texts()[1:4] == ["7", "2", "2"]


def test_a_mistake_is_a_sentence(page, page_url, go):
    go(page, page_url, "Study")
    page.get_by_label("Name").fill("Nowhere")
    page.get_by_label("Folder or CSV on this machine").fill("/no/such/folder")
    page.get_by_role("button", name="Import", exact=True).click()
    page.locator(".toast.bad").wait_for()
    assert "there is no folder /no/such/folder" in page.locator(".toast.bad").inner_text()
