"""Requests to each route whose answer is JSON, room by room, on a home where there is something to answer."""

from __future__ import annotations

import base64
import json
import re
from unittest.mock import patch
from urllib.parse import unquote

import cv2
import numpy as np

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.bundle import export_bundle
from core.studio.clusters.config import PointsConfig
from core.studio.db import journal
from core.studio.incoming import dicomweb
from core.studio.ingest import studies
from core.studio.jobs.steps import Work, load_step
from core.studio.review import boxes, people, sessions
from core.studio.runs import pipeline, preferred, results
from core.studio.runs import records as runs
from tests.app.routes.clients import client_of
from tests.conftest import picture, wait, write
from tests.studio.clusters.conftest import snapshots
from tests.studio.review.conftest import STUDY, decide, draw_folder, save_mask

POINTS = PointsConfig(train=8, holdout=4, mixed=4, test_normal=4, abnormal=4).to_dict()
NAME = "R%C3%B6ntgen%207"  # of the study; addresses have its id, and this would be answered as an empty study
SMALL = PRETRAIN_PRESETS["quick"].replace(size=32, batch=2, epochs=1).to_dict()


class Asked:
    """ask("GET /api/...", body) -> the answer, which was held against its model."""

    def __init__(self, store):
        self.store, self.client = store, client_of(store, single_user=True)
        store.execute("UPDATE studies SET name = ? WHERE id = ?", [unquote(NAME), STUDY])

    def __call__(self, line: str, body: dict | bytes | None = None, who: str = "ann"):
        given = {"content": body} if isinstance(body, bytes) else {"json": body}
        answer = self.client.request(*line.split(" "), headers={"x-user": who}, **given)
        assert answer.status_code == 200, f"{line}: {answer.text[:300]}"
        by_name = re.sub(rf"(/|study=){STUDY}(?=[/?&]|$)", rf"\g<1>{NAME}", line)
        if by_name != line:
            named = self.client.request(*by_name.split(" "), headers={"x-user": who}, **given)
            assert named.status_code == 400, f"{by_name}: {named.text[:300]}"
        return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.content


def encoder_with_fit(store) -> tuple[str, str]:
    """An encoder that was not trained, and a detector on it that compares patches; scored and evaluated."""
    encoder = pipeline.create_untrained(store, STUDY, 32)
    pipeline.pretrain_run(store, encoder)
    fit = pipeline.create_fit(store, encoder, "nearest", {"patches": 200, "pool": 400})
    pipeline.fit_run(store, fit, "cpu")
    pipeline.score_run(store, fit, "cpu")
    results.evaluate_run(store, fit)
    return encoder, fit


def ask_studies(ask: Asked, tmp_path) -> None:
    def bring(line: str, body: dict) -> None:
        address = f"/api/study/import/{ask(line, body)['task']}"
        assert wait(lambda: (now := ask(f"GET {address}"))["state"] != "running" and now)["state"] == "done"
        ask(f"POST {address}/stop")

    drop = ask("POST /api/study/drop")["drop"]
    ask(f"PUT /api/study/drop/{drop}?path=a.png", (tmp_path / "images/train/normal/t00.png").read_bytes())
    bring("POST /api/study/import", {"name": "more", "folder": str(draw_folder(tmp_path / "more", 3, 1, 1))})
    bring("POST /api/study/more/add", {"drop": drop})
    assert ask("POST /api/study/demo", {})["job"]
    failed = ask("POST /api/study/import", {"name": "none", "folder": str(tmp_path / "nowhere")})["task"]
    wait(lambda: ask(f"GET /api/study/import/{failed}")["state"] == "failed")
    draw_folder(tmp_path / "asked", 3, 1, 1)
    (tmp_path / "asked/train/normal").rename(tmp_path / "asked/train/site")
    asked = (
        f"/api/study/import/{ask('POST /api/study/import', {'name': 'a', 'folder': str(tmp_path / 'asked')})['task']}"
    )
    wait(lambda: ask(f"GET {asked}")["state"] == "asked")
    assert ask(f"GET {asked}/sample.png?group=0&number=0").startswith(b"\x89PNG")
    ask(f"POST {asked}/answer", {"answers": {"train (without a mask)": "normal"}})
    wait(lambda: ask(f"GET {asked}")["state"] == "done")
    for part in ("overview", "next", "sample"):
        ask(f"GET /api/study/more/{part}")
    ask("POST /api/study/more/kind", {"kind": "endoscopy"})
    ask("GET /api/study/more/kind")
    ask("POST /api/study/more/look")
    case = ask.store.first("SELECT id FROM cases WHERE study = ? AND label = 'abnormal'", [STUDY])["id"]
    assert ask(f"GET /api/study/case/{case}/outlines")["lesion"]
    dicomweb.name_server(ask.store, "pacs", "https://127.0.0.1/dicom-web", None, "root")
    assert ask("GET /api/export/more/warning")["servers"] == ["pacs"]
    assert ask("POST /api/export/more/send", {"server": "pacs", "kinds": ["seg", "sr"]})["job"]
    export_bundle(ask.store, "more", tmp_path / "more.zip", "ann")
    ask("DELETE /api/study/more")
    assert ask("GET /api/bin")["rows"]
    ask("POST /api/bin/study/more/restore")
    studies.delete_study(ask.store, "more")
    ask("POST /api/export/bundle", (tmp_path / "more.zip").read_bytes())
    drawn = {"images": [{"id": 1, "file_name": "t00.png"}], "annotations": [{"image_id": 1, "bbox": [5, 5, 9, 9]}]}
    assert ask("PUT /api/export/more/annotations?tool=coco", json.dumps(drawn).encode())["findings"] == 1


def ask_manage(ask: Asked, tmp_path) -> None:
    ask("GET /api/manage")
    ask(f"POST /api/manage/{STUDY}/watch", {"folder": str(tmp_path)})
    ask.store.execute("INSERT INTO incoming VALUES (?, 'x.txt', 1, 1, 0, 'failed', 1, 'no image', '')", [STUDY])
    assert ask(f"GET /api/manage/{STUDY}")["watch"]["left_out"]
    ask(f"POST /api/manage/{STUDY}/labels", {"labels": ["polyp"]})
    ask(f"POST /api/manage/{STUDY}/assign", {"readers": ["ann", "bob"]})
    ask(f"POST /api/manage/{STUDY}/unassign", {"reader": "bob"})
    ask("POST /api/accounts", {"name": "eve", "role": "reader"})
    assert [row["name"] for row in ask(f"GET /api/accounts/{STUDY}")["accounts"]] == ["eve"]
    ask.store.execute("UPDATE jobs SET status = 'cancelled' WHERE status IN ('queued', 'running')")
    write(draw_folder(tmp_path / "gone", 2, 1, 1) / "test/normal/n00.png", picture(99)[0])  # of no other study
    studies.import_study(ask.store, "gone", tmp_path / "gone", patients="^(n)")
    for address, more in (("/find", {}), ("", {"cases": 1})):
        assert ask(f"POST /api/erase{address}", {"patient": "n", **more})["trace"]["cases"] == 1
    for what in ("role", "password", "tokens", "removed"):
        ask(f"POST /api/accounts/set/{what}", {"name": "eve", "role": "adjudicator"})


def ask_review(ask: Asked, run: str, fit: str) -> None:
    store = ask.store
    cases = [r["id"] for r in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [STUDY])]
    store.execute("UPDATE cases SET series = 's', slice = id WHERE id IN (?, ?)", cases[:2])
    store.execute("UPDATE readings SET extra = '{\"nearest\": [[0, 0.5]]}' WHERE run = ?", [run])
    sessions.set_blind(store, STUDY, True, "root")
    for decision in ("normal", "abnormal"):
        decide(store, cases[0], "cy", decision)
    sessions.set_blind(store, STUDY, False, "root")
    seen = f"study={STUDY}&run={run}"
    for part in ("open", "list", "counts", "step", "drafts", "overview"):
        ask(f"GET /api/review/{part}?{seen}")
    assert ask(f"GET /api/review/place?{seen}&case={cases[2]}")["case"] == cases[2]
    ask("POST /api/review/boxes", {"cases": []})
    ask("POST /api/review/tag", {"study": STUDY, "cases": cases[:2], "tag": "odd"})
    ask(f"GET /api/case/{cases[0]}/tile.webp?run={run}")
    size = store.first("SELECT width * height AS n FROM cases WHERE id = ?", cases[:1])["n"]
    mask = ask(f"POST /api/review/mask/{cases[0]}?label=polyp", b"\xff" * -(-size // 8))
    ask(f"POST /api/review/restore/{mask['mask']}")
    assert ask(f"POST /api/review/reference/{mask['mask']}", who="root")["masks"][-1]["reference"] is False
    assert ask(f"POST /api/review/normal/{cases[0]}", b"\x80" * -(-size // 8))["marks"]["normal"]
    assert ask(f"POST /api/review/finished/{cases[0]}", {"finished": True})["marks"]["finished"]
    found = ask("POST /api/review/finding", {"case": cases[0], "label": "polyp", "box": [1, 1, 5, 5]})["findings"]
    for reader, decision in (("ann", "normal"), ("bob", "abnormal"), ("cy", "unsure")):
        body = {"case": cases[1], "decision": decision, "seconds": 2.0, "list": {"study": STUDY, "run": run}}
        assert ask("POST /api/review/decide", body, reader)["next"]
    ask("POST /api/review/decide", {"case": cases[1], "decision": "normal", "adjudication": True}, "root")
    for back in ("undo", "redo", "undo"):
        ask(f"POST /api/review/{back}", {"study": STUDY}, "root")
    assert ask("POST /api/review/undo", {"study": STUDY}, "nobody")["ok"] is False
    ask("POST /api/review/decide", {"case": cases[1], "decision": "normal", "adjudication": True}, "root")
    assert ask(f"GET /api/review/case/{cases[0]}?{seen}")["case"]["masks"]
    assert len(ask(f"GET /api/review/timeline/{cases[0]}?run={run}")["frames"]) == 2
    ask(f"DELETE /api/review/finding/{found[-1]['id']}")
    ask("POST /api/review/settings", {"keys": {"normal": "n"}, "show": {"heat": True}})
    ask("POST /api/review/threshold", {"case": cases[0], "from": 0.5, "to": 0.6})
    ask(f"POST /api/review/draft/{cases[2]}", b"draft")
    assert ask(f"GET /api/review/drafts?study={STUDY}")["drafts"]
    ask(f"DELETE /api/review/draft/{cases[2]}")
    assert ask(f"GET /api/case/{cases[0]}/nearest?run={run}")["cases"]
    ask(f"GET /api/case/{cases[0]}/explain?run={fit}")
    ask(f"GET /api/case/{cases[0]}/pack?run={run}")
    number = ask("POST /api/reading/start", {"study": STUDY, "count": 2}, "bob")["session"]
    case = ask(f"GET /api/review/step?{seen}", who="bob")["case"]
    for decision in ("normal", "abnormal"):
        ask("POST /api/review/decide", {"case": case["id"], "decision": decision, "seconds": 1.5}, "bob")
    ask(f"GET /api/review/list?{seen}", who="bob")
    ask("POST /api/reading/end", who="bob")
    summary = ask(f"GET /api/reading/{number}/summary", who="bob")
    assert ask(f"GET /api/reading/{number}/report", who="bob")["rows"][0]["decision"]
    assert summary["point"] and summary["agreement"] and ask(f"GET /api/reading?study={STUDY}", who="bob")["over"]
    assert (
        ask(f"GET /api/results/{STUDY}?run={fit}")["compared"] and ask(f"GET /api/results/{STUDY}?run={run}")["minds"]
    )
    assert ask(f"GET /api/results/{STUDY}/believe?run={fit}")["promise"]["held"]
    assert ask(f"POST /api/results/{STUDY}/believe?run={fit}", who="root")["job"]
    for more in ({"source": "dragged", "threshold": 0.5}, {"source": "default"}):
        ask(f"POST /api/results/{STUDY}/point", {"run": fit, **more})
    assert ask("GET /api/audit")["events"] and ask(f"GET /api/results/{STUDY}/sizes?run={fit}")["of"]
    assert ask(f"POST /api/results/{STUDY}/evaluate", {"masks": "reference"}, who="root")["job"]
    assert ask(f"POST /api/report/{STUDY}/time", {"tables": ["ssl"], "seeds": 1})["cells"]
    ask(f"POST /api/report/{STUDY}", {"tables": ["ssl"], "seeds": 1})
    assert ask(f"GET /api/report/{STUDY}?seeds=1")["job"]


def ask_trials(ask: Asked, run: str) -> None:
    for name in ("fay", "gus"):
        people.add_reader(ask.store, name, "long enough")
    given = {"name": "T", "readers": ["fay", "gus"], "run": run, "washout": 0, "scale": "percent", "marks": True}
    made = ask(f"POST /api/trials/of/{STUDY}", {"plan": given})["trial"]
    ask(f"POST /api/trials/{made}/start")
    assert ask(f"GET /api/trials/of/{STUDY}")["trials"][0]["parts"] and ask("GET /api/trials/sizes")["rows"]
    assert ask("GET /api/trials/lists", who="fay")["lists"][0]["state"] == "ready"
    ask("POST /api/trials/open", {"trial": made}, "fay")
    for part in ("open", "list", "counts", "overview"):
        ask(f"GET /api/review/{part}?study={STUDY}", who="fay")
    case = ask(f"GET /api/review/step?study={STUDY}", who="fay")["case"]
    assert case["label"] == "unknown"
    ask("POST /api/review/finding", {"case": case["id"], "label": "polyp", "box": [1, 1, 5, 5], "rating": 80}, "fay")
    body = {"case": case["id"], "decision": "normal", "rating": 20, "list": {"study": STUDY}}
    assert ask("POST /api/review/decide", body, "fay")["next"]
    ask(f"POST /api/trials/{made}/close")
    for kind in ("html", "pdf", "zip"):
        ask(f"GET /api/trials/{made}/report/{kind}")


def ask_learn(ask: Asked, fit: str) -> None:
    marked = ask.store.query("SELECT * FROM cases WHERE study = ? AND label = 'abnormal'", [STUDY])
    for case in marked:
        mask = np.zeros((case["height"], case["width"]), np.uint8)
        mask[: len(mask) // 2] = 1
        save_mask(ask.store, case["id"], mask, "di")
        decide(ask.store, case["id"], "di", "abnormal")
    run = ask(f"POST /api/learn/{STUDY}", {"fit": fit})["run"]
    assert ask(f"GET /api/learn/{STUDY}")["learnt"][0]["id"] == run
    ask(f"POST /api/learn/{STUDY}/adopt", {"run": ""})


def ask_medmix(ask: Asked, fit: str) -> None:
    ask("GET /api/medmix/forms")
    ask("GET /api/medmix/donors")
    ask("POST /api/medmix/presets", {"name": "mine", "config": {}})
    text = ask("POST /api/medmix/presets.yaml", {"name": "mine", "config": {}}).decode()
    ask("POST /api/medmix/presets/read", {"text": text})
    ask("GET /api/medmix/presets")
    ask("DELETE /api/medmix/presets/mine")
    ask("POST /api/medmix/grid", {"scene": {"study": STUDY, "size": 64, "samples": 2}})
    ask("POST /api/medmix/probe", {"scene": {"study": STUDY}})
    case = ask(f"GET /api/medmix/lesions?study={STUDY}")["lesions"][0]["case"]
    drop = ask("POST /api/study/drop")["drop"]
    ask(f"PUT /api/study/drop/{drop}?path=a.png", cv2.imencode(".png", picture(1)[0])[1].tobytes())
    image = {"drop": drop, "file": "a.png"}
    square = np.zeros(picture(1)[0].shape[:2], bool)
    square[8:24, 8:24] = True
    with patch.object(boxes, "in_box", lambda *given: square):  # needs no weights
        line = ask("POST /api/medmix/outline", {**image, "box": [0.1, 0.1, 0.9, 0.9]})["outline"]
    asked = {"study": STUDY, "cases": [case], "outlined": [{**image, "outline": line}], "seconds": 1}
    found = ask("POST /api/medmix/match", asked)["match"]
    ask(f"POST /api/medmix/match/{found}/stop")
    load_step("match")(Work(ask.store, "", {"match": found}))
    assert ask(f"GET /api/medmix/match/{found}")["state"]["done"]
    assert ask(f"POST /api/medmix/match/{found}/export", {"name": "mine"})["preset"]["origin"]["outlined"]
    preferred.adopt(ask.store, STUDY, fit, "ann")
    assert ask("POST /api/medmix/missed", {"study": STUDY, "config": {}})["planted"]
    preferred.adopt(ask.store, STUDY, None, "ann")


def ask_training(ask: Asked, encoder: str, fit: str) -> None:
    ask("GET /api/training/forms")
    ask("POST /api/training/check", {"config": SMALL})
    ask("POST /api/training/dry", {"study": STUDY, "config": SMALL})
    made = ask("POST /api/training/start", {"study": STUDY, "config": SMALL, "detectors": {"padim": {}}})
    picture_of = base64.b64encode(cv2.imencode(".png", picture(1)[0])[1].tobytes()).decode()
    assert ask("POST /api/programs/score", {"run": fit, "image": picture_of, "heat_map": True})["heat_map"]
    cells = [
        (1, f"{name}_{i}_{j}", 1.0) for name in ("aug_confusion", "class_distances") for i in (0, 1) for j in (0, 1)
    ]
    journal.write_metrics(ask.store, made["run"], [(1, "l_aug", 0.5), (2, "l_aug", float("nan")), *cells])
    journal.log(ask.store, made["run"], "begun")
    assert ask(f"GET /api/training/run/{made['run']}")["confusion"]
    ask("GET /api/status")
    ask("GET /api/status/events")
    ask(f"GET /api/status/plan?study={STUDY}")
    for action in ("pause", "resume", "cancel", "archive", "restore"):
        ask(f"POST /api/training/run/{made['run']}/{action}", {})
    for action in ("rename", "note"):
        ask(f"POST /api/training/run/{made['run']}/{action}", {"value": "text"})
    ask(f"POST /api/training/run/{encoder}/fit", {"detectors": {"padim": {}}})
    ask(f"GET /api/training/run/{encoder}")
    again = ask(f"POST /api/training/run/{fit}/repeat")
    ask(f"POST /api/status/stop/{again['job']}")
    ask(f"POST /api/training/run/{again['run']}/frees")
    ask(f"POST /api/training/run/{again['run']}/delete", {})
    ask(f"POST /api/bin/run/{again['run']}/restore")
    assert ask(f"GET /api/training/runs?study={STUDY}")["runs"]
    ask(f"GET /api/training/compare?run={made['run']},{encoder}")


def ask_clusters(ask: Asked, fit: str, folder) -> None:
    store, base = ask.store, "/api/clusters/maps"
    run = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32, "k": 3, "strong": "medmix", "medmix": {}})
    snapshots(runs.run_folder(store, run), 1)
    ask(f"GET /api/clusters/runs?study={STUDY}")
    config = {"method": "pca", "feature": "projected", "points": POINTS}
    ask(f"POST {base}", {"run": run, "config": config | {"seed": 1}})
    ask(f"POST {base}/{ask(f'GET {base}?study={STUDY}')['maps'][0]['key']}/stop")
    key = load_step("embed")(Work(store, run, {"config": config, "device": "cpu"}))
    view = ask("POST /api/clusters/views", {"study": STUDY, "name": "mine", "state": {"a": [1]}})["id"]
    assert ask(f"GET {base}?study={STUDY}")["views"]
    ask(f"DELETE /api/clusters/views/{view}")
    for part in ("", "/coords", f"/columns?fit={fit}", f"/points/0?fit={fit}", "/points/0/neighbours"):
        ask(f"GET {base}/{key}{part}")
    everything = list(range(len(ask(f"GET {base}/{key}")["points"]["case_id"])))
    ask(f"POST {base}/{key}/tag", {"points": everything, "tag": "odd"})
    ask(f"POST {base}/{key}/worklist", {"points": everything})
    new = ask(f"POST {base}/{key}/placed", {"folder": str(folder)})["key"]
    assert not ask(f"GET {base}/{key}/placed")["sets"][0]["ready"]
    args = {"map": key, "placed": new, "config": {"folder": str(folder)}, "device": "cpu"}
    load_step("project")(Work(store, run, args))
    assert ask(f"GET {base}/{key}/placed")["sets"][0]["ready"]
    ask(f"GET {base}/{key}/placed/{new}/0")
    ask(f"DELETE {base}/{key}/placed/{new}")
    ask(f"DELETE {base}/{key}")
