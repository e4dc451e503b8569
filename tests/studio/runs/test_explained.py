"""What a case's most abnormal patch was compared with, named by the training image that it comes from."""

from __future__ import annotations

import numpy as np
import pytest

from core.engine.detectors.nearest.nearest import Nearest
from core.engine.registry import DETECTORS
from core.studio.ingest.cache import load_arrays
from core.studio.review import cases
from core.studio.runs import explained, pipeline
from core.studio.runs import records as runs
from tests.conftest import ARCH, scored_padim


@pytest.fixture
def fitted(store, tiny_study):
    """fitted(method, config) -> the run."""
    encoder = pipeline.create_untrained(store, tiny_study, 32, arch=ARCH)
    pipeline.pretrain_run(store, encoder)

    def fit(method: str, config: dict) -> str:
        run = pipeline.create_fit(store, encoder, method, config)
        pipeline.fit_run(store, run, "cpu")
        return run

    return fit


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blend", "blend-head"])
def test_a_training_image_is_most_like_itself(store, tiny_study, fitted, kind):
    memory = {"patches": 2000, "pool": 2000}
    parts = {"fine": memory, "coarse": memory, "padim": {"channels": 8}}
    train = store.query("SELECT id FROM cases WHERE study = ? AND split = 'train' ORDER BY \"row\"", [tiny_study])
    case = train[5]["id"]
    found = explained.explain(store, fitted("nearest", memory), case)
    assert found["case"]["id"] == case and found["distance"] == pytest.approx(0, abs=1e-2)
    assert found["box"] == found["there"] and all(0 <= v <= 1 for v in found["box"])
    # A blend holds only some of the training images: the image that is named is one of them, and the right one.
    head = {"steps": 2, "batch": 4, "width": 8, "mode": "frozen"}
    config = parts if kind == "blend" else {"blend": parts, "head": head, "side": 32}
    run = fitted(kind, config)
    detector = DETECTORS.get(kind).load(runs.run_folder(store, run), "cpu")
    arrays = load_arrays(store, tiny_study, 32)
    kept = np.arange(len(train))
    found = [explained.explain(store, run, train[i]["id"]) for i in kept]
    itself = [i for i in kept if found[i]["case"]["id"] == train[i]["id"] and found[i]["distance"] < 0.01]
    assert len(itself) == len(kept) - max(4, round(detector.config.unseen * len(kept)))
    assert len(arrays.index("train")) == len(kept)


@pytest.mark.parametrize("whitened", [False, True])
def test_an_abnormal_case_is_set_beside_held_out_normals(store, tiny_study, fitted, whitened):
    run = fitted("nearest", {"patches": 200, "pool": 400, "whitened": whitened})
    case = store.first("SELECT id FROM cases WHERE study = ? AND label = 'abnormal'", [tiny_study])["id"]
    found = explained.explain(store, run, case)
    assert found["distance"] > 0 and found["usual"]["count"] == 6
    assert 0 < found["usual"]["median"] <= found["usual"]["largest"]
    assert found["case"]["name"] and len(found["case"]["v"]) == 10


@pytest.mark.slow
def test_other_detectors_and_other_cases_are_refused(store, tiny_study, fitted):
    _, padim = scored_padim(store, tiny_study)
    with pytest.raises(ValueError, match="nearest patches"):
        explained.explain(store, padim, 1)
    with pytest.raises(ValueError, match="not in the study"):
        explained.explain(store, fitted("nearest", {"patches": 50, "pool": 100}), 10_000)


@pytest.mark.slow
def test_each_run_says_whether_it_compares_patches(store, tiny_study, fitted):
    compare = {name for name in DETECTORS.names() if DETECTORS.fact(name, "compares")}
    alone = {name for name in DETECTORS.names() if issubclass(DETECTORS.get(name), Nearest)}
    assert alone | {"blend", "blend-head"} == compare
    assert not DETECTORS.fact("of another version", "compares", False)
    scored_padim(store, tiny_study)
    run = fitted("nearest", {"patches": 200, "pool": 400})
    pipeline.score_run(store, run, "cpu")
    assert {r["method"]: r["compares"] for r in cases.scored_runs(store, tiny_study)} == {
        "padim": False,
        "nearest": True,
    }
