"""Data that the page shows about a case: file, tags, results of runs, decisions and masks."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from core.engine.registry import DETECTORS
from core.studio.db import audit
from core.studio.db.store import Row, Store
from core.studio.ingest import dicom, video, volumes
from core.studio.ingest.records import name_shown
from core.studio.review import decisions, masks
from core.studio.review.context import RequestContext
from core.studio.runs import certainty, preferred
from core.studio.runs.marks import learnt_from
from core.studio.runs.operating import FLAG_PERCENTILE, OperatingPoint, in_effect
from core.studio.runs.preferred import LEARNT, preference
from core.studio.runs.readings import NOT_JUDGED, stored_map

LONGEST = 60


def clean_tag(name: str) -> str:
    """Returns a tag without surplus spaces. Raises ValueError unless it has 1 to LONGEST characters and no comma."""
    name = " ".join(name.split())
    if not name or len(name) > LONGEST or "," in name:
        raise ValueError(f"A tag has 1 to {LONGEST} characters and no comma.")
    return name


def change_tag(store: Store, study: str, cases: Iterable[int], name: str, by: str, remove: bool = False) -> int:
    """Adds a tag to cases of a study, or removes the tag if `remove` is set; returns the number of changed cases."""
    name = clean_tag(name)
    changed = []
    with store.write() as db:
        people_tags = tags_by_people(store, study)
        case_ids = json.dumps(list(cases))
        rows = store.query(
            "SELECT c.id, c.tags FROM json_each(?) j CROSS JOIN cases c ON c.id = j.value AND c.study = ?",
            [case_ids, study],
        )
        for row in rows:
            before = set(json.loads(row["tags"]))
            after = before - {name} if remove else before | {name}
            if after != before:
                db.execute("UPDATE cases SET tags = ? WHERE id = ?", [json.dumps(sorted(after)), row["id"]])
                changed.append(row["id"])
        if changed and not remove and name not in people_tags:
            store.set_setting(f"tags:{study}", sorted(people_tags | {name}))
        if changed:
            audit.record(store, by, "untag" if remove else "tag", study=study, after={"tag": name, "cases": changed})
    return len(changed)


def tags_of_study(store: Store, study: str, splits: tuple[str, ...]) -> list[dict]:
    """Counts the cases with each tag in the given splits of a study. Returns [{"tag", "cases"}], sorted by tag."""
    marks = ", ".join("?" * len(splits))
    return store.query(
        "SELECT t.tag, count(*) AS cases FROM cases c JOIN case_tags t ON t.case_id = c.id "
        f"WHERE c.study = ? AND c.split IN ({marks}) GROUP BY t.tag ORDER BY t.tag",
        [study, *splits],
    )


def tags_by_people(store: Store, study: str) -> set[str]:
    """Returns the tags that people have added to cases of the study; all other tags come from the import."""
    return set(store.setting(f"tags:{study}", []))


def tags_shown(case: Mapping[str, Any], people: Set[str]) -> dict:
    """Returns the tags of a case as {"tags": all tags, "kinds": tags from the import, which may reveal the diagnosis}.

    people: Result of `tags_by_people` for the study.
    """
    tags = json.loads(case["tags"])
    return {"tags": tags, "kinds": [tag for tag in tags if tag not in people]}


KEY = 8  # displayed characters of a patient's key
_NAMES = {"JPG": "JPEG", "TIF": "TIFF", "DCM": "DICOM", "IMA": "DICOM"}  # suffix: format


@functools.lru_cache(maxsize=1024)
def kind_of_file(path: str, sha256: str | None) -> str:
    """Returns the format of a file, such as "PNG", "DICOM" or "MP4 recording". sha256: Serves only as a cache key."""
    suffix = Path(path).suffix[1:].upper()
    try:
        if video.is_video(Path(path)):
            return f"{suffix} recording"
        return "DICOM" if dicom.is_dicom(Path(path)) else _NAMES.get(suffix, suffix or "image")
    except OSError:
        return _NAMES.get(suffix, suffix or "image")


def facts_of_file(case: Mapping[str, Any]) -> dict:
    """Describes the file of a case.

    Returns {"format", "patient": first characters of the patient's keyed hash, or None, "study": id of the study,
    "added": time of the import, "shown_from": pixel values displayed as black and as white, or None, "text": whether
    burned-in text is likely, or None if unknown, "odd": invalid values in the DICOM header, which are ignored}.
    """
    return {
        "format": kind_of_file(case["path"], case["sha256"]),
        "patient": case["patient"][:KEY] if case["patient"] else None,
        "study": case["study"],
        "added": case["added"],
        "shown_from": json.loads(case["scale"]) if case["scale"] else None,
        "text": None if case["burned_in"] is None else bool(case["burned_in"]),
        "odd": list(dicom.oddities(case["path"], case["sha256"])),
    }


LEARNT_FROM = "The detector was trained on this case or a related one, so this result is no evidence of its accuracy."


def scored_runs(store: Store, study: str) -> list[dict]:
    """Lists a study's runs that have scored cases, the default run first.

    Returns [{"id", "name", "method": detector, "created", "encoder": pre-training method of the encoder, or None,
    "title": displayed name of the detector, "compares": whether the run can show which normal patch is most similar to
    a given patch, "first": whether no run before it in the list has the same detector, "adopted": whether the run is
    the study's adopted run}]. The adopted run comes first, and runs on untrained encoders come last. The others are
    sorted by the `preferred.preference` of their detector, and runs with equal preference from newest to oldest.
    """
    rows = store.query(
        "SELECT f.id, f.name, f.method, f.created, p.method AS encoder, f.id = (SELECT json_extract(value, '$') "
        "FROM settings WHERE key = ?) AS adopted FROM runs f LEFT JOIN runs p ON p.id = f.parent "
        "WHERE f.study = ? AND f.archived = 0 AND f.binned IS NULL "
        "AND EXISTS (SELECT 1 FROM readings r WHERE r.run = f.id) "
        "ORDER BY f.created DESC, f.id",
        [preferred.ADOPTED.format(study), study],
    )
    rows.sort(key=lambda r: (not r["adopted"], r["encoder"] == "untrained", preference(r["method"])))
    methods: set[str] = set()
    for row in rows:
        row["adopted"] = bool(row["adopted"])
        row["first"] = row["method"] not in methods
        methods.add(row["method"])
        row["title"] = DETECTORS.title(row["method"])
        row["compares"] = DETECTORS.fact(row["method"], "compares", False)
    return rows


def runs_of_trial(context: RequestContext) -> list[dict]:
    """Returns a list of the run whose results the reader's trial session shows, or [] if the arm shows no results."""
    shows_run = context.trial and context.trial["arm"] in ("aided", "both")
    run_id = context.trial["run"] if context.trial and shows_run else None
    runs = [r for r in scored_runs(context.store, context.study) if r["id"] == run_id]
    return [{**run, "first": True} for run in runs]


def rows_of(context: RequestContext, ids: list[int]) -> list[Row]:
    """Returns the rows of the study's cases with these ids, in the given order."""
    rows = context.store.query(
        "SELECT c.* FROM json_each(?) j CROSS JOIN cases c ON c.id = j.value AND c.study = ?",
        [json.dumps(ids), context.study],
    )
    context.names.prepare(ids)
    return rows


def _readings(context: RequestContext, case_id: int, runs: list[str]) -> dict[str, dict | None]:
    """Returns {run: its results on the case, or None without a score}, inside the region of interest if available."""
    rows = context.store.query(
        "SELECT r.run, score, score_roi, percentile, percentile_roi, flagged, flagged_roi, map IS NOT NULL AS has_map, "
        "extra FROM json_each(?) j CROSS JOIN readings r ON r.run = j.value AND r.case_id = ?",
        [json.dumps(runs), case_id],
    )
    # The operating point is hidden from blind readers, because it may reflect labels or decisions of other readers.
    points = {} if context.blinded or context.trial else in_effect(context.store, *runs)
    out: dict[str, dict | None] = dict.fromkeys(runs)
    for row in rows:
        end = "_roi" if row["score_roi"] is not None else ""
        values = {k: row[k + end] for k in ("score", "percentile", "flagged")}
        out[row["run"]] = {
            "run": row["run"],
            **values,
            "has_map": bool(row["has_map"]),
            "words": _in_words(values["percentile"], values["flagged"], points.get(row["run"]))
            + _not_judged(json.loads(row["extra"])),
            **certainty.described(json.loads(row["extra"])),
        }
    return out


def _in_words(percentile: float | None, flagged: bool | None, point: OperatingPoint | None) -> str:
    """Describes a percentile, such as 'Higher than 99.2 % of held-out normals; flagged (above 95 %).' point: Operating
    point, or None if the point is hidden from the reader."""
    if percentile is None:
        return "Not scored by this run yet."
    share = "all" if percentile >= 100 else f"{percentile:.1f} % of"
    state = "flagged" if flagged else "not flagged"
    if point is None:
        return f"Higher than {share} held-out normals; {state}."
    above = f"{FLAG_PERCENTILE:g} %" if point.threshold is None else f"a score of {point.threshold:.3f}, {point.words}"
    return f"Higher than {share} held-out normals; {state} (above {above})."


def _not_judged(extra: dict) -> str:
    share = extra.get(NOT_JUDGED)
    return f" {100 * share:.0f} % of the image is not judged (hatched)." if share else ""


def map_of(context: RequestContext) -> dict:
    """Returns the stored heat map of the requested case and run. Under neutral names, "created" is a keyed hash.

    Raises ValueError if the run has no heat map of the case.
    """
    row = stored_map(context.store, context.run or "", context.asked_case["id"])
    return {**row, "created": context.names.stamp(row["created"], context.asked_case["id"])}


def detail(context: RequestContext, case: Row | None = None) -> dict:
    """Describes a case for the page, with the results of the requested run and of the first run of each detector.

    case: Row of a case of the study, by default the requested case.

    Before the first decision, a blind reader gets only the image's size and the reader's own decisions and findings.
    """
    store, reader, case = context.store, context.reader, case or context.asked_case
    case_id = case["id"]
    rows = store.query(  # at least one row, which has the reader's statements
        "SELECT r.*, k.review_id IS NOT NULL AS counts, (SELECT json_object('finished', a.finished, 'normal', "
        "a.normal IS NOT NULL) FROM case_marks a WHERE a.case_id = ? AND a.reader = ?) AS marks "
        "FROM (SELECT 1) LEFT JOIN reviews r ON r.case_id = ? LEFT JOIN current_reviews k "
        "ON k.case_id = r.case_id AND k.reader = r.reader AND k.stage = r.stage AND k.review_id = r.id ORDER BY r.id",
        [case_id, reader, case_id],
    )
    marks = json.loads(rows[0]["marks"] or "{}")
    reviews = [row for row in rows if row["id"] is not None]
    own_reviews = [r for r in reviews if r["reader"] == reader and r["id"] > context.first_review]
    committed = any(r["stage"] == "first" and r["active"] for r in own_reviews)
    hidden = context.blinded and not committed and context.trial is None
    out = {
        "id": case_id,
        "study": case["study"],
        "v": f"{case['sha256'] or ''}"[:10],
        "width": case["width"],
        "height": case["height"],
        "bits": case["bits"],
        "name": "Case" if context.blinded else name_shown(case),  # sessions.py sets the displayed name
        "blind": hidden,
        "mine": [
            # The stored id of a decision would tell a blind reader how many other decisions exist.
            {"id": position} | {k: r[k] for k in ("decision", "comment", "created", "stage", "active")}
            for position, r in enumerate(own_reviews, 1)
        ],
    }
    if hidden:  # only the reader's own findings, from this reading
        since = context.session["created"] if context.session else ""
        return out | {"findings": [f for f in decisions.findings_of(context, case_id) if f["created"] >= since]}
    out |= {
        "frame": case["frame"],
        "modality": case["modality"],
        "spacing": dicom.spacing_of_case(case),
        "findings": decisions.findings_of(context, case_id),
    }
    if context.trial is not None:
        return out | _in_trial(context, case_id)
    runs = scored_runs(store, context.study)
    out |= {
        "label": case["label"],
        "split": case["split"],
        **tags_shown(case, context.people_tags),
        "readings": _readings(context, case_id, [r["id"] for r in runs if r["first"] or r["id"] == context.run]),
        "masks": masks.versions(context, case_id),
        "marks": {"finished": bool(marks.get("finished")), "normal": bool(marks.get("normal"))},
    }
    learners = {r["id"] for r in runs if r["method"] == LEARNT}
    for run_id, reading in out["readings"].items():
        if reading and run_id in learners and case_id in learnt_from(store, run_id):
            reading["words"] = f"{reading['words']} {LEARNT_FROM}"
    if not context.names.covers:  # the patient and the time of the import would identify related cases
        out["about"] = facts_of_file(case)
    if not context.blinded:
        out["others"] = sorted(
            ({k: r[k] for k in ("reader", "stage", "decision", "comment")} for r in reviews
             if r["counts"] and r["reader"] != reader),
            key=lambda r: (r["reader"], r["stage"]),
        )  # fmt: skip
        where, values = volumes.stack_condition(case)
        frames = store.first(f"SELECT count(*) AS n, min(id) AS first FROM cases WHERE {where}", values)
        out |= {"frames": frames["n"], "recording": frames["first"]}
    return out


def _in_trial(context: RequestContext, case_id: int) -> dict:
    """Returns the data that a trial shows in addition to the image; results of the run depend on the trial's arm."""
    run = context.trial["run"] if context.trial and not context.hides(case_id) else None
    return {
        "label": "unknown",
        "split": "test",
        "tags": [],
        "kinds": [],
        "readings": _readings(context, case_id, [run] if run else []),
        "masks": [],
    }


def timeline(context: RequestContext) -> list[dict]:
    """Lists the frames of the requested case's recording in order of time, or the slices of its volume by position.

    Returns [{"id", "frame", "percentile", "score", "flagged"}], or [] for a single image or a blind reader.
    """
    if context.blinded:
        return []
    where, values = volumes.stack_condition(context.asked_case)
    rows = context.store.query(
        "SELECT c.id, c.frame, coalesce(r.percentile_roi, r.percentile) AS percentile, coalesce(r.score_roi, "
        "r.score) AS score, coalesce(r.flagged_roi, r.flagged) AS flagged FROM cases c LEFT JOIN readings r "
        f"ON r.run = ? AND r.case_id = c.id WHERE {where} ORDER BY {volumes.ORDER}",
        [context.run, *values],
    )
    return rows if len(rows) > 1 else []
