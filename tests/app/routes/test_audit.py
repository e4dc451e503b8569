"""The audit trail's route: by page and filter, for administrators alone."""

from __future__ import annotations

import pytest

from tests.app.routes.test_manage import STUDY, asked, room  # noqa: F401
from tests.studio.review.conftest import decide


@pytest.fixture
def trail(asked):  # noqa: F811
    """get(user, **query) on a study with three decisions of each of two readers."""
    store, _, client = asked
    ids = [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id LIMIT 3")]
    for case in ids:
        for reader in ("ann", "ben"):
            decide(store, case, reader, "normal", comment="fine")
    return lambda user, **query: client.get("/api/audit", params=query, headers={"x-user": user})


def test_only_administrators_read_it(trail):
    for who in ("ann", "jo", "nobody"):
        assert trail(who).status_code == 403 and "administrator" in trail(who).json()["error"]
    assert trail("root").status_code == 200


def test_pages_follow_each_other_and_filters_hold(trail):
    first = trail("root", study=STUDY, limit=4).json()
    second = trail("root", study=STUDY, limit=4, before=first["next"]).json()
    seen = [e["id"] for e in first["events"] + second["events"]]
    assert seen == sorted(seen, reverse=True) and len(set(seen)) == 6 and second["next"] is None
    assert first["kinds"] == ["decision"] and first["people"] == ["ann", "ben"] and first["studies"] == [STUDY]
    event = first["events"][0]
    assert event["after"]["decision"] == "normal" and event["case"].endswith(".png") and "hash" not in event
    mine = trail("root", who="ann", kind="decision").json()["events"]
    assert len(mine) == 3 and {e["who"] for e in mine} == {"ann"}
    assert trail("root", study="another").json()["events"] == []
    for wrong in ({"since": "yesterday"}, {"limit": 0}, {"before": -1}, {"limit": 10**6}):
        assert trail("root", **wrong).status_code == 422
