"""Routes that read never write: after each GET, with everything valid, the database is what it was before."""

import re

import pytest

from app import routes
from tests.app.routes.clients import client_of
from tests.studio.review.conftest import STUDY, room  # noqa: F401

QUERY = {
    "heat": "run=RUN", "nearest": "run=RUN", "open": f"study={STUDY}", "list": f"study={STUDY}&run=RUN",
    "step": f"study={STUDY}&run=RUN", "counts": f"study={STUDY}", "runs": f"study={STUDY}", "maps": f"study={STUDY}",
    "pack": "run=RUN", "{case_id}": "run=RUN", "compare": "run=RUN",
}  # fmt: skip


@pytest.mark.slow
def test_reading_routes_never_write(room):  # noqa: F811
    store, run = room
    client = client_of(store)
    found = routes.every_route()
    case = store.one("SELECT id FROM cases WHERE split = 'test' AND label = 'abnormal'")["id"]
    filled = {"study": STUDY, "case_id": str(case), "run_id": run, "point": "0", "new": "0"}
    wrong, well = [], 0
    for hidden in (False, True):
        store.set_setting(f"blind:{STUDY}", hidden)
        client.get(f"/api/review/counts?study={STUDY}")  # draws the neutral order of a reader who is new to the study
        for route in found:
            if "GET" not in route.methods:
                continue
            path = re.sub(r"\{(\w+)\}", lambda m: filled.get(m[1], "none"), route.path)
            before = store.first("PRAGMA data_version")
            answer = client.get(f"{path}?{QUERY.get(route.path.rsplit('/')[-1], '').replace('RUN', run)}")
            well += answer.status_code == 200
            assert answer.status_code < 500, (path, answer.text)
            if store.first("PRAGMA data_version") != before:
                wrong.append(route.path)
    assert not wrong and well > 40, (wrong, well)
