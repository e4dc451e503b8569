"""Matching lesions of a study: the job, its preset, the verb, and that matched cases count in no figure."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
import yaml

from app.commands import main
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.progress import Stopped
from core.studio.db.limits import TooMuch
from core.studio.db.store import NotFound
from core.studio.ingest import uploads
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import Work, load_step
from core.studio.medmix import match, presets
from core.studio.runs import marks, pipeline
from core.studio.runs import records as runs
from tests.engine.augment.test_matching import colours

SMALL = PRETRAIN_PRESETS["quick"].replace(size=32, batch=2, epochs=1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch, no_worker):
    monkeypatch.setattr(match, "imagenet_features", lambda: colours)
    monkeypatch.setattr(match, "NORMALS", 6)


def cases(store, study: str, count: int) -> tuple[int, ...]:
    return tuple(row["case"] for row in match.offered(store, study)[:count])


def worked(store, study: str, count: int = 4, should_stop=lambda: False, **asked) -> str:
    """A search for lesions of a study, done by this process; its id."""
    begun = match.begin(
        store, match.MatchRequest(study, cases(store, study, count), **{"tries": 6, **asked}), start=False
    )
    load_step("match")(Work(store, "", {"match": begun["match"]}, should_stop=should_stop))
    return begun["match"]


@pytest.mark.long
def test_what_is_found_becomes_a_preset_with_its_origin(store, tiny_study):
    found = worked(store, tiny_study)
    state = match.get(store, found)["state"]
    assert state["done"] and state["tries"] == 6 and state["after"] <= state["before"]
    assert state["history"][-1][1] == pytest.approx(min(row[1] for row in state["history"]))
    preset = match.save(store, found, "mine", "ann")
    assert len(preset["config"]["matched"]) == 4 and "Matched to 4 lesions" in preset["note"]
    assert presets.get_preset(store, "mine")["version"] == 1
    text = json.dumps(match.as_json(store, found, "mine"))
    read = presets.from_yaml(text)["config"]
    assert json.dumps(read) == json.dumps(preset["config"]), "the export is read as any preset's file"
    origin = yaml.safe_load(text)["origin"]
    assert len(origin["lesions"]) == 4 and "ImageNet" in origin["encoder"] and origin["left_out"] is not None


@pytest.mark.long
def test_cancelled_it_keeps_the_best_and_resumed_it_goes_on_from_there(store, tiny_study):
    looks = iter([False] * 3 + [True] * 100)
    with pytest.raises(Stopped):
        worked(store, tiny_study, should_stop=lambda: next(looks), tries=None, seconds=600)
    (row,) = store.query("SELECT id FROM matches")
    state = match.get(store, row["id"])["state"]
    assert not state["done"] and 1 <= state["tries"] < 8
    assert len(match.save(store, row["id"], "half")["config"]["matched"]) == 4
    store.execute("UPDATE matches SET asked = json_set(asked, '$.tries', 3) WHERE id = ?", [row["id"]])
    load_step("match")(Work(store, "", {"match": row["id"]}))
    again = match.get(store, row["id"])["state"]
    assert again["done"] and again["seconds"] > state["seconds"] and again["after"] <= state["before"]


@pytest.mark.long
def test_matched_cases_count_in_no_figure_of_a_run_with_the_preset(store, tiny_study, tmp_path):
    found = worked(store, tiny_study, 2)
    matched = set(cases(store, tiny_study, 2))
    config = presets.checked("medmix", match.save(store, found, "mine")["config"] | {"aspect": 1.5})  # changed by hand
    run = pipeline.create_pretrain(store, tiny_study, SMALL.replace(medmix=config))
    fit = pipeline.create_fit(store, run, "nearest")
    for one in (run, fit, runs.clone_run(store, run)):
        assert marks.learnt_from(store, one) == matched
    ids = np.array([r["id"] for r in store.query("SELECT id FROM cases WHERE study = ?", [tiny_study])])
    assert set(ids[~marks.unseen(store, fit, ids)].tolist()) == matched
    plain = pipeline.create_pretrain(store, tiny_study, SMALL)
    assert not marks.learnt_from(store, plain)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cases": ()}, "choose 1 to 20"),
        ({"cases": (1, 1)}, "choose 1 to 20"),
        ({"cases": tuple(range(1, 22))}, "choose 1 to 20"),
        ({"cases": (1,)}, "case 1 has no reference or accepted mask"),
        ({"cases": (999,)}, "case 999 has no"),
        ({"seconds": 0}, "1 to 3600 seconds"),
        ({"seconds": float("nan")}, "1 to 3600 seconds"),
        ({"study": "none"}, "none"),
    ],
)
def test_what_cannot_be_asked_for_is_said(store, tiny_study, change, words):
    asked = {"study": tiny_study, "cases": cases(store, tiny_study, 2)} | change
    with pytest.raises(ValueError, match=words):
        match.begin(store, match.MatchRequest(**asked), start=False)
    assert not store.query("SELECT 1 FROM matches") and not jobs.list_jobs(store)


def test_asked_for_twice_it_is_one_job_and_nothing_is_saved_before_the_first_try(store, tiny_study):
    asked = match.MatchRequest(tiny_study, cases(store, tiny_study, 2))
    one, two = (match.begin(store, asked, start=False) for _ in range(2))
    assert one == two and len(store.query("SELECT 1 FROM matches")) == 1
    with pytest.raises(ValueError, match="has no result yet"):
        match.save(store, one["match"], "mine")
    with pytest.raises(ValueError, match="unknown match"):
        match.get(store, "none")


def test_lesions_of_a_case_in_an_open_blind_session_are_not_offered(store, tiny_study):
    first = cases(store, tiny_study, 6)
    assert len(first) == 6 and {row["kind"] for row in match.offered(store, tiny_study)} == {"reference"}
    with store.write() as db:
        session = db.table("reading_sessions").insert(
            {
                "study": tiny_study,
                "reader": "ann",
                "blind": 1,
                "neutral": 0,
                "shuffled": 0,
                "choice": "{}",
                "first_review": 0,
                "created": "2026-01-01",
            }
        )  # fmt: skip
        db.table("reading_session_cases").insert({"session": session.last_rowid, "case_id": first[0], "position": 0})
    assert cases(store, tiny_study, 6) == first[1:]


@pytest.mark.long
def test_the_verb_saves_a_preset_that_a_training_takes(store, tiny_study, tmp_path, capsys, monkeypatch):
    from app.commands import training

    def here(args, store, job, title):
        row = jobs.get_job(store, job)
        load_step("match")(Work(store, "", row["chain"][0]["args"]))
        return row

    monkeypatch.setattr(training, "follow", here)
    line = ["medmix", "match", tiny_study, "--lesions", "5", "--tries", "6", "--name", "polyps"]
    out = tmp_path / "polyps.json"
    assert main([*line, "--out", str(out), "--home", str(store.home.path), "--json"]) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out.strip().splitlines()[-1])
    assert answer["origin"]["lesions"] == json.loads(out.read_text())["origin"]["lesions"]
    assert len(answer["origin"]["lesions"]) == 5 and "on held-out lesions" in said.err
    name = answer["origin"]["lesions"][0]
    assert main([*line, "--case", name, "--home", str(store.home.path)]) == 0
    assert "other lesions is unknown" in capsys.readouterr().out
    assert main([*line, "--case", "none.png", "--home", str(store.home.path)]) == 2
    monkeypatch.setattr(training, "follow", lambda *given: None)
    monkeypatch.setattr(training, "_pretrain_done", lambda *given: 0)
    train = ["pretrain", tiny_study, "--preset", "quick", "--medmix", "polyps", "--home", str(store.home.path)]
    assert main(train) == 0
    (run,) = runs.list_runs(store, tiny_study, "pretrain")
    assert len(run["config"]["medmix"]["matched"]) == 1


OUTLINES = {
    "a lesion": ((0.3, 0.3), (0.6, 0.3), (0.6, 0.7), (0.3, 0.7)),
    "over the border": ((-0.5, 0.2), (0.3, 0.2), (0.3, 1.7)),
    "the whole": ((0, 0), (1, 0), (1, 1), (0, 1)),
}


def drop(store, image: np.ndarray, name: str = "mine.png") -> str:
    """An image that was dropped on the page; its token."""
    token = uploads.new_drop(store.home)
    cv2.imwrite(str(uploads.place(store.home, token, name)), image)
    return token


@pytest.mark.long
@pytest.mark.parametrize("outline", OUTLINES.values(), ids=list(OUTLINES))
def test_a_lesion_outlined_on_a_dropped_image_is_matched_and_only_its_outline_is_stored(store, tiny_study, outline):
    image = np.random.default_rng(0).integers(60, 200, (50, 80, 3), np.uint8)
    token = drop(store, image, "DOE_JANE.png")
    drawn = match.outlined(store.home, token, "DOE_JANE.png", outline)
    begun = match.begin(store, match.MatchRequest(tiny_study, (), tries=2, drawn=(drawn,)), start=False)
    load_step("match")(Work(store, "", {"match": begun["match"]}))
    found = match.get(store, begun["match"])
    assert found["asked"] == match.MatchRequest(tiny_study, (), tries=2, drawn=(drawn,)) and found["state"]["done"]
    assert found["state"]["config"]["matched"] == [drawn.sha256] and "Matched to 1 lesion:" in found["state"]["note"]
    assert match.as_json(store, begun["match"], "mine")["origin"]["outlined"] == [drawn.sha256]
    row = store.first("SELECT * FROM matches")
    assert "DOE_JANE" not in json.dumps(row), "names and pixels of what is dropped are not kept"


def test_a_dropped_image_that_is_gone_is_asked_for_again(store, tiny_study):
    token = drop(store, np.full((40, 40, 3), 90, np.uint8))
    drawn = match.outlined(store.home, token, "mine.png", OUTLINES["a lesion"])
    both = match.MatchRequest(tiny_study, cases(store, tiny_study, 2), drawn=(drawn,))
    begun = match.begin(store, both, start=False)
    uploads.discard(store.home, token)
    with pytest.raises(ValueError, match="drop it again"):
        load_step("match")(Work(store, "", {"match": begun["match"]}))
    with pytest.raises(ValueError, match="different lesions"):
        match.MatchRequest(tiny_study, (), drawn=(drawn, drawn))


@pytest.mark.parametrize("outline", [(), ((0.1, 0.1), (0.2, 0.2)), ((2, 2), (3, 2), (3, 3)), ((0.5, 0.5),) * 3])
def test_an_outline_round_nothing_is_refused(store, outline):
    token = drop(store, np.full((40, 40, 3), 90, np.uint8))
    with pytest.raises(ValueError, match="encloses nothing"):
        match.outlined(store.home, token, "mine.png", outline)


@pytest.mark.parametrize("name", ["none.png", "folder", "../studio.sqlite", "."])
def test_an_outline_on_a_file_that_was_not_dropped_is_refused(store, name):
    token = drop(store, np.full((40, 40, 3), 90, np.uint8), "folder/mine.png")
    with pytest.raises(uploads.BadDrop):
        match.outlined(store.home, token, name, OUTLINES["a lesion"])


def test_a_patch_is_shown_of_what_is_offered_alone(store, tiny_study):
    (first,) = cases(store, tiny_study, 1)
    assert match.patch(store, tiny_study, first).shape == (64, 64, 3)
    normal = store.first("SELECT id FROM cases WHERE label = 'normal'")["id"]
    for case in (normal, 999):
        with pytest.raises(NotFound, match="no lesion"):
            match.patch(store, tiny_study, case)


def test_searches_that_wait_are_few_and_old_ones_make_room(store, tiny_study, monkeypatch):
    monkeypatch.setattr(match, "KEPT", 5)
    last = ""
    for seed in range(12):
        if seed % 3 == 0:
            store.execute("UPDATE jobs SET status = 'done'")
        asked = match.MatchRequest(tiny_study, cases(store, tiny_study, 1), seed=seed)
        last = match.begin(store, asked, start=False)["match"]
    with pytest.raises(TooMuch, match="searches"):
        match.begin(store, match.MatchRequest(tiny_study, cases(store, tiny_study, 2)), start=False)
    assert store.first("SELECT count(*) AS n FROM matches")["n"] == 5 and match.latest(store, tiny_study) == last
