"""Reading sessions by their routes."""

import pytest

from core.studio.review import sessions
from tests.app.routes.clients import visitor
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.studio.review.conftest import STUDY


def test_a_session_without_a_case_is_refused_and_the_open_one_goes_on(reading):  # noqa: F811
    store, _, server = reading
    root = visitor(server, "root")
    none = {"study": STUDY, "choice": "assigned"}
    refused = root.post("/api/reading/start", json=none)
    assert refused.status_code == 400 and "no case of that kind" in refused.json()["error"]
    assert "open session" not in refused.json()["error"]
    begun = root.post("/api/reading/start", json={"study": STUDY, "choice": "all", "count": 3}).json()
    before = store.first("SELECT count(*) AS n FROM events")["n"]
    refused = root.post("/api/reading/start", json=none)
    assert refused.status_code == 400 and "Your open session goes on." in refused.json()["error"]
    held = sessions.open_session(store, "root")
    assert (
        held is not None
        and held["id"] == begun["session"]
        and store.first("SELECT count(*) AS n FROM events")["n"] == before
    )
    again = root.post("/api/reading/start", json={"study": STUDY, "choice": "all", "count": 2}).json()
    assert again["cases"] == 2 and sessions.open_session(store, "root")["id"] == again["session"]


@pytest.mark.slow
def test_the_report_of_a_session_is_its_readers_and_administrators_and_tells_nothing_while_reading_is_blind(
    reading,  # noqa: F811
):
    store, run, server = reading
    ann, ben, root = (visitor(server, name) for name in ("ann", "ben", "root"))
    number = ann.post("/api/reading/start", json={"study": STUDY, "choice": "all", "count": 4}).json()["session"]
    path = f"/api/reading/{number}/report"
    listed = ann.get(f"/api/review/list?study={STUDY}").json()["rows"]
    for case, words in zip(listed, (["normal"], ["normal", "abnormal"], ["unsure"]), strict=False):
        for word in words:
            ann.post("/api/review/decide", json={"case": case["id"], "decision": word, "seconds": 2.0})
    refused = ann.get(path)
    assert refused.status_code == 400 and "when the session has ended" in refused.json()["error"]
    assert root.get(path).status_code == 400, "nor for administrators before its end"
    ann.post("/api/reading/end")

    own = ann.get(path).json()
    assert (own["study"], own["reader"], own["which"], own["run"]["id"]) == (STUDY, "ann", "All test cases", run)
    assert [r["name"] for r in own["rows"]] == [r["name"] for r in listed], "the names that were on screen"
    assert [(r["first"], r["decision"], r["seconds"]) for r in own["rows"]] == [
        ("normal", "normal", 2.0), ("normal", "abnormal", 4.0), ("unsure", "unsure", 2.0), (None, None, None)
    ]  # fmt: skip
    untold = [own["point"], own["detector"], *(r[k] for r in own["rows"] for k in ("percentile", "flagged"))]
    assert set(untold) == {None} and own["agreement"] == [], "the study goes on being read blind"

    for part in ("report", "summary"):
        assert ben.get(f"/api/reading/{number}/{part}").json()["error"] == f"You have no reading session {number}."
    theirs = root.get(path).json()
    assert theirs["reader"] == "ann" and theirs["point"] and theirs["rows"][0]["percentile"] is not None
    names = {c["name"] for c in store.query("SELECT name FROM cases")}
    assert not names & {r["name"] for r in theirs["rows"]}, "neutral names in print too"
    over = {name: client.get(f"/api/reading?study={STUDY}").json()["over"] for name, client in
            {"ann": ann, "ben": ben, "root": root}.items()}  # fmt: skip
    assert [[s["id"] for s in over[name]] for name in ("ann", "ben", "root")] == [[number], [], [number]]

    sessions.set_blind(store, STUDY, False, "root")
    assert ann.get(path).json()["point"]["sensitivity"]["n"] + ann.get(path).json()["point"]["specificity"]["n"] == 2
    ann.post("/api/reading/start", json={"study": STUDY, "blind": True})
    assert ann.get(path).json()["point"] is None, "a new blind session closes it again"
