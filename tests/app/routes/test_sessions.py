"""Reading sessions by their routes."""

from __future__ import annotations

from core.studio.review import reading_sessions
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
    held = reading_sessions.open_session(store, "root")
    assert (
        held is not None
        and held["id"] == begun["session"]
        and store.first("SELECT count(*) AS n FROM events")["n"] == before
    )
    again = root.post("/api/reading/start", json={"study": STUDY, "choice": "all", "count": 2}).json()
    assert again["cases"] == 2 and reading_sessions.open_session(store, "root")["id"] == again["session"]
