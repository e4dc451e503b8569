"""The audit trail on the Study tab: what an administrator did a moment ago stands at its top."""

import pytest

from core.studio.db import opening
from core.studio.review import decisions
from tests.app.conftest import STUDY, manage
from tests.studio.review.conftest import asks, decide


@pytest.mark.long
def test_the_trail_opens_filters_and_goes_on(page, served, go):
    store = opening.open(str(served.home))
    case = store.one("SELECT id, name FROM cases WHERE study = ? AND split = 'test'", [STUDY])
    for n in range(60):
        decide(store, case["id"], "Ada", "normal", comment=f"look {n}")
    decisions.undo(asks(store, "Ada", study=STUDY))
    store.close()
    go(page, served.url, "Study", STUDY)
    manage(page, "Audit trail")
    rows = page.locator(".m-audit tbody tr")
    rows.first.wait_for()
    assert rows.count() == 50 and "undo" in rows.first.inner_text() and case["name"] in rows.first.inner_text()
    page.get_by_role("button", name="Older", exact=True).click()
    rows.nth(60).wait_for()
    page.get_by_label("What was done").select_option("undo")
    page.wait_for_function("document.querySelectorAll('.m-audit tbody tr').length === 1")
    page.get_by_label("What was done").select_option("decision")
    rows.nth(49).wait_for()
    assert "comment look 59" in rows.first.inner_text()
