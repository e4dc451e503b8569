"""What is asked for again while it waits or runs is the same job: every route that starts one, by ten threads."""

from __future__ import annotations

import json

import numpy as np
import pytest

from app import routes
from core.studio.incoming import dicomweb
from core.studio.jobs.steps import STEPS, Work
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.app.routes.clients import client_of
from tests.app.routes.every_route import POINTS, SMALL, encoder_with_fit
from tests.conftest import at_once, picture, write
from tests.studio.clusters.conftest import snapshots
from tests.studio.review.conftest import STUDY, decide, room, save_mask  # noqa: F401

MAPS = "/api/clusters/maps"
CONFIG = {"method": "pca", "feature": "projected", "points": POINTS}
# Their answers name a job that is there; the tour opens the demo as /api/study/demo does.
OTHERS = {"/api/tour/reset", "/api/tour/prepare", "/api/reading/agree", "/api/reading/planted"}
CAME = 4  # runs that the demo study brings


def bodies(store, tmp_path) -> dict[str, tuple[str, dict]]:
    """{path of a route that starts a job: (address, body)}."""
    encoder, fit = encoder_with_fit(store)
    for case in store.query("SELECT * FROM cases WHERE study = ? AND label = 'abnormal'", [STUDY]):
        mask = np.zeros((case["height"], case["width"]), np.uint8)
        mask[: len(mask) // 2] = 1
        save_mask(store, case["id"], mask, "di")
        decide(store, case["id"], "di", "abnormal")
    run = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32, "k": 3, "strong": "medmix", "medmix": {}})
    snapshots(runs.run_folder(store, run), 1)
    key = STEPS["embed"](Work(store, run, {"config": CONFIG, "device": "cpu"}))
    write(tmp_path / "new" / "one.png", picture(1)[0])
    dicomweb.name_server(store, "pacs", "http://localhost:8042/dicom-web", None, "root")
    pipeline.create_untrained(store, STUDY, 32)
    scored = store.first("SELECT run FROM readings")["run"]
    return {
        "/api/training/start": ("", {"study": STUDY, "config": SMALL, "detectors": {"padim": {}}}),
        "/api/training/run/{run_id}/fit": (f"/api/training/run/{encoder}/fit", {"detectors": {"padim": {}}}),
        "/api/training/run/{run_id}/repeat": (f"/api/training/run/{fit}/repeat", {}),
        "/api/learn/{study}": (f"/api/learn/{STUDY}", {"fit": fit}),
        MAPS: ("", {"run": run, "config": CONFIG | {"seed": 1}}),
        f"{MAPS}/{{key}}/placed": (f"{MAPS}/{key}/placed", {"folder": str(tmp_path / "new")}),
        "/api/report/{study}": (f"/api/report/{STUDY}", {"tables": ["ssl"], "seeds": 1}),
        "/api/export/{study}/send": (f"/api/export/{STUDY}/send", {"server": "pacs", "kinds": ["seg"]}),
        "/api/study/{study}/look": (f"/api/study/{STUDY}/look", {}),
        "/api/results/{study}/evaluate": (f"/api/results/{STUDY}/evaluate", {}),
        "/api/results/{study}/believe": (f"/api/results/{STUDY}/believe?run={scored}", {}),
        "/api/study/demo": ("", {}),
    }


@pytest.mark.long
def test_ten_threads_start_one_job_by_any_route(room, no_worker, tmp_path):  # noqa: F811
    store, _ = room
    tried = bodies(store, tmp_path)
    answer_jobs = {r.path for r in routes.every_route() if "job" in getattr(r.response_model, "__annotations__", {})}
    posts = {route.path for route in routes.every_route() if "POST" in route.methods}
    assert (answer_jobs & posts) - OTHERS == set(tried)
    wrong = []
    with client_of(store, single_user=True) as client:
        for path, (address, body) in tried.items():
            store.execute("UPDATE jobs SET status = 'cancelled'")
            counts = "SELECT (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM runs) AS runs"
            before = store.first(counts)
            answers = at_once(lambda i, to=address or path, body=body: client.post(to, json=body), 10)
            after = store.first(counts)
            texts = {json.dumps(answer.json()) for answer in answers}
            if after["jobs"] - before["jobs"] != 1 or {answer.status_code for answer in answers} != {200}:
                wrong.append(f"{path}: {after['jobs'] - before['jobs']} jobs, {texts}")
            if after["runs"] - before["runs"] > (CAME if path == "/api/study/demo" else 2):
                wrong.append(f"{path}: {after['runs'] - before['runs']} runs")
    assert not wrong, "\n".join(wrong)
