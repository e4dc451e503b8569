"""What goes wrong while a study's marks teach: a clear sentence each, and nothing is lost."""

import os
import signal

import numpy as np
import pytest

from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.review import cases as review_cases
from core.studio.runs import learnt, marks
from core.studio.runs import records as runs
from tests.conftest import quick_lessons, scored_padim, wait
from tests.studio.review.conftest import asks, decide
from tests.studio.runs.test_learnt import cases_of, mark


@pytest.fixture
def base(store, tiny_study, monkeypatch):
    """A scored fit of the study; what learns on from it takes few steps."""
    monkeypatch.setattr(learnt, "LearntConfig", quick_lessons)
    return scored_padim(store, tiny_study)[1]


def masks_of(store) -> list[dict]:
    return store.query("SELECT id, case_id, reader, png FROM lesion_masks ORDER BY id")


@pytest.mark.slow
def test_readers_who_contradict_each_other_teach_once_it_is_settled(store, tiny_study, base):
    sick = cases_of(store, tiny_study, "abnormal")
    mark(store, sick[0], part=slice(4, 10))
    mark(store, sick[0], "bob", part=slice(30, 40))  # no place in common
    mark(store, sick[1])
    decide(store, sick[1]["id"], "bob", "normal")
    with pytest.raises(ValueError, match="In 2 cases readers contradict each other: they teach once they are adjud"):
        learnt.create_learnt(store, base)
    mark(store, sick[2])
    offer = learnt.offered(store, tiny_study)
    assert offer["contradicting"] == 2 and offer["masks"] == 1
    assert any("contradict" in note for note in offer["notes"])
    assert marks.contradicting(store, tiny_study) == [sick[0]["id"], sick[1]["id"]]
    assert len(marks.accepted(store, tiny_study, "ann")) == 3, "one reader's own do not contradict each other"
    decide(store, sick[0]["id"], "bob", "abnormal", adjudication=True)
    decide(store, sick[1]["id"], "ann", "abnormal", adjudication=True)
    assert learnt.offered(store, tiny_study)["contradicting"] == 0
    assert [row["reader"] for row in marks.accepted(store, tiny_study)] == ["bob", "ann", "ann"]


@pytest.mark.slow
def test_one_mask_alone_and_a_mask_of_all_pixels(store, tiny_study, base):
    sick = cases_of(store, tiny_study, "abnormal")
    mark(store, sick[0], part=slice(None))
    with pytest.raises(ValueError, match="1 mask of a whole image: nothing is learnt from that"):
        learnt.create_learnt(store, base)
    mark(store, sick[1])
    offer = learnt.offered(store, tiny_study)
    assert offer["masks"] == 1 and "Of one mask none can be left out" in offer["notes"][0]
    made = learnt.learn(store, base, device="cpu", start=False)
    worker.run_queue(store)
    run = runs.get_run(store, made["run"])
    assert run["status"] == "done", jobs.get_job(store, made["job"])["error"]
    rule = run["summary"]["rule"]
    assert rule["weight"] == 2.0 and rule["interval"] is None and "too few to hold one out" in rule["words"]
    assert store.query("SELECT * FROM next_marks WHERE run = ?", [made["run"]])


@pytest.mark.longest  # a worker's own process, at low priority
def test_killed_in_the_middle_nothing_is_lost_and_it_goes_on(store, tiny_study, base, monkeypatch):
    monkeypatch.setattr(learnt, "LearntConfig", lambda **settings: quick_lessons(**{**settings, "steps": 40}))
    for case in cases_of(store, tiny_study, "abnormal")[:3]:
        mark(store, case)
    before = masks_of(store)
    made = learnt.learn(store, base, device="cpu")
    job, folder = made["job"], runs.run_folder(store, made["run"])
    wait(lambda: jobs.get_job(store, job)["message"] == "Learning" or jobs.get_job(store, job)["status"] == "failed")
    os.kill(jobs.get_job(store, job)["pid"], signal.SIGKILL)
    wait(lambda: jobs.reap(store))
    assert runs.get_run(store, made["run"])["status"] == "interrupted"
    assert not (folder / "learnt.json").exists(), "no half detector"
    assert masks_of(store) == before and runs.get_run(store, base)["status"] == "done"
    assert [run["id"] for run in review_cases.scored_runs(store, tiny_study)] == [base], "the old one reads on"
    mark(store, cases_of(store, tiny_study, "abnormal")[0], part=slice(2, 8))  # meanwhile
    jobs.resume(store, job, start=False)
    worker.run_queue(store)
    run = runs.get_run(store, made["run"])
    assert run["status"] == "done" and run["summary"]["rule"]["images"] == 3
    assert marks.fault(store, run) is None, "it learns from the marks as they were when it was asked for"


def test_marks_that_go_meanwhile_are_named_and_the_old_one_stays(store, tiny_study, base):
    sick = cases_of(store, tiny_study, "abnormal")
    for case in sick[:3]:
        mark(store, case)
    made = [learnt.learn(store, base, device="cpu", start=False)]
    made.append(learnt.learn(store, base, reader="ann", device="cpu", start=False))
    newer = mark(store, sick[0], part=slice(2, 8))
    assert marks.fault(store, runs.get_run(store, made[0]["run"])) is None, "a newer version leaves the older there"
    assert newer not in runs.get_run(store, made[0]["run"])["config"]["marks"]["masks"]
    store.execute("DELETE FROM lesion_masks WHERE case_id = ?", [sick[1]["id"]])
    store.db.execute("PRAGMA foreign_keys = OFF")  # its reviews stay: no case of a study is deleted alone as yet
    store.execute("DELETE FROM cases WHERE id = ?", [sick[2]["id"]])
    store.db.execute("PRAGMA foreign_keys = ON")
    worker.run_queue(store)
    for one in made:
        job = jobs.get_job(store, one["job"])
        assert job["status"] == "failed" and "a case that it has learnt from is no longer in the study" in job["error"]
        assert "Learn anew without it" in job["error"]
    shown = review_cases.detail(asks(store, case_id=sick[0]["id"], run=base))["readings"]
    assert set(shown) == {base}
    again = learnt.offered(store, tiny_study)
    assert again["masks"] == 1 and np.all([row["case_id"] == sick[0]["id"] for row in masks_of(store)][:1])
