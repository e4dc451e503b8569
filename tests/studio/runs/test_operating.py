"""One operating point for a run: the last act decides, flags follow it, and the audit trail has it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from core.studio.review import results
from core.studio.review.exports.tables import export_csv, export_scores
from core.studio.review.worklist import Query
from core.studio.runs import operating
from core.studio.runs.operating import OperatingPoint
from tests.studio.review.conftest import STUDY, add_readings, decide, drawn_home, list_of


@pytest.fixture
def scored(tmp_path):
    """(store, run) of a study whose run has read every case."""
    with drawn_home(tmp_path, 6, 8, 8) as home:
        yield home


def flags(store, run: str) -> list[int]:
    (ids,) = store.columns("SELECT case_id FROM readings WHERE run = ? AND flagged_roi = 1 ORDER BY case_id", [run])
    return list(ids)


def put(store, run: str, source: str, threshold: float | None, labels: bool = False) -> OperatingPoint:
    return operating.choose(store, STUDY, run, source, threshold, "ann", labels)


@pytest.mark.parametrize("seed", range(6))
def test_the_last_act_wins_whatever_came_before(scored, seed):
    store, run = scored
    rng, usual = np.random.default_rng(seed), flags(store, run)
    (scores,) = store.columns("SELECT coalesce(score_roi, score) FROM readings WHERE run = ?", [run])
    assert operating.in_effect(store, run)[run] == OperatingPoint()
    acts = []
    for source in rng.choice(list(operating.SOURCES), 8):
        threshold = None if source == "default" else float(rng.choice(scores))
        point = put(store, run, source, threshold, labels=source == "dragged")
        acts.insert(0, point)
        assert operating.in_effect(store, run)[run] == point and operating.SOURCES[source] in point.words
        wanted = len(usual) if threshold is None else (np.array(scores) > threshold).sum()
        assert len(flags(store, run)) == wanted
    assert operating.history(store, run) == acts


def test_choose_unknown_source_or_threshold(scored):
    store, run = scored
    for source, threshold in (("promise", 0.5), ("default", 0.5), ("dragged", None), ("limit", None)):
        with pytest.raises(ValueError, match="operating point"):
            put(store, run, source, threshold)


def test_worklist_words_and_audit_trail_follow(scored):
    store, run = scored
    (scores,) = store.columns("SELECT coalesce(score_roi, score) FROM readings WHERE run = ?", [run])
    put(store, run, "dragged", float(np.median(scores)), labels=True)
    flagged = list_of(store, Query(flagged=True, splits=("test", "holdout")), study=STUDY, run=run).page()["rows"]
    assert sorted(r["id"] for r in flagged) == flags(store, run)
    event = store.first("SELECT who, kind, before, after FROM events ORDER BY id DESC LIMIT 1")
    after = json.loads(event["after"])
    assert (event["who"], event["kind"]) == ("ann", "operating-point")
    assert json.loads(event["before"])["source"] == "default" and after["source"] == "dragged" and after["labels"]
    point = operating.in_effect(store, run)[run]
    assert "chosen score" in point.words and "with the labels visible" in point.words
    figures = results.operating_point(store, STUDY, run)
    assert figures["tp"] + figures["fp"] == len([i for i in flags(store, run) if i in _tests(store)])
    assert "promise" not in results.verdict({"id": run, "title": "PaDiM"}, figures, point)["words"]


def _tests(store) -> list[int]:
    return store.columns("SELECT id FROM cases WHERE split = 'test'")[0]


def test_each_place_of_the_curve_flags_what_it_says(scored):
    store, run = scored
    figures = results.operating_point(store, STUDY, run)
    for (fpr, tpr), cut in zip(figures["roc"], figures["cuts"], strict=True):
        put(store, run, "dragged", cut)
        assert results.operating_point(store, STUDY, run)["point"] == pytest.approx([fpr, tpr])


def test_a_threshold_is_learnt_from_decisions(scored):
    store, run = scored
    read = results.scored(store, STUDY, run).test
    with pytest.raises(ValueError, match="some abnormal"):
        results.learnt_threshold(read, *results.truth_of(store, STUDY, read, "readers"))
    for case in read.ids[:5]:
        decide(store, int(case), "ann", "abnormal")
    for case in read.ids[5:9]:
        decide(store, int(case), "ann", "normal")
    threshold = results.learnt_threshold(read, *results.truth_of(store, STUDY, read, "readers"))
    assert read.scores[5] < threshold < read.scores[4]


def test_exports_have_scores_of_decisions_that_knew_no_run_and_of_all_cases(scored, tmp_path):
    store, run = scored
    decide(store, _tests(store)[0], "ann", "abnormal")
    export_csv(store, STUDY, tmp_path / "decisions.csv", "ann")
    (row,) = csv.DictReader((tmp_path / "decisions.csv").open(encoding="utf-8"))
    assert row["run"] == run and float(row["score"]) > 0 and row["flagged"] in ("0", "1")
    other = add_readings(store, STUDY, "lesion-head", seed=1)
    put(store, other, "dragged", 0.4)
    export_scores(store, STUDY, tmp_path / "scores.csv", "ann")
    rows = list(csv.DictReader((tmp_path / "scores.csv").open(encoding="utf-8")))
    assert len(rows) == store.first("SELECT count(*) AS n FROM readings")["n"]
    assert {r["run"]: r["operating_point"] for r in rows} == {run: "default", other: "dragged"}
    assert all(r["case"].startswith("case-") for r in rows)
