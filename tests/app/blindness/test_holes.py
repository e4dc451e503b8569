"""Ways round blind reading that were found open, each as it was gone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from core.studio.review import sessions
from tests.app.routes.clients import visitor, whole_server
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.app.routes.test_scope import _case
from tests.studio.review.conftest import STUDY, decide, save_mask

CLOSED = "Your blind session is open"


@pytest.mark.slow
@pytest.mark.parametrize("single_user", [False, True])
def test_a_blind_session_of_ones_own_closes_what_shows_labels(reading, single_user):  # noqa: F811
    store, run, server = reading
    sessions.set_blind(store, STUDY, False, "root")
    served = whole_server(store, single_user=True) if single_user else server
    client = visitor(served, None if single_user else "root")
    case = store.first("SELECT id FROM cases WHERE label = 'abnormal'")["id"]
    rooms = [f"results/{STUDY}", f"results/{STUDY}/sizes?run={run}", f"study/{STUDY}/sample", f"study/{STUDY}/overview",
             f"study/case/{case}/outlines", f"clusters/maps?study={STUDY}", f"report/{STUDY}", "audit"]  # fmt: skip
    before = [client.get(f"/api/{room}").status_code for room in rooms]
    assert client.post("/api/reading/start", json={"study": STUDY}).status_code == 200
    for room in rooms:
        answer = client.get(f"/api/{room}")
        assert answer.status_code == 403 and CLOSED in answer.json()["error"], room
    assert client.get("/api/trials/1/report/html").status_code == 403
    out = f"/api/export/{STUDY}"
    for answer in (client.post(f"{out}/csv"), client.get(f"{out}/warning"), client.put(f"{out}/annotations?tool=coco")):
        assert answer.status_code == 403 and "blind session" in answer.json()["error"]
    assert client.post("/api/reading/end").status_code == 200
    assert [client.get(f"/api/{room}").status_code for room in rooms] == before and 403 not in before


@pytest.mark.slow
def test_numbers_and_versions_of_ones_own_masks_do_not_count_others(reading):  # noqa: F811
    store, run, server = reading
    case = store.first("SELECT * FROM cases WHERE label = 'normal' AND split = 'test'")
    drawn = np.ones((case["height"], case["width"]), np.uint8)
    numbers = [save_mask(store, case["id"], drawn, "ben")["mask"] for _ in range(3)]
    assert numbers[0] > 10**15, "by the clock, not by how many there are"
    ann = visitor(server, "ann")
    known = next(r["id"] for r in ann.get(f"/api/review/list?study={STUDY}").json()["rows"]
                 if _case(store, r["id"]) == case["id"])  # fmt: skip
    decided = ann.post("/api/review/decide", json={"case": known, "decision": "normal", "run": run})
    assert decided.json()["review"] == 0
    saved = ann.post(f"/api/review/mask/{known}?label=polyp", content=bytes(drawn.size // 8)).json()
    assert saved["version"] == 1 and [m["version"] for m in saved["masks"]] == [1]
    assert saved["findings"][0]["mask_version"] == 1
    again = ann.post(f"/api/review/restore/{saved['mask']}").json()
    assert again["version"] == 2 and again["masks"][0]["note"].startswith("version 1 restored")
    root = visitor(server, "root").get(f"/api/review/case/{case['id']}").json()["case"]
    assert [m["version"] for m in root["masks"]] == [5, 4, 3, 2, 1]


@pytest.mark.slow
def test_medmix_names_no_file_and_measures_no_lesion_of_a_study_read_blind(reading):  # noqa: F811
    store, run, server = reading
    scene = {"scene": {"study": STUDY, "size": 64, "samples": 2}}
    names = {row["name"] for row in store.query("SELECT name FROM cases WHERE study = ?", [STUDY])}

    def named(who: str) -> list[str]:
        answer = visitor(server, who).post("/api/medmix/grid", json=scene).content
        return json.loads(answer[4 : 4 + int.from_bytes(answer[:4], "little")])["names"]

    assert named("ann") == ["image 1", "image 2"] and set(named("root")) <= names
    probed = visitor(server, "ann").post("/api/medmix/probe", json={"scene": {"study": STUDY}}).json()
    assert probed["near"] is None
    # lesions that readers marked are pasted for whoever may see them
    case = store.first("SELECT * FROM cases WHERE label = 'abnormal' AND split = 'test' AND study = ?", [STUDY])
    mask = np.zeros((case["height"], case["width"]), np.uint8)
    mask[8:24, 8:24] = 1
    save_mask(store, case["id"], mask, "ben")
    decide(store, case["id"], "ben", "abnormal")
    scene["scene"]["config"] = {"donor": "marked"}
    for route in ("grid", "probe", "figure.png"):
        refused = visitor(server, "ann").post(f"/api/medmix/{route}", json=scene)
        assert refused.status_code == 400 and "you read this study blind" in refused.text
    assert visitor(server, "root").post("/api/medmix/grid", json=scene).status_code == 200


@pytest.mark.slow
def test_no_error_says_where_the_home_lies(reading):  # noqa: F811
    store, run, server = reading
    sessions.set_blind(store, STUDY, False, "root")
    store.execute("UPDATE runs SET method = 'nearest' WHERE id = ?", [run])
    case = store.first("SELECT id FROM cases WHERE split = 'test' AND study = ?", [STUDY])["id"]
    answer = visitor(server, "ann").get(f"/api/case/{case}/explain?run={run}")
    assert answer.status_code == 400 and str(store.home.path) not in answer.text and "nearest.json" in answer.text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "coco", "png"])
def test_an_export_has_no_mark_of_the_file_it_was_made_in(reading, kind):  # noqa: F811
    answer = visitor(reading[2], "root").post(f"/api/export/{STUDY}/{kind}")
    assert answer.status_code == 200 and not {"etag", "last-modified"} & set(answer.headers)


@pytest.mark.long
def test_an_imported_masks_number_and_time_do_not_say_how_many_came_before(reading):  # noqa: F811
    store, run, server = reading
    ann, stored = visitor(server, "ann"), store.query("SELECT id, case_id, created FROM lesion_masks ORDER BY id")
    seen = {}
    for row in ann.get(f"/api/review/list?study={STUDY}").json()["rows"]:
        ann.post("/api/review/decide", json={"case": row["id"], "decision": "normal"})
        for mask in ann.get(f"/api/review/case/{row['id']}").json()["case"]["masks"]:
            seen[mask["id"]] = row["id"]
            assert mask["created"] == "" and mask["version"] == 1
    assert len(seen) == len(stored) > 3 and not {row["id"] for row in stored} & set(seen)
    mask, case = next(iter(seen.items()))
    bits = ann.get(f"/api/case/{case}/mask.bits?id={mask}")
    assert bits.status_code == 200 and str(mask) in bits.headers["etag"]
    assert ann.get(f"/api/case/{case}/mask.bits?id={[m for m in seen if m != mask][0]}").status_code == 400
    assert ann.get(f"/api/case/{case}/mask.bits?id={stored[0]['id']}").status_code == 400
    assert ann.post(f"/api/review/restore/{mask}").json()["version"] == 2
    refused = [ann.post(f"/api/review/restore/{number}") for number in (stored[0]["id"], mask + 1, 10**9)]
    assert len({(r.status_code, r.text) for r in refused}) == 1 and refused[0].status_code == 403
    assert visitor(server, "root").post(f"/api/review/restore/{stored[0]['id']}").status_code == 200
