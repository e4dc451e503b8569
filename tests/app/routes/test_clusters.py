"""What the Clusters tab asks of the server; a map's file carries names for administrators only."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from core.studio.clusters import library, projected
from core.studio.clusters.config import MapConfig
from core.studio.jobs.steps import Work, load_step
from core.studio.runs import records as runs
from core.studio.runs.pipeline import create_untrained
from core.studio.runs.weights import snapshots as snapshots_of
from tests.app.routes.clients import client_of
from tests.app.routes.test_manage import asked  # noqa: F401
from tests.conftest import ARCH
from tests.studio.clusters.conftest import POINTS, snapshots
from tests.studio.review.conftest import STUDY, decide, room  # noqa: F401


def test_trained_encoders_come_before_untrained_ones(room):  # noqa: F811
    store, _ = room
    trained = []
    for _ in range(2):
        run = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32, "k": 3})
        snapshots(runs.run_folder(store, run), 1)
        trained.append(run)
    bare = create_untrained(store, STUDY, 32, arch=ARCH)
    snapshots(runs.run_folder(store, bare), 1)
    listed = client_of(store).get("/api/clusters/runs", params={"study": STUDY}).json()["runs"]
    assert [r["id"] for r in listed] == [trained[1], trained[0], bare]
    assert [r["centred"] for r in listed] == [True, True, True]
    (snapshots_of(store, runs.get_run(store, bare))[-1].folder / "centres.safetensors").unlink()
    listed = client_of(store).get("/api/clusters/runs", params={"study": STUDY}).json()["runs"]
    assert [r["centred"] for r in listed] == [True, True, False], "as of pretrained weights"


def _map(store) -> str:
    run = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32, "k": 3})
    snapshots(runs.run_folder(store, run), 1)
    config = MapConfig(method="pca", points=POINTS)
    return load_step("embed")(Work(store, run, {"config": config.to_dict(), "device": "cpu"}))


def _project(store, key: str) -> None:
    """One projected image by a patient's name, as the worker would leave it."""
    folder = projected.folder_of(store, key, "feed1234")
    folder.mkdir(parents=True)
    np.save(folder / "images.npy", np.zeros((1, 32, 32, 3), np.uint8))
    np.savez(folder / "placed.npz", coords=np.zeros((1, 1, 2), np.float32), near=np.zeros((1, 1, 10), np.int64),
             distance=np.ones((1, 1, 10), np.float32), far=np.zeros((1, 1), bool))  # fmt: skip
    about = {
        "title": "Jane Doe",
        "names": ["jane-doe.png"],
        "cases": [-1],
        "paths": [""],
        "frames": [0],
        "left_out": [],
    }
    (folder / "about.json").write_text(json.dumps(about))
    store.execute(
        "INSERT INTO cluster_projected (key, map, title, config, created) VALUES ('feed1234', ?, 'Jane Doe', '{}', '')",
        [key],
    )


@pytest.mark.slow
def test_a_readers_map_has_no_names_and_an_administrators_has(asked):  # noqa: F811
    store, _, client = asked
    key = _map(store)
    _project(store, key)
    m = library.open_map(store, key)
    case = next(int(c) for c, n in zip(m.points.case_id, m.points.lesions, strict=True) if n == 0)
    decide(store, case, "ben", "normal")
    names = {c["name"] for c in store.query("SELECT name FROM cases")} | {"Jane Doe", "jane-doe.png"}
    day = store.one("SELECT substr(added, 1, 10) AS d FROM cases")["d"]
    files = {}
    for who in ("ann", "jo", "root"):
        answer = client.get(f"/api/clusters/maps/{key}/file.csv", headers={"x-user": who})
        assert answer.status_code == 200
        files[who] = list(csv.DictReader(io.StringIO(answer.text)))
    assert {r["case"] for r in files["root"]} < names and {r["reader"] for r in files["root"]} == {"", "ben"}
    for who in ("ann", "jo"):
        shown = {value for row in files[who] for value in row.values()}
        assert not shown & (names | {"ben", day}) and len({r["case"] for r in files[who]}) > 10
    for colour, word in (("reader", "ben"), ("class", "Jane Doe")):
        path = f"/api/clusters/maps/{key}/file.svg?colour={colour}"
        assert word in client.get(path, headers={"x-user": "root"}).text
        assert word not in client.get(path, headers={"x-user": "ann"}).text
