"""Two readers of a blind study, each in a browser of their own."""

import pytest
from sklearn.metrics import cohen_kappa_score

from core.studio.db import audit, opening
from core.studio.review import people, sessions
from core.studio.review.agreement import agreement
from tests.app.conftest import Served
from tests.app.review.conftest import STUDY, enter, make_home, packed, settle
from tests.studio.review.conftest import HIDDEN, asks


def sign_in(browser, url, name):
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    page = context.new_page()
    page.goto(f"{url}sign-in")
    page.locator("input[name=name]").fill(name)
    page.locator("input[name=password]").fill("a long password")
    page.locator("button[type=submit], button").first.click()
    page.wait_for_url(lambda address: not address.endswith("/sign-in"))
    return context, page


@pytest.mark.long
def test_two_blind_readers_see_no_score_before_they_commit(browser, tmp_path):
    home = make_home(tmp_path, 6)
    store = opening.open(str(home))
    for name in ("ann", "ben"):
        people.add_reader(store, name, "a long password")
    sessions.set_blind(store, STUDY, True, "root")
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
            for case in listed:
                for path in (
                    "api/study/room/overview",
                    "api/study/room/sample",
                    "api/clusters/runs",
                    "api/training/runs",
                ):
                    assert page.request.get(server.url + path).status == 403
                hidden = (f"heat?run={runs[0]}", f"heat?run={runs[1]}", "mask.bits")
                for path in (*hidden, f"nearest?run={runs[0]}"):
                    assert page.request.get(f"{server.url}api/case/{case['id']}/{path}").status == 403
                body = page.request.get(f"{server.url}api/case/{case['id']}/pack?run={runs[0]}").body()
                assert [p["name"] for p in packed(body)] == ["image"]
                shown = page.request.get(f"{server.url}api/review/case/{case['id']}?study={STUDY}&run={runs[0]}").json()
                assert set(shown["case"]) == HIDDEN
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
                if i == 0:
                    page.keyboard.press("Control+z")
                    page.locator(".toast").filter(has_text="A blind first decision cannot be undone").wait_for()
                    assert page.locator(".rv-ai").is_visible()
                page.keyboard.press(words[name][i])  # the second decision
                settle(page)
        assert store.one("SELECT count(*) AS n FROM reviews")["n"] == 24
        long = {"n": "normal", "a": "abnormal", "u": "unsure"}
        said = []
        for (_, page), name in zip(pages, words, strict=True):  # each in an order of the reader's own
            numbers = [r["id"] for r in page.request.get(f"{server.url}api/review/list?study={STUDY}").json()["rows"]]
            own = [asks(store, name, number=n).asked_case["id"] for n in numbers]
            said.append([long[word] for _, word in sorted(zip(own, words[name], strict=True))])
        assert agreement(store, STUDY)["pairs"][0]["kappa"] == pytest.approx(cohen_kappa_score(*said), abs=1e-12)
        assert audit.verify(store)["ok"]
        for context, _ in pages:
            context.close()
    finally:
        server.stop()
