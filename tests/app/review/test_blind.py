"""Two readers of a blind study, each in a browser of their own."""

import pytest
from sklearn.metrics import cohen_kappa_score

from core.studio.db import audit, opening
from core.studio.review import people, sessions
from core.studio.review.agreement import agreement
from tests.app.conftest import Served
from tests.app.review.conftest import STUDY, enter, make_home, settle
from tests.app.test_accounts import PASSWORD
from tests.app.test_accounts import enter as sign_in
from tests.studio.review.conftest import asks


@pytest.mark.long
def test_two_blind_readers_see_no_score_before_they_commit(browser, tmp_path):
    home = make_home(tmp_path, 6)
    store = opening.open(str(home))
    for name in ("ann", "ben"):
        people.add_reader(store, name, PASSWORD)
    sessions.set_blind(store, STUDY, True, "root")
    cases = store.query("SELECT * FROM cases WHERE split = 'test'")
    server = Served(home, "--readers")
    try:
        pages = [sign_in(browser, server.url, name, PASSWORD) for name in ("ann", "ben")]
        for page in pages:
            enter(page, server.url)
            html = page.content()
            assert not page.locator(".rv-ai").is_visible() and page.locator(".rv-veil").is_visible()
            assert not any(c["name"] in html for c in cases)
            # Where the lesion is can be said before the score is shown; a mask cannot be drawn, and the page says so.
            page.keyboard.press("b")
            page.locator(".toast").filter(has_text="You can mark a location now").wait_for()
            page.keyboard.press("'")
            page.locator(".rv-pane canvas").first.click()
            page.keyboard.press("1")
            settle(page)
            assert "point" in page.locator(".rv-findings li").inner_text() and not page.locator(".rv-ai").is_visible()
            listed = page.request.get(f"{server.url}api/review/list?study={STUDY}").json()["rows"]
            assert not {r["id"] for r in listed} & {c["id"] for c in cases} and len(listed) == len(cases)
        words = {"ann": "nanann", "ben": "naaaun"}
        for i in range(6):
            for page, name in zip(pages, words, strict=True):
                page.keyboard.press(words[name][i])
                settle(page)
                assert page.locator(".rv-ai").is_visible(), "after the commit the reading is shown"
                if i == 0:
                    page.keyboard.press("Control+z")
                    page.locator(".toast").filter(has_text="A blind first decision stands").wait_for()
                    assert page.locator(".rv-ai").is_visible()
                page.keyboard.press(words[name][i])  # the second decision
                settle(page)
        assert store.one("SELECT count(*) AS n FROM reviews")["n"] == 24
        long = {"n": "normal", "a": "abnormal", "u": "unsure"}
        said = []
        for page, name in zip(pages, words, strict=True):  # each in an order of the reader's own
            numbers = [r["id"] for r in page.request.get(f"{server.url}api/review/list?study={STUDY}").json()["rows"]]
            own = [asks(store, name, number=n).asked_case["id"] for n in numbers]
            said.append([long[word] for _, word in sorted(zip(own, words[name], strict=True))])
        assert agreement(store, STUDY)["pairs"][0]["kappa"] == pytest.approx(cohen_kappa_score(*said), abs=1e-12)
        assert audit.verify(store)["ok"]
        for page in pages:
            page.context.close()
    finally:
        server.stop()
