"""Heavy requests take turns; no file of the machine is named by a reader."""

from __future__ import annotations

import base64
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from app.routes import programs
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder, save_encoder
from core.studio.programs.looks import Looks
from core.studio.review import people
from core.studio.training import dryrun
from tests.app.routes.clients import PASSWORD, client_of
from tests.app.routes.every_route import SMALL
from tests.conftest import ARCH
from tests.studio.review.conftest import STUDY, room  # noqa: F401


@pytest.mark.slow
def test_dry_runs_take_turns(room, monkeypatch):  # noqa: F811
    store, _ = room
    for name in ("ann", "bob", "cid"):
        people.add_reader(store, name, PASSWORD, "reader")
    client, lock = client_of(store), threading.Lock()
    at_work, most = [0], [0]

    def measured(*asked) -> dict:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        time.sleep(0.05)
        with lock:
            at_work[0] -= 1
        return {"fits": False, "message": ""}

    monkeypatch.setattr(dryrun, "dry_run", measured)

    def ask(who: str) -> int:
        body = {"study": STUDY, "config": SMALL}
        return client.post("/api/training/dry", json=body, headers={"x-user": who}).status_code

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(ask, ["ann"] * 6)) == {200}
        assert most == [1]
        assert set(pool.map(ask, ["ann", "bob", "cid"] * 3)) == {200}
        assert most == [2]


@pytest.mark.slow
def test_a_reader_names_no_file_of_weights(room, tmp_path, monkeypatch):  # noqa: F811
    """One answer for a real file, a folder and nothing, of a dry run, a check and a start: none is looked for."""
    store, _ = room
    people.add_reader(store, "ann", PASSWORD, "reader")
    monkeypatch.setattr(dryrun, "dry_run", lambda *given: {"fits": False, "message": ""})
    save_encoder(build_encoder(EncoderConfig(arch=ARCH)), tmp_path)
    client, said = client_of(store), set()
    for path in (tmp_path / "encoder.safetensors", tmp_path, tmp_path / "absent.pth", "/etc/passwd"):
        config = {**SMALL, "encoder": {"arch": ARCH, "init": str(path)}}
        for address, more in (("dry", {}), ("check", {}), ("start", {"detectors": {}})):
            body = {"study": STUDY, "config": config, **more}
            answer = client.post(f"/api/training/{address}", json=body, headers={"x-user": "ann"})
            said.add((answer.status_code, answer.text))
    assert len(said) == 1 and said.pop()[0] == 400
    for name in ("learnt",):  # its base is a run, which only *Learn from marks* chooses
        body = {"study": STUDY, "config": SMALL, "detectors": {name: {"base_run": str(tmp_path)}}}
        answer = client.post("/api/training/start", json=body, headers={"x-user": "ann"})
        assert answer.status_code == 400 and f"no detector is called '{name}'" in answer.json()["error"]
    assert not store.query("SELECT 1 FROM runs WHERE kind = 'pretrain' AND status = 'queued'")


@pytest.mark.slow
def test_images_that_are_asked_for_at_once_are_unpacked_one_after_the_other(room, monkeypatch):  # noqa: F811
    store, run = room
    client, at_work, most, met = client_of(store), [], [], threading.Event()

    def read(path):
        at_work.append(path)
        most.append(len(at_work))
        met.wait(0.1)  # for another one, which does not come
        if len(at_work) > 1:
            met.set()
        at_work.remove(path)
        return np.zeros((9, 9, 3), np.uint8)

    said = {"score": 0.5, "threshold": None, "percentile": None, "flagged": None}
    monkeypatch.setattr(programs, "read_image", read)
    monkeypatch.setattr(Looks, "at", lambda self, run, image: (said, np.zeros((4, 4), np.float32)))
    body = {"run": run, "image": base64.b64encode(b"a small file").decode()}
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: client.post("/api/programs/score", json=body), range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4 and max(most) == 1
