"""The route of click-to-segment: bits of a mask, a sentence for what cannot be, nothing for a blind reader."""

from __future__ import annotations

import numpy as np

from core.studio.review.masks import segment
from tests.app.routes.clients import visitor
from tests.app.routes.test_blind import reading  # noqa: F401
from tests.studio.review.conftest import STUDY


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
