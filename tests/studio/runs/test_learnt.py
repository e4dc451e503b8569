"""Learning from what readers marked: which masks count, a run of its own, and nothing it has seen in its figures."""

import os
import signal

import numpy as np
import pytest

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.db import journal
from core.studio.ingest.masks import decode_mask
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.review import cases as review_cases
from core.studio.review import masks, sessions
from core.studio.review import results as figures
from core.studio.review.results import scored
from core.studio.runs import learnt, marks, pipeline, results
from core.studio.runs import records as runs
from core.studio.training import requests
from tests.conftest import quick_lessons, scored_padim, wait
from tests.studio.review.conftest import asks, decide, save_mask


def cases_of(store, study, label):
    query = "SELECT * FROM cases WHERE study = ? AND split = 'test' AND label = ? ORDER BY id"
    return store.query(query, [study, label])


def mark(store, case, reader="ann", decision="abnormal", part=slice(10, 30), source="hand", run=None):
    mask = np.zeros((case["height"], case["width"]), np.uint8)
    mask[part, part] = 1
    saved = save_mask(store, case["id"], mask, reader, source=source, run=run)
    if decision:
        decide(store, case["id"], reader, decision)
    return saved["mask"]


def test_accepted_is_what_its_own_reader_saved_and_called_abnormal(store, tiny_study):
    sick, well = (cases_of(store, tiny_study, label) for label in ("abnormal", "normal"))
    used = mark(store, sick[0])
    mark(store, sick[1], decision="normal")
    mark(store, sick[2], decision=None)
    decide(store, sick[2]["id"], "bob", "abnormal")  # somebody else's word
    mark(store, sick[3], part=slice(0, 0))  # nothing is marked
    mark(store, sick[4])
    newer = mark(store, sick[4], "bob")
    mark(store, well[0])
    decide(store, well[0]["id"], "ann", "unsure")  # changed since
    decide(store, sick[5]["id"], "ann", "abnormal")  # its imported mask is nobody's here
    mark(store, well[1])
    decide(store, well[1]["id"], "eve", "normal", adjudication=True)
    found = marks.accepted(store, tiny_study)
    assert [(row["case_id"], row["mask"]) for row in found] == [(sick[0]["id"], used), (sick[4]["id"], newer)]
    assert [row["reader"] for row in marks.accepted(store, tiny_study, "ann")] == ["ann", "ann"]
    offer = learnt.offered(store, tiny_study)
    assert offer == {
        "masks": 2, "patients": 2, "readers": ["ann", "bob"], "least": 1, "unfinished": 2, "normals": 2, "kinds": {},
        "whole": 0, "contradicting": 0, "next": 5, "due": False, "decided": 8, "none": None, "notes": [
            "In 2 cases, it is not confirmed that all lesions are annotated: only masks and normal regions are used."],
    }  # fmt: skip


@pytest.mark.slow
def test_masks_of_several_readers_kinds_finished_cases_and_places(store, tiny_study):
    _, base = scored_padim(store, tiny_study)
    sick, well = (cases_of(store, tiny_study, label) for label in ("abnormal", "normal"))
    mark(store, sick[0], part=slice(10, 30))
    mark(store, sick[0], "bob", part=slice(20, 40))
    mark(store, sick[1])
    right = mark(store, sick[1], "bob", part=slice(4, 12))
    decide(store, sick[1]["id"], "bob", "abnormal", adjudication=True)
    mark(store, sick[2], part=slice(None))  # a mask of all pixels
    decide(store, well[0]["id"], "ann", "normal")
    decide(store, well[1]["id"], "ann", "normal")
    decide(store, well[1]["id"], "bob", "unsure")
    here = asks(store, case_id=sick[1]["id"], reader="bob")
    assert masks.set_finished(here, True) == {"finished": True, "normal": False} == masks.case_marks(here)
    places = np.zeros((sick[0]["height"], sick[0]["width"]), np.uint8)
    places[-8:] = 1
    here = asks(store, case_id=sick[0]["id"], reader="bob")
    masks.set_normal_places(here, places)
    with pytest.raises(ValueError, match="the mask has 64 x 3 pixels"):
        masks.set_normal_places(here, places[:3])
    assert masks.case_marks(here) == {"finished": False, "normal": True}
    assert (decode_mask(masks.normal_places(here)) == places).all()
    found = marks.accepted(store, tiny_study)
    assert [row["case_id"] for row in found] == [sick[0]["id"], sick[1]["id"]]
    assert found[1]["mask"] == right and not found[1]["others"] and len(found[0]["others"]) == 1
    assert marks.lesion_of(found[0])[25, 25] and not marks.lesion_of(found[0])[15, 15], "what both have marked"
    assert learnt.offered(store, tiny_study)["whole"] == 1 and marks.normal_cases(store, tiny_study) == [well[0]["id"]]

    run = runs.get_run(store, runs.create_run(store, **learnt.planned(store, base)))
    kept = run["config"]["marks"]
    assert kept["unfinished"] == [sick[0]["id"]] and kept["normals"] == [well[0]["id"]]
    side = run["config"]["size"]
    got = marks.marks_of(store, run, side)

    def at(y: int, x: int) -> tuple[int, int]:
        """A pixel of the first image at the side that is learnt at."""
        return round(y * side / sick[0]["height"]), round(x * side / sick[0]["width"])

    assert got.masks[0][at(25, 25)] and not got.masks[0][at(15, 15)]
    assert got.ignored[0][at(15, 15)], "what one alone has marked is ignored"
    assert not got.ignored[0, -1].any() and got.ignored[0, 0].all(), "unfinished: all but the places called normal"
    assert got.masks[1].any() and not got.ignored[1].any() and not got.masks[2].any() and not got.ignored[2].any()
    assert got.outlined.shape == got.masks.shape, "what the detector before outlines"
    assert marks.repeat_problem(store, run) is None
    store.execute("DELETE FROM readings WHERE case_id = ?", [sick[0]["id"]])
    run["config"]["marks"]["cases"][0] = 10**9
    assert "cannot be repeated: 1 of its cases is" in marks.repeat_problem(store, run)


def test_marks_of_a_blind_session_do_not_teach_before_it_is_closed(store, tiny_study):
    sick = cases_of(store, tiny_study, "abnormal")
    mark(store, sick[0])
    sessions.start_session(store, tiny_study, "ann", [sick[0]["id"]], blind=True)
    assert not marks.accepted(store, tiny_study)
    assert "1 case, are held back" in learnt.offered(store, tiny_study)["none"]
    with pytest.raises(ValueError, match="blind session that is still open"):
        marks.as_donors(store, tiny_study)
    sessions.end_session(store, "ann")
    assert learnt.offered(store, tiny_study)["none"] is None
    assert len(marks.accepted(store, tiny_study)) == 1


@pytest.mark.slow
def test_it_learns_beside_the_old_one_and_is_judged_on_what_it_has_not_seen(store, tiny_study, monkeypatch):
    _, base = scored_padim(store, tiny_study)
    results.evaluate_run(store, base)
    sick = cases_of(store, tiny_study, "abnormal")
    with pytest.raises(ValueError, match="no accepted mask to learn from"):
        learnt.planned(store, base)
    for case in sick[:3]:
        mark(store, case)
    store.execute("UPDATE cases SET patient = 'p' WHERE id IN (?, ?)", [sick[2]["id"], sick[3]["id"]])
    monkeypatch.setattr(learnt, "LearntConfig", quick_lessons)
    made = learnt.learn(store, base, device="cpu", start=False)
    worker.run_queue(store)
    run = runs.get_run(store, made["run"])
    assert jobs.get_job(store, made["job"])["status"] == "done" and run["status"] == "done", run
    assert run["config"]["base_run"] == base and len(run["config"]["marks"]["masks"]) == 3
    assert run["summary"]["rule"]["images"] == 3

    seen = {case["id"] for case in sick[:4]}  # the fourth is of the third's patient
    assert marks.learnt_from(store, made["run"]) == seen and not marks.learnt_from(store, base)
    kept = results.evaluations(store, tiny_study, made["run"])[0]
    assert kept["n_abnormal"] == len(sick) - 4 and kept["learnt_from"] == 4
    assert results.evaluations(store, tiny_study, base)[0]["learnt_from"] == 0
    assert not seen & set(scored(store, tiny_study, made["run"]).ids.tolist())
    assert not seen & {point["case"] for point in figures.dice_by_size(store, tiny_study, made["run"])["points"]}
    beside = run["summary"]["comparison"]
    assert beside["left_out"] == 4 and beside["cases"] == len(cases_of(store, tiny_study, "normal")) + 2
    assert beside["verdict"] == "few" and "Too few" in beside["words"]
    assert beside["measures"]["dice"]["images"] == 2

    listed = review_cases.scored_runs(store, tiny_study)
    assert listed[0]["id"] == base and listed[-1]["id"] == made["run"], "the old one stays the first"
    shown = review_cases.detail(asks(store, case_id=sick[3]["id"], run=base))["readings"]
    assert "trained on this case" in shown[made["run"]]["words"]
    assert "learnt from" not in shown[base]["words"]
    with pytest.raises(ValueError, match="has already learned from masks"):
        learnt.planned(store, made["run"])

    again = requests.repeat(store, made["run"], wake=False)
    worker.run_queue(store)
    repeated = runs.get_run(store, again["run"])
    assert jobs.get_job(store, again["job"])["status"] == "done" and repeated["status"] == "done", repeated
    assert repeated["summary"]["comparison"] == {**beside, "run": again["run"]}, "as the first: same base, same marks"


@pytest.mark.slow
def test_masks_that_are_gone_are_not_learnt_from(store, tiny_study):
    _, base = scored_padim(store, tiny_study)
    for case in cases_of(store, tiny_study, "abnormal")[:3]:
        mark(store, case)
    run = runs.get_run(store, runs.create_run(store, **learnt.planned(store, base, "ann")))
    assert marks.marks_of(store, run, 32).masks.shape == (3, 32, 32)
    store.execute("DELETE FROM lesion_masks WHERE id = ?", [run["config"]["marks"]["masks"][0]])
    with pytest.raises(ValueError, match="masks were deleted or changed"):
        marks.marks_of(store, run, 32)
    assert marks.marks_of(store, runs.get_run(store, base), 32) is None


def test_labels_are_those_of_the_import_and_else_of_most_readers(store, tiny_study):
    rows = cases_of(store, tiny_study, "normal")[:3]
    for reader, said in (("ann", "abnormal"), ("bob", "abnormal"), ("eve", "normal")):
        decide(store, rows[0]["id"], reader, said)
    decide(store, rows[1]["id"], "ann", "normal")
    ids = np.array([row["id"] for row in rows])
    got = learnt._labels(store, tiny_study, np.array(["unknown", "unknown", "unknown"]), ids)
    assert got.tolist() == [1, 0, -1]
    assert learnt._labels(store, tiny_study, np.array(["normal", "abnormal", "unknown"]), ids).tolist() == [0, 1, -1]


@pytest.mark.long
def test_a_pre_training_pastes_what_readers_marked_and_its_detectors_are_not_judged_by_it(store, tiny_study):
    wanted = {**PRETRAIN_PRESETS["quick"].to_dict(), **{"size": 32, "epochs": 1, "batch": 8}}
    wanted["medmix"] = {**wanted["medmix"], "donor": "marked+other"}
    with pytest.raises(ValueError, match="no accepted mask to learn from"):
        requests.start(store, tiny_study, wanted, wake=False)
    sick = cases_of(store, tiny_study, "abnormal")
    mark(store, sick[0])
    run = runs.get_run(store, requests.start(store, tiny_study, wanted, wake=False)["run"])
    assert run["config"]["marks"]["cases"] == [sick[0]["id"]] and runs.marks_count(run) == 1
    images, masks_of = marks.donors_of(store, run, 32)
    assert images.shape == (1, 32, 32, 3) and 0 < masks_of.sum() < 32 * 32
    mark(store, sick[1])  # later marks are not this run's
    pipeline.pretrain_run(store, run["id"])
    fit = pipeline.create_fit(store, run["id"], "padim")
    assert sick[0]["id"] in marks.learnt_from(store, fit) and sick[1]["id"] not in marks.learnt_from(store, fit)
    again = runs.get_run(store, requests.repeat(store, run["id"], wake=False)["run"])
    assert again["config"] == run["config"]
    assert requests.checked(run["config"], store).medmix.from_marks, "a run's settings fill the form"
    local = {**wanted, "objective": "pmsacl-local"}
    with pytest.raises(ValueError, match="pmsacl-local"):
        requests.checked(local)


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
    with pytest.raises(ValueError, match="In 2 cases, readers contradict each other. Such cases need adjud"):
        learnt.planned(store, base)
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
    with pytest.raises(ValueError, match="Skipped: 1 mask of a whole image"):
        learnt.planned(store, base)
    mark(store, sick[1])
    offer = learnt.offered(store, tiny_study)
    assert offer["masks"] == 1 and "With one mask the result cannot be measured" in offer["notes"][0]
    made = learnt.learn(store, base, device="cpu", start=False)
    worker.run_queue(store)
    run = runs.get_run(store, made["run"])
    assert run["status"] == "done", jobs.get_job(store, made["job"])["error"]
    rule = run["summary"]["rule"]
    assert rule["weight"] == 2.0 and rule["interval"] is None and "too few to hold one out" in rule["words"]
    assert store.query("SELECT * FROM next_marks WHERE run = ?", [made["run"]])


@pytest.mark.long
@pytest.mark.parametrize("helps", [True, False])
def test_there_is_a_result_before_the_encoder_is_fine_tuned(store, tiny_study, base, monkeypatch, helps):
    def quick(**settings):
        return quick_lessons(**{**settings, "tune_steps": 2})

    monkeypatch.setattr(learnt, "LearntConfig", quick)
    monkeypatch.setattr("core.engine.detectors.learnt.learnt.better", lambda tries: (len(tries) - 1) * helps)
    for case in cases_of(store, tiny_study, "abnormal")[:4]:
        mark(store, case)
    before = []

    def noted(*args):
        before.append(runs.get_run(store, made["run"])["summary"].get("comparison"))
        return tuned(*args)

    tuned = learnt.tuned
    monkeypatch.setattr(learnt, "tuned", noted)
    made = learnt.learn(store, base, device="cpu", start=False)
    assert learnt.learn(store, base, device="cpu", start=False) == made, "the same request is the same job"
    worker.run_queue(store)
    job = jobs.get_job(store, made["job"])
    assert job["status"] == "done", job["error"]
    assert before[0]["verdict"] == "few", "the first run was scored and compared by then"
    first, *second = [runs.get_run(store, run) for run in jobs.runs_of(job, "score")]
    assert first["id"] == made["run"] and first["config"]["tune"] == 0
    assert len(second) == helps == ("did not improve" not in str(journal.read_log(store, first["id"])))
    for run in second:
        assert run["name"] == f"{first['name']}, fine-tuned" and run["status"] == "done" and run["seconds"] > 0
        assert run["config"] == {**first["config"], "tune": quick().tune}
        assert run["summary"]["comparison"]["base"] == base == first["summary"]["comparison"]["base"]
        again = requests.repeat(store, run["id"], wake=False)
        worker.run_queue(store)
        repeated = runs.get_run(store, again["run"])["summary"]
        assert repeated["rule"]["dice"] == pytest.approx(run["summary"]["rule"]["dice"], abs=1e-3)


@pytest.mark.longest  # a worker's own process, at low priority
def test_killed_in_the_middle_nothing_is_lost_and_it_goes_on(store, tiny_study, base, monkeypatch):
    monkeypatch.setattr(learnt, "LearntConfig", lambda **settings: quick_lessons(**{**settings, "steps": 200}))
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
    assert marks.repeat_problem(store, run) is None, "it learns from the marks as they were when it was asked for"


def test_marks_that_go_meanwhile_are_named_and_the_old_one_stays(store, tiny_study, base):
    sick = cases_of(store, tiny_study, "abnormal")
    for case in sick[:3]:
        mark(store, case)
    made = [learnt.learn(store, base, device="cpu", start=False)]
    made.append(learnt.learn(store, base, reader="ann", device="cpu", start=False))
    newer = mark(store, sick[0], part=slice(2, 8))
    assert marks.repeat_problem(store, runs.get_run(store, made[0]["run"])) is None, (
        "a newer version leaves the older there"
    )
    assert newer not in runs.get_run(store, made[0]["run"])["config"]["marks"]["masks"]
    store.execute("DELETE FROM lesion_masks WHERE case_id = ?", [sick[1]["id"]])
    store.db.execute("PRAGMA foreign_keys = OFF")  # its reviews stay: no case of a study is deleted alone as yet
    store.execute("DELETE FROM cases WHERE id = ?", [sick[2]["id"]])
    store.db.execute("PRAGMA foreign_keys = ON")
    worker.run_queue(store)
    for one in made:
        job = jobs.get_job(store, one["job"])
        assert job["status"] == "failed" and "1 of its cases is no longer in the study" in job["error"]
        assert "Start a new run without them" in job["error"]
    shown = review_cases.detail(asks(store, case_id=sick[0]["id"], run=base))["readings"]
    assert set(shown) == {base}
    again = learnt.offered(store, tiny_study)
    assert again["masks"] == 1 and np.all([row["case_id"] == sick[0]["id"] for row in masks_of(store)][:1])
