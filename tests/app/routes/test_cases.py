"""A case's pictures: all layers in one answer, tiles of the grid with the heat map, and what a blind reader gets."""

import json
import re

import cv2
import numpy as np
import pytest

from core.engine.roi import find_roi
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.ingest.decode import read_image
from core.studio.review import masks, sessions
from tests.app.routes.clients import client_of
from tests.app.routes.test_blind import Watched, reading
from tests.studio.review.conftest import STUDY, add_readings, asks, decide, draw_folder


def unpack(answer) -> dict[str, tuple[dict, bytes]]:
    assert answer.status_code == 200, answer.text
    body = answer.content
    at = 4 + int.from_bytes(body[:4], "little")
    out = {}
    for part in json.loads(body[4:at]):
        out[part["name"]] = (part["headers"], body[at : at + part["bytes"]])
        at += part["bytes"]
    assert at == len(body)
    return out


def test_one_answer_holds_what_the_single_ones_hold(room):
    store, run, client = room
    case = store.one("SELECT * FROM cases WHERE label = 'abnormal' AND split = 'test'")
    as_ann = {"headers": {"x-user": "ann"}}
    at = f"/api/case/{case['id']}"
    parts = unpack(client.get(f"{at}/pack?run={run}", **as_ann))
    assert set(parts) == {"image", "mask", "heat", "roi"}
    image = cv2.imdecode(np.frombuffer(parts["image"][1], np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert np.array_equal(image, read_image(case["path"], 0))
    for name, path in (("heat", f"heat?run={run}"), ("mask", "mask.bits"), ("roi", "roi.bits?side=512")):
        single = client.get(f"{at}/{path}", **as_ann)
        assert single.content == parts[name][1]
        assert all(single.headers[k] == v for k, v in parts[name][0].items() if k.startswith("X-"))
    assert parts["mask"][0]["id"] == masks.latest(store, case["id"])["id"]
    inside = np.unpackbits(np.frombuffer(parts["roi"][1], np.uint8), count=72 * 60).reshape(60, 72)
    assert np.array_equal(inside, find_roi(image))
    small = client.get(f"{at}/roi.bits?side=36", **as_ann)
    assert small.headers["X-Image-Shape"] == "30,36"
    assert set(unpack(client.get(f"{at}/pack", **as_ann))) == {"image", "mask"}


def test_a_blind_reader_is_sent_the_image_alone_until_the_decision_is_on_disk(room):
    store, run, client = room
    case = store.one("SELECT * FROM cases WHERE label = 'abnormal' AND split = 'test'")
    train = store.one('SELECT id, name, "row" FROM cases WHERE split = ?', ["train"])
    store.execute("UPDATE readings SET extra = ?", [json.dumps({"nearest": [[train["row"], 0.5]]})])
    sessions.set_blind(store, STUDY, True, "root")
    as_ann = {"headers": {"x-user": "ann"}}
    ann, ben = (f"/api/case/{asks(store, who, study=STUDY).names.number(case['id'])}" for who in ("ann", "ben"))
    assert set(unpack(client.get(f"{ann}/pack?run={run}", **as_ann))) == {"image"}
    assert client.get(f"{ann}/nearest?run={run}", **as_ann).status_code == 403
    decide(store, case["id"], "ann", "abnormal")
    assert set(unpack(client.get(f"{ann}/pack?run={run}", **as_ann))) == {"image", "mask", "heat", "roi"}
    found = client.get(f"{ann}/nearest?run={run}", **as_ann).json()["cases"]
    known = asks(store, study=STUDY).names
    assert [(f["id"], f["name"], f["distance"]) for f in found] == [
        (known.number(train["id"]), known.name(train["id"]), 0.5)
    ]
    assert set(unpack(client.get(f"{ben}/pack?run={run}", headers={"x-user": "ben"}))) == {"image"}


__all__ = ["reading"]  # a fixture


@pytest.fixture
def room(tmp_path):
    """(store, run, client of the routes) of a study that anyone may see."""
    store = opening.open(str(tmp_path / "home"))
    studies.import_study(store, STUDY, draw_folder(tmp_path / "images"), copy=True)
    run = add_readings(store, STUDY, "padim")
    yield store, run, client_of(store)
    store.close()


def test_a_tile_is_small_and_has_the_heat_map_where_the_run_is_named(room):
    store, run, client = room
    case = store.first("SELECT * FROM cases WHERE label = 'abnormal' AND split = 'test'")
    at = f"/api/case/{case['id']}/tile.webp?size=64"
    pictures = []
    for address in (at, f"{at}&run={run}"):
        answer = client.get(address)
        assert answer.status_code == 200 and answer.headers["content-type"] == "image/webp"
        pictures.append(cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_COLOR).astype(int))
    plain, heated = pictures
    assert plain.shape == heated.shape == (53, 64, 3), "72 x 60 pixels, in their own proportions"
    assert np.abs(heated - plain).max() > 20
    assert client.get(f"{at}&run={run}").content == answer.content
    large = client.get(f"/api/case/{case['id']}/tile.webp?size=9999")
    assert cv2.imdecode(np.frombuffer(large.content, np.uint8), 1).shape == (60, 72, 3), "never made larger"


@pytest.mark.slow
def test_a_tile_is_kept_by_the_browser_until_the_map_is_another(room):
    store, run, client = room
    case = store.first("SELECT id FROM cases WHERE split = 'test'")["id"]
    at = f"/api/case/{case}/tile.webp?run={run}"
    first = client.get(f"{at}&v=1")
    assert "immutable" in first.headers["cache-control"] and "immutable" not in client.get(at).headers["cache-control"]
    known = {"If-None-Match": first.headers["etag"]}
    again = client.get(at, headers=known)
    assert again.status_code == 304 and not again.content
    store.execute("UPDATE readings SET created = 'later' WHERE case_id = ?", [case])
    assert client.get(at, headers=known).status_code == 200
    row = client.get(f"/api/review/list?study={STUDY}&run={run}&limit=50").json()["rows"]
    assert {r["id"]: r["map"] for r in row}[case] == "later", "the list says so, and the address changes with it"


@pytest.mark.slow
def test_places_lead_to_rows_and_round_to_the_next_unread(room):
    store, run, client = room
    at = f"/api/review/{{}}?study={STUDY}&run={run}"
    rows = client.get(at.format("list")).json()["rows"]
    found = client.get(f"{at.format('place')}&case={rows[7]['id']}").json()
    assert (found["case"], found["at"]) == (rows[7]["id"], 7)
    near = client.get(f"{at.format('place')}&score={rows[3]['score'] + 1e-9}").json()
    assert (near["case"], near["at"]) == (rows[3]["id"], 3)
    for row in rows[5:]:
        decide(store, row["id"], "ann", "normal")
    unread = client.get(f"{at.format('place')}&case={rows[4]['id']}&unread=1").json()
    assert (unread["case"], unread["at"]) == (rows[0]["id"], 0), "from the beginning again"
    for row in rows[:5]:
        decide(store, row["id"], "ann", "normal")
    assert client.get(f"{at.format('place')}&unread=1").json()["at"] is None
    overview = client.get(at.format("overview")).json()
    assert overview["total"] == len(rows) == sum(overview["scores"]["bins"]) and overview["labels"]
    labels = [r["id"] for r in client.get(f"{at.format('list')}&label=abnormal").json()["rows"]]
    assert set(labels) == {r["id"] for r in store.query("SELECT id FROM cases WHERE label = 'abnormal'")}


@pytest.mark.slow
def test_tags_are_put_on_a_selection_and_filter_the_list(room):
    store, run, client = room
    rows = client.get(f"/api/review/list?study={STUDY}&run={run}").json()["rows"]
    chosen = [r["id"] for r in rows[:4]]
    body = {"study": STUDY, "cases": chosen, "tag": " look  again "}
    assert client.post("/api/review/tag", json=body).json() == {"ok": True, "tag": "look again", "changed": 4}
    listed = client.get(f"/api/review/list?study={STUDY}&run={run}&tag=look again").json()["rows"]
    assert [r["id"] for r in listed] == chosen and all(r["tags"] == ["look again"] and not r["kinds"] for r in listed)
    assert client.get(f"/api/review/overview?study={STUDY}").json()["tags"] == [{"tag": "look again", "cases": 4}]
    assert client.post("/api/review/tag", json=body | {"remove": True, "cases": chosen[:1]}).json()["changed"] == 1
    for wrong in (body | {"tag": "a, b"}, body | {"tag": " "}, body | {"cases": []}, body | {"cases": [987654]}):
        assert client.post("/api/review/tag", json=wrong).status_code in (400, 422)


@pytest.mark.slow
def test_a_blind_reader_has_pictures_and_places_and_nothing_that_tells(reading):
    store, run, server = reading
    store.execute("UPDATE cases SET tags = '[\"scratch\"]' WHERE label = 'abnormal'")
    ann = Watched(server, "ann")
    rows = ann.rows()
    asked = f"study={STUDY}&run={run}&label=abnormal&tag=scratch"
    overview = ann.ask(f"review/overview?{asked}").json()
    assert overview == {"ok": True, "total": len(rows), "scores": None, "tags": [], "labels": False}
    assert ann.ask(f"review/place?{asked}&score=0.5").json() == {"ok": True, "case": None, "at": None}
    found = ann.ask(f"review/place?{asked}&case={rows[6]['id']}&unread=1").json()
    assert (found["case"], found["at"]) == (rows[7]["id"], 7)
    for row in rows:
        ann.ask(f"case/{row['id']}/tile.webp?v={row['v']}")
    ann.ask(f"case/{rows[0]['id']}/tile.webp?run={run}", status=403)
    ann.ask("review/tag", {"study": STUDY, "cases": [rows[0]["id"]], "tag": "odd"}, status=403)
    elsewhere = {"study": "before", "cases": [rows[0]["id"]], "tag": "odd"}
    ann.ask("review/tag", elsewhere, status=400)  # a study's name opens no other study's case
    ann.ask("review/decide", {"case": rows[0]["id"], "decision": "normal"})
    ann.ask(f"case/{rows[0]['id']}/tile.webp?run={run}")
    assert "about" not in ann.ask(f"review/case/{rows[0]['id']}?run={run}").json()["case"]
    assert ann.ask("review/tag", {"study": STUDY, "cases": [rows[0]["id"]], "tag": "odd"}).json()["changed"] == 1
    sent = "\n".join(ann.seen)
    assert not re.findall(r"(?<!\d)900000\d\d(?!\d)", sent), "no case's own number"
    for case in store.query("SELECT name, sha256 FROM cases WHERE study = ?", [STUDY]):
        assert case["name"] not in sent and case["sha256"][:8] not in sent
    tagged = json.loads(store.first("SELECT after FROM events WHERE kind = 'tag'")["after"])["cases"][0]
    assert not asks(store, case_id=tagged).hides(tagged), "what is stored has the case's own number"
