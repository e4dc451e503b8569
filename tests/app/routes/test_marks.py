"""All marked, and places that are normal: kept by the case, closed to a blind reader until they have decided."""

from __future__ import annotations

import numpy as np
import pytest

from tests.app.routes.clients import visitor
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.studio.review.conftest import STUDY


@pytest.mark.slow
def test_a_case_is_finished_and_its_normal_places_come_back(reading):  # noqa: F811
    store, run, server = reading
    case = store.first("SELECT * FROM cases WHERE study = ? AND label = 'abnormal'", [STUDY])["id"]
    root, ann = visitor(server, "root"), visitor(server, "ann")

    def said() -> dict:
        return root.get(f"/api/review/case/{case}", params={"run": run}).json()["case"]["marks"]

    assert said() == {"finished": False, "normal": False}
    assert root.get(f"/api/review/normal/{case}").status_code == 400
    answer = root.post(f"/api/review/finished/{case}", json={"finished": True}).json()
    assert answer["marks"] == said() == {"finished": True, "normal": False}
    places = np.zeros((60, 72), np.uint8)
    places[5:20, 30:41] = 1
    bits = np.packbits(places).tobytes()
    kept = root.post(f"/api/review/normal/{case}", content=bits).json()
    assert kept["marks"] == said() == {"finished": True, "normal": True}
    given = root.get(f"/api/review/normal/{case}")
    assert given.content == bits and given.headers["x-image-shape"] == "60,72"
    assert not store.query("SELECT 1 FROM lesion_masks WHERE reader = 'root'"), "places called normal are no lesion"
    refused = root.post(f"/api/review/normal/{case}", content=b"short")
    assert refused.status_code == 400 and "bytes where its image needs" in refused.json()["error"]
    for path in ("finished", "normal"):
        hidden = ann.post(f"/api/review/{path}/{case}", json={"finished": True})
        assert hidden.status_code >= 400, "a blind reader decides first"
    emptied = root.post(f"/api/review/normal/{case}", content=bytes(len(bits))).json()
    assert emptied["marks"] == {"finished": True, "normal": False}
    assert root.post(f"/api/review/finished/{case}", json={"finished": False}).json()["marks"] == said()
    assert store.first("SELECT count(*) AS n FROM events WHERE kind = 'marks'")["n"] == 4
