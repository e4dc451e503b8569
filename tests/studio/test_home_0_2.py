"""A home of version 0.2.0 opens, scores as it did, goes on training to the same weights, and hides what it hid."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from core.studio.clusters import library
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.jobs import worker
from core.studio.medmix import presets
from core.studio.review import sessions
from core.studio.runs import pipeline, records
from core.studio.runs.readings import read_scores
from core.studio.training import requests
from tests.home_0_2 import DETECTORS, unpacked
from tests.studio.review.conftest import asks, decide


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("old"))


@pytest.fixture
def store(old, no_worker):
    opened = opening.open(Home.at(old.home))
    yield opened
    opened.close()


GONE = ("reconstruction",)  # detectors that version 0.2 had: what they read stays, and nothing new is scored


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in (*DETECTORS, "marked") if name not in GONE])
def test_each_detector_scores_as_it_did(store, old, name):
    run = old.facts["marked"] if name == "marked" else old.facts["fits"][name]
    cases = np.array(old.facts["cases"])
    expected = np.array(old.facts["scores"][name])
    assert read_scores(store, run, cases, True).tolist() == expected.tolist()  # as stored
    pipeline.score_run(store, run, "cpu")
    again = read_scores(store, run, cases, True)
    # Degenerate scales of networks of two steps magnify rounding: each to 1e-4 of itself.
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", GONE)
def test_what_a_detector_that_is_gone_has_read_stays(store, old, name):
    run, cases = old.facts["fits"][name], np.array(old.facts["cases"])
    assert read_scores(store, run, cases, True).tolist() == old.facts["scores"][name]
    with pytest.raises(ValueError, match=f"no detector is called '{name}'"):
        pipeline.score_run(store, run, "cpu")
    assert read_scores(store, run, cases, True).tolist() == old.facts["scores"][name]


@pytest.fixture
def one_thread():
    """As the home was made: more threads add in other orders."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_a_training_that_was_stopped_goes_on_to_the_same_weights(store, old, one_thread):
    folder = records.run_folder(store, old.facts["paused"])
    stopped = load_file(next(folder.glob("checkpoint-*.safetensors")))
    run = pipeline.pretrain_run(store, old.facts["paused"], "cpu")
    assert run["status"] == "done"
    final = load_file(folder / "encoder.safetensors")

    def sizes(weights: dict) -> np.ndarray:
        """Sum of |w| of each weight that version 0.2 noted."""
        return np.array([float(weights[key].double().abs().sum()) for key in old.facts["resumed"]])

    expected = np.array(list(old.facts["resumed"].values()))
    # Processors add in other orders, and eleven steps magnify that: the update as a whole is the same to a twentieth.
    # On the processor that made the home it was the same to the last bit.
    begun = sizes({name.removeprefix("encoder."): weight for name, weight in stopped.items()})
    assert np.abs(sizes(final) - expected).sum() < 0.05 * np.abs(begun - expected).sum()


@pytest.mark.slow
def test_a_fit_is_repeated(store, old):
    again = requests.repeat(store, old.facts["fits"]["padim"], wake=False)
    worker.run_queue(store)
    cases = np.array(old.facts["cases"])
    assert records.get_run(store, again["run"])["status"] == "done"
    np.testing.assert_allclose(read_scores(store, again["run"], cases, True), old.facts["scores"]["padim"], rtol=1e-4)


def test_map_preset_and_decisions_are_there(store, old):
    assert [one["ready"] for one in library.list_maps(store, old.facts["study"])] == [True]
    assert library.open_map(store, old.facts["map"]) is not None
    assert presets.get_preset(store, "mine")["note"] == "kept by version 0.2"
    marked = store.query(
        "SELECT r.reader, r.decision FROM current_reviews r JOIN cases c ON c.id = r.case_id WHERE c.study = ?",
        [old.facts["study"]],
    )
    assert [tuple(row.values()) for row in marked] == [("ann", "abnormal")] * 3


def test_the_blind_study_is_blind_and_its_session_open(store, old):
    hidden = old.facts["blind"]
    assert sessions.is_blind(store, hidden) and asks(store, "bob", study=hidden).blinded
    cases = [row["id"] for row in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [hidden])]
    bob = asks(store, "bob", study=hidden)
    assert bob.committed(cases) == {cases[0]}
    held = sessions.open_session(store, "eve", hidden)
    assert (
        held is not None
        and held["id"] == old.facts["session"]
        and asks(store, "eve", study=hidden).committed(cases) == {cases[1]}
    )
    decide(store, cases[2], "bob", "normal")
    assert bob.committed(cases) == {cases[0], cases[2]}
