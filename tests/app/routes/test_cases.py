"""The case's routes by themselves: everything of a case in one answer, and nothing but its image to a blind reader."""

import json

import cv2
import numpy as np
import pytest
from fastapi import FastAPI

from app.context import Context
from app.routes import cases as routes_case
from app.routes import include_all
from core.engine.roi import find_roi
from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.ingest.decode import read_image
from core.studio.review import masks, sessions
from tests.app.routes.clients import Client
from tests.studio.review.conftest import STUDY, add_readings, asks, decide, draw_folder


class ByHeader(Context):
    """Who asks is said in a header."""

    def user_of(self, request):
        return request.headers["x-reader"]


@pytest.fixture
def room(tmp_path):
    store = opening.open(str(tmp_path / "home"))
    studies.import_study(store, STUDY, draw_folder(tmp_path / "images"), copy=True)
    run = add_readings(store, STUDY, "padim")
    server = FastAPI()
    include_all(server, ByHeader(home=store.home, single_user=False, _store=store), [routes_case.router])
    server.add_exception_handler(
        ValueError, lambda request, error: routes_case.Response(json.dumps({"error": str(error)}), 400)
    )
    yield store, run, Client(server)
    store.close()


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
    as_ann = {"headers": {"x-reader": "ann"}}
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
    as_ann = {"headers": {"x-reader": "ann"}}
    ann, ben = (f"/api/case/{asks(store, who, study=STUDY).names.number(case['id'])}" for who in ("ann", "ben"))
    assert set(unpack(client.get(f"{ann}/pack?run={run}", **as_ann))) == {"image"}
    assert client.get(f"{ann}/nearest?run={run}", **as_ann).status_code == 400
    decide(store, case["id"], "ann", "abnormal")
    assert set(unpack(client.get(f"{ann}/pack?run={run}", **as_ann))) == {"image", "mask", "heat", "roi"}
    found = client.get(f"{ann}/nearest?run={run}", **as_ann).json()["cases"]
    known = asks(store, study=STUDY).names
    assert [(f["id"], f["name"], f["distance"]) for f in found] == [
        (known.number(train["id"]), known.name(train["id"]), 0.5)
    ]
    assert set(unpack(client.get(f"{ben}/pack?run={run}", headers={"x-reader": "ben"}))) == {"image"}
