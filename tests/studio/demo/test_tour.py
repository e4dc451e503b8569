"""The guided tour's study: the ready demo study is opened alone, and put back as it came without a trace elsewhere."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from core.studio.db import audit
from core.studio.demo import study as demo
from core.studio.demo import tour
from core.studio.ingest import overview, studies
from core.studio.jobs import queue as jobs
from core.studio.runs import records as runs
from core.studio.runs.pipeline import (
    chain,
    create_fit,
    create_pretrain,
    create_untrained,
    fit_run,
    pretrain_run,
    score_run,
)
from tests.conftest import ARCH, plain_folder
from tests.studio.review.conftest import add_readings, decide, save_mask

AS_NEW = {"study": "demo", "ready": True, "job": None, "found": None, "stored": None}


@pytest.fixture
def small(monkeypatch):
    """A small study, whose first look is not taken: the studies that it was asked for."""
    looked = []
    monkeypatch.setattr(tour, "look", lambda store, study, device, start: looked.append(study))
    return looked


@pytest.mark.slow
def test_an_empty_home_gets_the_ready_study_and_one_without_runs_gets_a_first_look(store, small, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "offer", lambda store, device: asked.append(device))
    asked: list[str] = []
    tour.prepare(store, "cpu", wake=False)
    assert asked == ["cpu"] and small == []
    studies.import_study(store, "demo", plain_folder(tmp_path / "demo", 12, 3, 3))
    assert tour.state(store) == AS_NEW and runs.list_runs(store) == []
    report = overview.overview(store, "demo")["report"]
    assert report["accepted"] == 18 and report["rejected"] == []
    tour.prepare(store, "cpu", wake=False)
    assert small == ["demo"]


@pytest.mark.slow
def test_the_clearest_lesion_is_found_and_the_first_look_outlives_a_reset(store, small, tmp_path):
    studies.import_study(store, "demo", plain_folder(tmp_path / "demo", 12, 3, 3))
    encoder = create_untrained(store, "demo", 32, arch=ARCH)
    looked = create_fit(store, encoder, "padim", {"channels": 20}, name="First look")
    pretrain_run(store, encoder, "cpu")
    fit_run(store, looked, "cpu")
    score_run(store, looked, "cpu")
    query = (
        "SELECT case_id FROM readings r JOIN cases c ON c.id = r.case_id WHERE label = 'abnormal' ORDER BY score_roi"
    )
    clearest = store.query(query)[-1]["case_id"]
    assert tour.found(store) == clearest
    tour.prepare(store, "cpu", wake=False)
    assert small == [], "there are results"
    create_pretrain(store, "demo", {"size": 32})
    assert tour.reset(store, "ann")["found"] == clearest
    assert {r["id"] for r in runs.list_runs(store)} == {encoder, looked}


def rows(store, study: str) -> dict:
    """All that the store and the disk hold of a study, as fingerprints."""
    here = f"(SELECT id FROM cases WHERE study = '{study}')"
    where = {
        "studies": f"id = '{study}'", "cases": f"study = '{study}'", "runs": f"study = '{study}'",
        "reviews": f"case_id IN {here}", "lesion_masks": f"case_id IN {here}", "readings": f"case_id IN {here}",
        "findings": f"case_id IN {here}", "evaluations": f"study = '{study}'",
    }  # fmt: skip
    found = {}
    for table, condition in where.items():
        found[table] = hashlib.sha256(
            repr(store.query(f"SELECT * FROM {table} WHERE {condition}")).encode()
        ).hexdigest()
    for row in store.query("SELECT folder FROM runs WHERE study = ?", [study]):
        for file in sorted((store.home.path / row["folder"]).rglob("*")):
            if file.is_file():
                found[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def used(store, study: str) -> None:
    """A study as somebody leaves it: trained, scored, reviewed, a mask redrawn, tagged."""
    encoder = create_untrained(store, study, 32, arch=ARCH)
    pretrain_run(store, encoder, "cpu")
    fit = create_fit(store, encoder, "padim")
    fit_run(store, fit, "cpu")
    score_run(store, fit, "cpu")
    case = store.one(
        "SELECT case_id AS id FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE study = ?", [study]
    )
    decide(store, case["id"], "ann", "abnormal", comment="seen")
    size = store.one("SELECT width, height FROM cases WHERE id = ?", [case["id"]])
    drawn = np.zeros((size["height"], size["width"]), np.uint8)
    drawn[4:9, 4:9] = 1
    save_mask(store, case["id"], drawn, "ann")
    store.execute("INSERT INTO mask_drafts VALUES (?, 'ann', x'00', '')", [case["id"]])
    store.execute("UPDATE cases SET tags = ? WHERE id = ?", [json.dumps(["odd"]), case["id"]])
    store.set_setting(f"blind:{study}", True)


def test_what_a_reader_said_is_held_against_the_machine_and_the_drawn_truth(store, tiny_study, monkeypatch):
    monkeypatch.setattr(tour, "STUDY", tiny_study)
    run = add_readings(store, tiny_study, "padim")
    assert tour.agreement(store, "ann") == {"read": 0, "machine": 0, "truth": 0, "missed": 0}
    cases = store.query(
        "SELECT c.id, c.label = 'abnormal' AS truth FROM cases c JOIN readings r "
        "ON r.case_id = c.id AND r.run = ? WHERE c.split = 'test' ORDER BY c.id",
        [run],
    )
    for place, case in enumerate(cases):
        store.execute(
            "UPDATE readings SET flagged_roi = ? WHERE case_id = ?", [case["truth"] and place % 2, case["id"]]
        )
        decide(store, case["id"], "ann", "abnormal" if case["truth"] else "normal")
    missed = sum(case["truth"] and not place % 2 for place, case in enumerate(cases))
    right = {"read": len(cases), "machine": len(cases) - missed, "truth": len(cases), "missed": missed}
    assert tour.agreement(store, "ann") == right and missed
    decide(store, cases[0]["id"], "ann", "normal" if cases[0]["truth"] else "abnormal")  # a change of mind counts
    assert tour.agreement(store, "ann")["truth"] == len(cases) - 1
    decide(store, cases[0]["id"], "ann", "unsure")
    assert tour.agreement(store, "ann")["read"] == len(cases) - 1


@pytest.mark.slow
def test_reset_puts_the_demo_back_and_touches_nothing_else(store, small, tmp_path):
    plain_folder(tmp_path / "own", 8, 2, 2)
    studies.import_study(store, "own", tmp_path / "own")
    studies.import_study(store, "demo", plain_folder(tmp_path / "demo", 12, 3, 3))
    imported = rows(store, "demo")
    for study in ("own", "demo"):
        used(store, study)
    waiting = create_pretrain(store, "demo", {"size": 32})
    job = jobs.submit(store, chain(waiting), start=False)
    before = rows(store, "own")
    assert tour.reset(store, "ann") == AS_NEW
    assert {r["study"] for r in store.query("SELECT study FROM mask_drafts JOIN cases ON id = case_id")} == {"own"}
    assert rows(store, "own") == before
    after = rows(store, "demo")
    same = ("studies", "cases", "runs", "readings", "findings", "evaluations")
    assert {k: after[k] for k in same} == {k: imported[k] for k in same}
    assert jobs.get_job(store, job)["status"] == "cancelled"
    assert store.one("SELECT count(*) AS n FROM current_reviews k JOIN cases c ON c.id = k.case_id "
                     "WHERE c.study = 'demo'")["n"] == 0  # fmt: skip
    assert len(store.query("SELECT 1 FROM reviews")) == 2, "taken back, not deleted"
    changed = store.one("SELECT case_id FROM lesion_masks WHERE source = 'hand' ORDER BY id DESC LIMIT 1")["case_id"]
    pngs = [r["png"] for r in store.query("SELECT png FROM lesion_masks WHERE case_id = ? ORDER BY version", [changed])]
    assert len(pngs) == 3 and pngs[0] == pngs[2] != pngs[1]
    assert not store.setting("blind:demo", False) and store.setting("blind:own")
    assert audit.verify(store)["ok"] and audit.trail(store, "demo")[0]["kind"] == "reset"


@pytest.mark.slow
def test_reset_waits_for_the_worker_and_says_when_it_does_not_leave(store, small, tmp_path):
    studies.import_study(store, "demo", plain_folder(tmp_path / "demo", 12, 3, 3))
    run = create_pretrain(store, "demo", {"size": 32})
    jobs.submit(store, chain(run), start=False)
    jobs.claim(store)  # by this very process, which does not stop
    with pytest.raises(ValueError, match="Press Reset again"):
        tour.reset(store, "ann", seconds=0.3)
    assert runs.exists(store, run)


def test_the_verb_opens_the_tour_and_asks_for_the_ready_study(store, monkeypatch, capsys):
    import app.commands.page
    import app.server
    from app.commands import main

    opened = []
    monkeypatch.setattr(
        app.server, "serve", lambda home, host, port, single, ready, *rest: ready("http://127.0.0.1:7860/")
    )
    monkeypatch.setattr(app.commands.page, "_until_up", lambda url: None)
    monkeypatch.setattr(app.commands.page.webbrowser, "open", opened.append)
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: None)
    assert main(["demo", "--show", "--json", "--home", str(store.home.path)]) == 0
    answer = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert answer["url"] == "http://127.0.0.1:7860/tour"
    [job] = jobs.list_jobs(store, "queued")
    assert [s["step"] for s in job["chain"]] == ["weights", "weights"] and tour.state(store)["found"]
