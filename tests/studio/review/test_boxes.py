"""Masks from boxes of a case of a study: embeddings made ahead and kept, windows for small boxes, blobs of the map."""

import numpy as np
import pytest
import torch

from core.engine.segment import region
from core.studio.ingest.originals import Source
from core.studio.review import boxes
from core.studio.review import masks as segments
from core.studio.runs.readings import stored_map, unpack_map
from tests.conftest import wait
from tests.studio.review.conftest import drawn_home


class Plain:
    """A model whose embedding is the image's shape, and whose mask is the box."""

    def __init__(self):
        self.embedded = []

    def embed(self, image):
        self.embedded.append(image.shape)
        return torch.tensor(image.shape)

    def logits(self, embedding, found, shape):
        return torch.zeros(len(found), 256, 256), torch.arange(len(found)).float()

    def masks(self, embedding, found, shape):
        assert embedding.tolist()[:2] == list(shape)
        masks = np.zeros((len(found), *shape), bool)
        for mask, (x0, y0, x1, y1) in zip(masks, found, strict=True):
            mask[int(y0) : int(y1), int(x0) : int(x1)] = True
        return masks


@pytest.fixture
def plain(monkeypatch):
    model = Plain()
    monkeypatch.setattr(boxes, "model", lambda: model)
    monkeypatch.setattr(boxes, "EMBEDDINGS", boxes.Embeddings())
    return model


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    with drawn_home(tmp_path_factory.mktemp("boxes"), 4, 1, 3) as (store, run):
        rows = store.query("SELECT * FROM cases WHERE label = 'abnormal' ORDER BY id")
        yield store, run, rows


def test_an_embedding_is_made_once_and_a_small_box_is_looked_at_in_its_window(room, plain):
    _, _, (case, *_) = room
    found = boxes.in_box(case, (10, 10, 40, 35), (5, 5, 45, 45))
    assert found.shape == (60, 72) and found[10:35, 10:40].all() and found.sum() == 25 * 30
    assert np.array_equal(boxes.in_box(case, (-9, 10, 40, 35)), boxes.in_box(case, (0, 10, 40, 35)))
    assert plain.embedded == [(60, 72, 3)]
    small = boxes.in_box(case, (10, 10, 16, 16), (5, 4, 45, 45))
    assert small.sum() == 36 and small[10:16, 10:16].all() and plain.embedded[1:] == [(41, 40, 3)]
    assert boxes.in_box(case, (50, 50, 56, 56), (5, 4, 45, 45)).sum() == 36, "not in the window: the whole image"
    assert len(plain.embedded) == 2
    with pytest.raises(ValueError, match="hardly overlaps"):
        boxes.in_box(case, (80, 80, 90, 90))


def test_the_next_cases_are_prepared_and_few_are_kept(room, plain, monkeypatch):
    _, _, cases = room
    monkeypatch.setattr(boxes, "KEPT", 2)
    sources = [Source.of(case) for case in cases]
    boxes.EMBEDDINGS.ahead(sources)
    wait(lambda: len(plain.embedded) == 3)
    boxes.EMBEDDINGS.of((sources[2], None))
    assert len(plain.embedded) == 3
    boxes.EMBEDDINGS.of((sources[0], None))
    assert len(plain.embedded) == 4, "the first of three went as the third came"
    gone = sources[0]._replace(path="/nowhere.png", sha256=None)
    boxes.EMBEDDINGS.ahead([gone, sources[1]])
    wait(lambda: len(plain.embedded) == 5)  # the thread outlives an image that cannot be read


def test_a_blob_of_the_heat_map_becomes_a_box(room, plain):
    store, run, (case, *_) = room
    heat = unpack_map(stored_map(store, run, case["id"]))
    y, x = np.unravel_index(int(heat.argmax()), heat.shape)
    spot = ((x + 0.5) * case["width"] / heat.shape[1], (y + 0.5) * case["height"] / heat.shape[0])
    found = boxes.segment_at(store, case, run, spot)
    assert found.shape == (60, 72) and found[int(spot[1]), int(spot[0])]
    with pytest.raises(ValueError, match="no heat map"):
        boxes.segment_at(store, {**case, "id": 10_000}, run, spot)


def test_a_blob_keeps_to_the_region_of_interest_and_half_an_image_is_refused(room, plain, monkeypatch):
    store, run, (case, *_) = room
    inside = np.zeros((60, 72), np.uint8)
    inside[:, 36:] = 1
    monkeypatch.setattr(boxes, "find_roi", lambda image: inside)
    spot, wide = (54.0, 30.0), [(30.0, 0.0, 50.0, 30.0)]
    monkeypatch.setattr("core.engine.segment.region.boxes", lambda heat, usual, level, at: wide)
    found = boxes.segment_at(store, case, run, spot)
    assert found.any() and not found[inside == 0].any()
    wide[0] = (30.0, 0.0, 70.0, 60.0)
    with pytest.raises(ValueError, match=r"covers 47 % of the image, too much for a lesion: drag a box"):
        boxes.segment_at(store, case, run, spot)


def test_a_window_of_a_case_is_made_ready_once(room, monkeypatch):
    store, run, (case, *_) = room
    made = []
    plain = region.lattice
    monkeypatch.setattr(region, "lattice", lambda *args: made.append(args[2:]) or plain(*args))
    segments._lattice.cache_clear()
    assert not segments.segment(store, case, run, []).any()
    found = segments.segment(store, case, run, [(36, 30, True)])
    assert found.shape == (60, 72) and found[30, 36]
    assert not segments.segment(store, case, run, [(36, 30, True), (2, 2, False)])[2, 2]
    assert made == [(None,)]
    inside = segments.segment(store, case, run, [(36, 30, True)], (20, 10, 200, 50))
    assert made[1:] == [((20, 10, 72, 50),)] and not inside[:, :20].any()
    segments.segment(store, case, "", [(36, 30, True)])
    assert len(made) == 2, "a run without an encoder of its own is as none"
