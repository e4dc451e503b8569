"""What is being made, stage by stage, and how long it still takes."""

from __future__ import annotations

import time

import pytest

from core.studio.db.store import now
from core.studio.demo import study as demo
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.jobs import times
from core.studio.runs import records as runs
from core.studio.runs.look import look
from core.studio.training import estimate, live, plan
from core.studio.training import requests as training


@pytest.fixture
def chain(store, run, monkeypatch):
    """Job and runs of a training with PaDiM after it, claimed by this process."""
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: [])
    config = runs.get_run(store, run)["config"]
    made = training.start(store, "tiny", config, "mine", {"padim": {}}, wake=False)
    assert jobs.claim(store, "long")["id"] == made["job"]
    return made


def ago(store, job: int, seconds: float, share: float) -> None:
    """As if the job's present step had begun `seconds` ago and `share` of it were done."""
    noted = times.begin(store, jobs.get_job(store, job))
    store.execute("UPDATE step_times SET began = ? WHERE id = ?", [time.time() - seconds, noted])
    row = jobs.get_job(store, job)
    jobs.progress(store, job, (row["position"] + share) / len(row["chain"]), "")


def test_stages_follow_the_job_and_say_what_is_left(store, chain):
    ago(store, chain["job"], 30, 0.25)
    now = plan.plan(store, "tiny")
    steps = live.total_steps(store, runs.get_run(store, chain["run"]))["steps"]
    assert [(s["title"], s["state"]) for s in now["stages"]] == [
        (f"Train an encoder, {steps} steps", "running"),
        ("PaDiM: fit and score", "waiting"),
    ]
    training_left = now["stages"][0]["left"]
    assert training_left == pytest.approx(90, rel=0.1), "a quarter took 30 s"
    assert now["left"] == pytest.approx(training_left + now["stages"][1]["left"], abs=0.2)
    jobs.advance(store, chain["job"])
    states = [s["state"] for s in plan.plan(store, "tiny")["stages"]]
    assert states == ["done", "running"]
    assert not now["scored"] and now["jobs"] == [chain["job"]]
    jobs.cancel(store, chain["job"])
    jobs.end(store, chain["job"], "cancelled")
    assert plan.plan(store, "tiny")["stages"] == [], "nothing is to do any more"


@pytest.mark.parametrize("share", (0.0, 0.02, 0.3, 0.97))
@pytest.mark.parametrize("steps", range(4))
def test_a_training_has_one_percentage_and_one_duration(store, chain, steps, share):
    """The bar, the list of runs, the run's own page and the plan say the same of the run that is at work."""
    for _ in range(steps):
        jobs.advance(store, chain["job"])
    ago(store, chain["job"], 30, share)
    at_work = jobs.get_job(store, chain["job"])["run"]
    stage = next(s for s in plan.plan(store, "tiny")["stages"] if s["state"] == "running")
    listed = next(row for row in live.overview(store, "tiny") if row["id"] == at_work)
    detail = live.detail(store, live.Alarms(store), at_work)
    bar = live.live_status(store)["job"]
    assert bar["share"] == listed["job"]["share"] == detail["job"]["share"] == stage["share"]
    assert listed["left"] == pytest.approx(stage["left"], abs=0.3) == detail["left"]


def test_it_is_scored_when_the_cases_to_be_read_all_are(store, chain):
    fit = next(one["run"] for one in chain_of(store, chain["job"]) if one["step"] == "score")
    for split in ("holdout", "test"):
        case = store.first("SELECT id FROM cases WHERE study = 'tiny' AND split = ?", [split])["id"]
        row = {"run": fit, "case_id": case, "score": 1.0, "percentile": 50.0, "created": now()}
        with store.write() as db:
            db.table("readings").insert(row)
        assert not plan.plan(store, "tiny")["scored"], "the others are still to come"
    while chain_of(store, chain["job"])[0]["step"] != "evaluate":
        assert not plan.plan(store, "tiny")["scored"]
        jobs.advance(store, chain["job"])
    assert plan.plan(store, "tiny")["scored"]


def chain_of(store, job: int) -> list[dict]:
    """What is left of it."""
    row = jobs.get_job(store, job)
    return row["chain"][row["position"] :]


def test_a_machine_that_was_slow_is_expected_to_stay_so(store, chain):
    before = estimate.Estimate(store)
    usual = before.steps(jobs.get_job(store, chain["job"]))
    assert before.slower == 1.0
    row = jobs.get_job(store, chain["job"])
    noted = times.begin(store, row)
    seconds = 6 * usual[0]
    store.execute("UPDATE step_times SET began = ?, seconds = ? WHERE id = ?", [time.time() - seconds, seconds, noted])
    jobs.advance(store, chain["job"])
    after = estimate.Estimate(store)
    assert after.slower == pytest.approx(6, rel=0.01)
    left = after.steps(jobs.get_job(store, chain["job"]))
    assert left[0] == 0 and left[1] == pytest.approx(6 * usual[1], rel=0.05)
    assert estimate.first_look(store, "tiny") > 10


def test_what_goes_first_is_in_the_time_left_and_the_demo_is_not(store, chain, tiny_folder):
    first = plan.plan(store, "tiny")["left"]
    import_study(store, "own", tiny_folder)
    looked = look(store, "own", "cpu", start=False)
    alone = sum(estimate.Estimate(store).steps(jobs.get_job(store, looked["job"])))
    now = plan.plan(store, "own")
    before, *rest = now["stages"]
    assert (before["title"], before["state"]) == ("Other jobs, which run first", "running")
    assert before["left"] == pytest.approx(first, abs=1) and now["left"] == pytest.approx(first + alone, abs=1)
    assert rest and now["jobs"] == [looked["job"]]
    # What gives way, as the demo's training does, is not waited for, and waits itself for both.
    look(store, "tiny", "cpu", start=False, **demo.BEHIND)
    assert plan.plan(store, "own")["left"] == pytest.approx(now["left"], abs=1)
    other = next(s for s in plan.plan(store, "tiny")["stages"] if s["title"] == "Other jobs, which run first")
    assert other["left"] == pytest.approx(alone, abs=1)
