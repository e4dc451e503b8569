"""What is kept of a case, beside its image: all of it under the case's own name, its size alone under a neutral one."""

from __future__ import annotations

import pytest

from tests.app.review.conftest import SESSIONS, WIDGET, enter

ROWS = "all => all.map((one) => [one.children[0].innerText, one.children[1].innerText])"


def rows_of(page) -> dict[str, str]:
    """The rows of the opened panel, by their titles."""
    page.evaluate(f"{WIDGET}.review.display.set({{ about: true }})")
    return dict(page.locator(".rv-about-rows > div").evaluate_all(ROWS))


@pytest.mark.long
def test_the_panel_has_the_case_and_in_a_session_under_neutral_names_its_size_alone(page, page_url):
    enter(page, page_url, SESSIONS)
    rows = rows_of(page)
    case = page.evaluate(f"(({{ width, height, name }}) => [width, height, name])({WIDGET}.review.detail)")
    assert (rows["Size"], rows["File"]) == (f"{case[0]} × {case[1]} pixels", case[2])
    assert rows["Format"] in ("PNG", "JPEG") and rows["Study"].startswith(f"{SESSIONS}, ") and "Imported" in rows
    body = {"study": SESSIONS, "choice": "all", "count": 4, "blind": False, "shuffled": True, "neutral": True}
    assert page.request.post(f"{page_url}api/reading/start", data=body).ok
    try:
        enter(page, page_url, SESSIONS)
        rows = rows_of(page)
        assert rows["File"].startswith("Case ") and set(rows) <= {"File", "Size", "Depth", "Modality", "Spacing"}
        assert page.get_by_text("More is shown in sessions without neutral names.").is_visible()
    finally:
        page.request.post(f"{page_url}api/reading/end", data={})
