"""All that the room shows beside the picture of one case, as its reader may see it."""

from __future__ import annotations

import json

from core.engine.registry import DETECTORS
from core.studio.db.store import Store
from core.studio.ingest import spacing, volumes
from core.studio.review import about, blind, decisions, findings, masks, reading_sessions, scales, tags
from core.studio.review.worklist import Query, seen_by
from core.studio.runs import certainty
from core.studio.runs.marks import learnt_from
from core.studio.runs.preferred import LEARNT, preference

LEARNT_FROM = "The detector has learnt from this case, or from one like it: this is no evidence of how well it reads."


def scored_runs(store: Store, study: str) -> list[dict]:
    """Runs with readings: [{"id", "name", "method", "created", "encoder", "title", "first"}], the default first.

    First the newest run of the default detector, else the newest of any; then the newest of each other detector.
    """
    rows = store.query(
        "SELECT f.id, f.name, f.method, f.created, p.method AS encoder FROM runs f LEFT JOIN runs p ON p.id = f.parent "
        "WHERE f.study = ? AND f.archived = 0 AND f.binned IS NULL "
        "AND EXISTS (SELECT 1 FROM readings r WHERE r.run = f.id) "
        "ORDER BY f.created DESC, f.id",
        [study],
    )
    rows.sort(key=lambda r: (r["encoder"] == "untrained", preference(r["method"])))
    seen: set[str] = set()
    for row in rows:
        row["first"] = row["method"] not in seen
        seen.add(row["method"])
        row["title"] = DETECTORS.title(row["method"])
    return rows


def reading(store: Store, case_id: int, run: str, roi: bool = True) -> dict | None:
    """Score, percentile and flag in numbers and words; None if the run has not scored the case."""
    row = store.one(
        "SELECT score, score_roi, percentile, percentile_roi, flagged, flagged_roi, map IS NOT NULL AS has_map, extra "
        "FROM readings WHERE run = ? AND case_id = ?",
        [run, case_id],
    )
    if row is None:
        return None
    end = "_roi" if roi and row["score_roi"] is not None else ""
    out = {k: row[k + end] for k in ("score", "percentile", "flagged")}
    return {
        "run": run,
        **out,
        "has_map": bool(row["has_map"]),
        "words": scales.in_words(out["percentile"], out["flagged"]),
        **certainty.described(json.loads(row["extra"])),
    }


def detail(store: Store, case_id: int, reader: str, run: str | None, runs: list[dict]) -> dict:
    """One case for the page. A blind reader who has not committed gets size and number, and nothing else."""
    case = decisions.case_row(store, case_id)
    hidden = blind.hides(store, case, reader)
    blinded = blind.applies(store, case["study"], reader)
    held = reading_sessions.open_session(store, reader, case["study"])
    out = {
        "id": case_id,
        "v": f"{case['sha256'] or ''}"[:10],
        "width": case["width"],
        "height": case["height"],
        "bits": case["bits"],
        "name": "Case" if blinded else case["name"],  # aliases.py gives the name that is shown
        "blind": hidden,
        "mine": [
            {k: r[k] for k in ("id", "decision", "comment", "created", "stage", "active")}
            for r in decisions.history(store, case_id, reader)
            if held is None or r["id"] > held["first_review"]
        ],
    }
    if hidden:
        return out
    mask_rows = masks.versions(store, case_id)
    out |= {
        "frame": case["frame"],
        "modality": case["modality"],
        "spacing": spacing.of_case(case),
        "label": case["label"],
        "split": case["split"],
        **tags.shown(case, tags.by_people(store, case["study"])),
        "readings": {r["id"]: reading(store, case_id, r["id"]) for r in runs if r["first"] or r["id"] == run},
        "masks": mask_rows,
        "findings": findings.of_case(store, case_id),
    }
    learners = {r["id"] for r in runs if r["method"] == LEARNT}
    for run_id, found in out["readings"].items():
        if found and run_id in learners and case_id in learnt_from(store, run_id):
            found["words"] = f"{found['words']} {LEARNT_FROM}"
    if not blind.neutral(store, case["study"], reader):  # patient and time of import lead to neighbours in the list
        out["about"] = about.of_case(case)
    if not blinded:
        out["others"] = store.query(
            "SELECT k.reader, k.stage, k.decision, r.comment FROM current_reviews k JOIN reviews r ON r.id = "
            "k.review_id "
            "WHERE k.case_id = ? AND k.reader != ? ORDER BY k.reader, k.stage",
            [case_id, reader],
        )
        where, values = volumes.same(case)
        here = store.query(f"SELECT count(*) AS n, min(id) AS first FROM cases WHERE {where}", values)[0]
        out |= {"frames": here["n"], "recording": here["first"]}
    return out


def timeline(store: Store, case_id: int, run: str) -> list[dict]:
    """A recording's frames in time, or a volume's slices along its normal; empty for a single image.

    [{"id", "frame", "percentile", "score", "flagged"}].
    """
    case = decisions.case_row(store, case_id)
    where, values = volumes.same(case)
    rows = store.query(
        "SELECT c.id, c.frame, coalesce(r.percentile_roi, r.percentile) AS percentile, coalesce(r.score_roi, "
        "r.score) AS score, "
        "coalesce(r.flagged_roi, r.flagged) AS flagged FROM cases c LEFT JOIN readings r ON r.run = ? AND "
        "r.case_id = c.id "
        f"WHERE {where} ORDER BY {volumes.ORDER}",
        [run, *values],
    )
    return rows if len(rows) > 1 else []


def asked(store: Store, reader: str, values: dict) -> Query:
    """A Query from the page's words; unknown ones are passed over."""

    def flag(name: str) -> bool | None:
        return {"1": True, "0": False}.get(str(values.get(name, "")))

    splits = {"test": ("test",), "holdout": ("holdout",), "all": ("test", "holdout", "train")}
    query = Query(
        study=values["study"],
        reader=reader,
        run=values.get("run") or None,
        sort=values.get("sort") or "percentile",
        descending=str(values.get("desc", "1")) != "0",
        splits=splits.get(values.get("split", "test"), ("test",)),
        flagged=flag("flagged"),
        decision=values.get("decision") or "",
        has_mask=flag("has_mask"),
        mine=flag("assigned") or False,
        tag=values.get("tag") or "",
        label=values.get("label") or "",
        text=values.get("text") or "",
    )
    return seen_by(store, query)
