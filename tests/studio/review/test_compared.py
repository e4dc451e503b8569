"""Scored runs side by side on the Results page."""

from __future__ import annotations

from core.studio.db.store import now
from core.studio.review.cases import scored_runs
from core.studio.review.results import compared
from core.studio.runs import records as runs
from core.studio.runs.results import BASELINE, keep_row


def row(detector, run, roi, auroc, **more):
    of = {"detector": detector, "run": run, "roi": roi, "protocol": "held-out", "masks": "reference", "set": "a"}
    return {**of, "cases": 12, "auroc": auroc, **more}


def test_rows_are_those_of_the_region_asked_for_and_the_best_is_marked(store, tiny_study):
    parent = runs.create_run(store, tiny_study, "pretrain", "pmsacl", {"size": 32})
    case = store.one("SELECT id FROM cases WHERE study = ?", [tiny_study])["id"]
    made = {m: runs.create_run(store, tiny_study, "fit", m, {}, parent=parent) for m in ("padim", "igd", "lesion-head")}
    for day, run in enumerate(made.values(), 1):
        store.execute("UPDATE runs SET created = ? WHERE id = ?", [f"2026-01-0{day}", run])
        store.execute("INSERT INTO readings (run, case_id, score, created) VALUES (?, ?, 1, ?)", [run, case, now()])
    keep_row(store, tiny_study, made["padim"], row("padim", made["padim"], True, 0.9, auroc_ci=[0.8, 0.95], pro=0.2))
    keep_row(store, tiny_study, made["padim"], row("padim", made["padim"], False, 0.1))
    keep_row(store, tiny_study, made["lesion-head"], row("lesion-head", made["lesion-head"], True, 0.8, pro=0.5))
    keep_row(store, tiny_study, None, row(BASELINE, None, True, 0.6))
    listed = scored_runs(store, tiny_study)
    found = compared(store, tiny_study, listed)
    assert [r["run"] for r in found] == [made["lesion-head"], made["igd"], made["padim"], None]
    assert [r["auroc"] for r in found] == [0.8, None, 0.9, 0.6]
    assert [r["best"] for r in found] == [["pro"], [], ["auroc"], []]
    assert found[2]["auroc_ci"] == [0.8, 0.95] and found[2]["encoder"] == "pmsacl"
    assert [r["auroc"] for r in compared(store, tiny_study, listed, roi=False)] == [None, None, 0.1]
