"""Planted lesions in worklists: MedMix's lesions in held-out normals, mixed into the blind sessions of readers who
agreed to it, so that reader and machine are measured by size and contrast.

An administrator switches them on for a study; each reader agrees for themselves. Nothing of them is a case or a
review: a session's list says which of its cases is shown with which lesion (`planted_cases`), what is shown of such a
case follows in core/studio/review/context.py, and what the reader says of it is kept in `planted_reads`. So no figure,
export or learning meets them. They are revealed when the session has ended.
"""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import cv2
import numpy as np

from core.engine.calibration.planted import CONTRASTS, planted
from core.engine.progress import Stopped
from core.studio.db import audit
from core.studio.db.store import Row, Store, now
from core.studio.ingest.originals import image_of
from core.studio.ingest.records import study_row
from core.studio.ingest.resize import prepare
from core.studio.jobs.steps import Report, Stop, Work, never, nothing, step
from core.studio.review import sessions
from core.studio.review.cases import scored_runs
from core.studio.review.context import RequestContext
from core.studio.review.results import wilson
from core.studio.runs import records as runs
from core.studio.runs.readings import size_of
from core.studio.runs.scoring import readings_of

SIZES = (0.1, 0.2, 0.35)  # of a lesion's longer side, in parts of the image's
MOST = 48  # lesions of a study, each in a held-out normal of its own
SIDE = 768  # pixels: lesions are painted at this side, and what they change is then put into the image at its own
DONORS = 4  # images of a batch, at least: a lesion is cut from another one
HIGHEST = 50  # per hundred cases


# The switch of a study, and who agreed.


def switched(store: Store, study: str) -> dict[str, Any] | None:
    """Returns {"per_hundred", "seed", "run"} of a study where planted lesions are mixed in; None where they are not."""
    return store.setting(f"planted:{study}")


def switch(store: Store, study: str, per_hundred: int, seed: int, by: str) -> dict[str, Any] | None:
    """Sets how many planted lesions are mixed into a hundred cases from now on, 0 for none; recorded.

    Returns `switched`. `make` then plants them, as the run that Review opens with sees them. Raises ValueError for a
    study that is read blind, whose images have more than eight bits, or that no run has scored.
    """
    study_row(store, study)
    if not 0 <= per_hundred <= HIGHEST:
        raise ValueError(f"Of a hundred cases 0 to {HIGHEST} may have a planted lesion.")
    with store.write():
        before, after = switched(store, study), None
        if per_hundred:
            if sessions.is_blind(store, study):
                raise ValueError("This study is read blind; nothing is mixed into what its readers are compared by.")
            if store.one("SELECT 1 FROM cases WHERE study = ? AND bits > 8 LIMIT 1", [study]):
                raise ValueError("Lesions are planted into images of eight bits alone; this study has others.")
            scored = [run["id"] for run in scored_runs(store, study)]
            if not scored:
                raise ValueError("No run has scored this study: score it first.")
            after = {"per_hundred": per_hundred, "seed": seed, "run": scored[0]}
        if before != after:
            store.set_setting(f"planted:{study}", after)
            audit.record(store, by, "planted", study=study, before=before, after=after)
    return after


def agreements(store: Store, study: str) -> dict[str, str]:
    """Returns the readers who agreed to planted lesions in their sessions of a study, each with the time."""
    return store.setting(f"planted-readers:{study}", {})


def agree(store: Store, study: str, reader: str, on: bool) -> None:
    """Records a reader's agreement to planted lesions, or takes it back. It holds for sessions started later."""
    study_row(store, study)
    with store.write():
        known = agreements(store, study)
        if (reader in known) != on:
            after = {**known, reader: now()} if on else {name: at for name, at in known.items() if name != reader}
            store.set_setting(f"planted-readers:{study}", after)
            audit.record(store, reader, "planted-agreed" if on else "planted-withdrawn", study=study, after=on)


# Lesions are planted once, ahead of all sessions.


def ready(store: Store, study: str) -> int:
    """Counts the lesions that are planted by the study's switch as it stands."""
    on = switched(store, study) or {}
    query = (
        "SELECT count(*) AS n FROM planted_lesions l JOIN cases c ON c.id = l.case_id WHERE c.study = ? AND l.run = ? "
    )
    return int(store.first(f"{query}AND l.seed = ?", [study, on.get("run"), on.get("seed")])["n"])


def make(store: Store, study: str, device: str = "auto", should_stop: Stop = never, report: Report = nothing) -> int:
    """Plant the study's lesions and score each image; returns how many there are. What is there already is kept.

    Up to MOST held-out normals, drawn by the seed, get one lesion each, of sizes and contrasts in turn. A lesion that
    changes nothing (it fell outside of the region of interest) is left out. Raises ValueError where it is switched off.
    """
    on = switched(store, study)
    if on is None:
        raise ValueError("Planted lesions are switched off for this study.")
    if ready(store, study):
        return ready(store, study)
    cases = store.query(
        "SELECT * FROM cases WHERE study = ? AND split = 'holdout' AND label = 'normal' ORDER BY id", [study]
    )
    if len(cases) < DONORS:
        raise ValueError(f"Lesions are planted into held-out normals, {DONORS} or more; this study has {len(cases)}.")
    draw = random.Random(f"planted {on['seed']}")
    cases = draw.sample(cases, min(MOST, len(cases)))
    cells = draw.sample(list(product(SIZES, CONTRASTS)), len(SIZES) * len(CONTRASTS))
    rows: list[dict[str, Any]] = []
    for number, (size, contrast) in enumerate(cells):
        if should_stop():
            raise Stopped("planting was stopped; it begins anew")
        report({"step": number, "steps": len(cells), "message": f"Planting lesions: {number} of {len(cells)} kinds"})
        group = cases[number :: len(cells)]
        if group:
            donors = [case for case in cases if case not in group][: max(0, DONORS - len(group))]
            rows += _planted(store, on, group, donors, size, contrast, on["seed"] * len(cells) + number, device)
    with store.write() as db:
        unused = "id NOT IN (SELECT lesion FROM planted_cases) AND case_id IN (SELECT id FROM cases WHERE study = ?)"
        db.execute(f"DELETE FROM planted_lesions WHERE {unused}", [study])
        for row in sorted(rows, key=lambda row: row["case_id"]):
            beside = row.pop("beside")
            lesion = db.table("planted_lesions").insert(row).last_pk
            db.conn.executemany("INSERT INTO planted_donors VALUES (?, ?)", [(lesion, case) for case in beside])
    return len(rows)


@step("plant")
def _plant_step(work: Work) -> None:
    make(work.store, work.args["study"], work.device, work.should_stop, work.report)


def _planted(
    store: Store, on: dict, cases: list[Row], donors: list[Row], size: float, contrast: float, seed: int, device: str
) -> list[dict[str, Any]]:
    """Rows of planted_lesions, of one size and contrast, in images of `cases`; "beside": what they may be cut from."""
    own = [image_of(case) for case in cases]
    prepared = [prepare(image, SIDE) for image in [*own, *map(image_of, donors)]]
    plain, roi = (np.stack(column) for column in zip(*prepared, strict=True))
    mixed, area = planted(plain, roi, size, contrast, seed)
    change = mixed.astype(np.float32) - plain
    rows, shown = [], []
    for case, image, delta, share in zip(cases, own, change, area, strict=False):
        at_own = cv2.resize(delta, (image.shape[1], image.shape[0]), interpolation=cv2.INTER_LINEAR)
        with_lesion = np.clip(np.rint(image + at_own), 0, 255).astype(np.uint8)
        ys, xs = np.nonzero((with_lesion != image).any(2))
        if not share or not len(ys):
            continue
        x, y, x1, y1 = (int(v) for v in (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1))
        png = cv2.imencode(".png", with_lesion[y:y1, x:x1, ::-1])[1].tobytes()
        rows.append({"case_id": case["id"], "seed": on["seed"], "size": size, "contrast": contrast, "x": x, "y": y,
                     "width": x1 - x, "height": y1 - y, "patch": png, "run": on["run"],
                     "beside": [other["id"] for other in [*cases, *donors] if other is not case]})  # fmt: skip
        shown.append(with_lesion)
    if not rows:
        return []
    side = size_of(store, runs.get_run(store, on["run"]))
    images, rois = (np.stack(column) for column in zip(*(prepare(image, side) for image in shown), strict=True))
    for row, reading in zip(rows, readings_of(store, on["run"], images, rois, device), strict=True):
        values = {name: value for name, value in reading.items() if name not in ("run", "case_id", "map")}
        row |= {"reading": json.dumps(values, default=float), "map": reading["map"]}
    return rows


# A session that they are mixed into.

_FLAGGED = "coalesce(json_extract(l.reading, '$.flagged_roi'), json_extract(l.reading, '$.flagged'))"


def drawn(context: RequestContext, cases: list[int], choice: str = "all") -> dict[int, int]:
    """Draws by the seed the planted lesions that a new blind session of these cases is to show too: {case: its lesion}.

    Empty without the switch, the reader's agreement, or lesions in images that are new to the reader. choice: of the
    cases, as `session_report` has it. Among what the run flags stand lesions that it flags, and none among what the
    reader has read before: an image that is not of its list's kind would be known by that.
    """
    store, reader, on = context.store, context.reader, switched(context.store, context.study)
    if on is None or context.blind or context.trial is not None or reader not in agreements(store, context.study):
        return {}
    flagged = choice == "flagged"
    if choice == "against" or (flagged and context.run != on["run"]):
        return {}
    mine = "SELECT 1 FROM planted_cases p JOIN reading_sessions h ON h.id = p.session WHERE h.reader = :reader "
    rows = store.query(
        "SELECT l.case_id, l.id FROM planted_lesions l JOIN cases c ON c.id = l.case_id JOIN runs r ON r.id = l.run "
        "WHERE c.study = :study AND l.run = :run AND l.seed = :seed AND r.binned IS NULL "
        "AND c.id NOT IN (SELECT value FROM json_each(:cases)) "
        f"AND (NOT :flagged OR {_FLAGGED}) "
        "AND NOT EXISTS (SELECT 1 FROM reviews k WHERE k.case_id = c.id AND k.reader = :reader) "
        f"AND NOT EXISTS ({mine} AND p.case_id = c.id) ORDER BY c.id",
        {
            "study": context.study,
            "run": on["run"],
            "seed": on["seed"],
            "reader": reader,
            "cases": json.dumps(cases),
            "flagged": flagged,
        },
    )
    earlier = store.first("SELECT count(*) AS n FROM reading_sessions WHERE reader = ?", [reader])["n"]
    number = min(len(rows), max(1, round(len(cases) * on["per_hundred"] / 100))) if cases else 0
    chosen = random.Random(f"planted {on['seed']} {reader} {earlier}").sample(rows, number)
    return {row["case_id"]: row["id"] for row in chosen}


def mixed(cases: list[int], lesions: dict[int, int], seed: int) -> list[int]:
    """Inserts the cases that have a lesion at random places among the others, which keep their order."""
    order, draw = list(cases), random.Random(seed)
    for case in lesions:
        order.insert(draw.randrange(len(order) + 1), case)
    return order


# What is revealed when a session has ended.

_SHOWN = """SELECT h.id AS session, h.reader, h.secret, l.case_id, l.size, l.contrast, l.x, l.y, l.width, l.height,
  coalesce(json_extract(l.reading, '$.percentile_roi'), json_extract(l.reading, '$.percentile')) AS percentile,
  {flagged} AS flagged,
  (SELECT r.decision FROM planted_reads r WHERE r.session = h.id AND r.case_id = l.case_id
    ORDER BY r.id LIMIT 1) AS first,
  (SELECT r.decision FROM planted_reads r WHERE r.session = h.id AND r.case_id = l.case_id
    ORDER BY r.id DESC LIMIT 1) AS decision
  FROM planted_cases p JOIN reading_sessions h ON h.id = p.session JOIN planted_lesions l ON l.id = p.lesion
  WHERE h.ended IS NOT NULL AND {which} ORDER BY h.id, l.size, l.contrast, l.case_id"""


def of_session(store: Store, session: int, study: str | None = None) -> dict[str, Any]:
    """Reveals the planted lesions of a session (of `study`) that has ended; nothing while it goes on.

    Returns {"lesions", "table"}: every lesion that was shown, where and what was said of it; and the shares that were
    found, as `by_kind` has them.
    """
    rows = store.query(
        _SHOWN.format(flagged=_FLAGGED, which="h.id = ? AND h.study = coalesce(?, h.study)"), [session, study]
    )
    lesions = [
        {
            "name": sessions.name_of(sessions.session_names(row), row["case_id"]),
            "box": [row["x"], row["y"], row["width"], row["height"]],
            **{name: row[name] for name in ("size", "contrast", "first", "decision", "percentile")},
            "found": None if row["decision"] is None else row["decision"] == "abnormal",
            "flagged": bool(row["flagged"]),
        }
        for row in rows
    ]
    return {"lesions": lesions, "table": by_kind(rows)}


def of_study(store: Store, study: str) -> list[dict[str, Any]]:
    """Returns `by_kind` of each reader's sessions of a study that have ended."""
    rows = store.query(_SHOWN.format(flagged=_FLAGGED, which="h.study = ?"), [study])
    readers = sorted({row["reader"] for row in rows})
    return [{"reader": name, **kind} for name in readers for kind in by_kind([r for r in rows if r["reader"] == name])]


def by_kind(rows: list[Row]) -> list[dict[str, Any]]:
    """Counts the lesions that were read, by size and contrast, and the shares that were found.

    The shares, with 95 % Wilson intervals, are what the reader called abnormal at `first` and at `last`, and what the
    `machine` flags at its operating point.
    """
    read = [row for row in rows if row["decision"] is not None]
    out = []
    for size, contrast in sorted({(row["size"], row["contrast"]) for row in read}):
        same = [row for row in read if (row["size"], row["contrast"]) == (size, contrast)]
        hits = {
            "first": sum(row["first"] == "abnormal" for row in same),
            "last": sum(row["decision"] == "abnormal" for row in same),
            "machine": sum(bool(row["flagged"]) for row in same),
        }
        shares = {name: wilson(number, len(same)) for name, number in hits.items()}
        out.append({"size": size, "contrast": contrast, "images": len(same), **shares})
    return out
