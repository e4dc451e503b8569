"""Scores of images that are in no study."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from app.routes import programs
from core.studio.programs.looks import Looks
from tests.app.routes.clients import client_of
from tests.studio.review.conftest import room  # noqa: F401


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
