"""What readers marked and a detector can learn from: their accepted lesion masks, and the cases that it then has seen.

Accepted is a mask that a reader saved, by hand or from a heat map, on a test case that the same reader's last decision
calls abnormal. Drafts and imported masks are not: nobody here has said that they are right. Nor is what a reader marks
in a blind session, before it is closed, or of a trial's cases while it goes on. Of several readers' masks of a case the
adjudicator's counts; else what all have marked is lesion, and what only some have is ignored. A case of which readers
contradict each other (marks without a common place, or one calls it normal) waits for its adjudication.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from core.engine.calibration.percentiles import Calibration
from core.engine.rows import rows_of
from core.studio.db.store import Store
from core.studio.ingest.masks import decode_mask, reference_masks
from core.studio.ingest.resize import mask_at
from core.studio.ingest.studies import load_arrays
from core.studio.runs import records as runs
from core.studio.runs.readings import read_maps

if TYPE_CHECKING:
    from core.engine.detectors.base import Marks

WHOLE = 0.95  # of an image: a mask that covers more says nothing of where a lesion ends
TRUTHS = {"reference": "reference mask", "readers": "accepted reader’s mask"}
KIND = 5  # marks of a label that make it a kind of lesion of its own
HELD = "a trial or a blind session that they belong to is still open. Close it first."
# alike for images of one patient, volume or recording
_UNIT = "coalesce('patient ' || c.patient, 'series ' || c.series, 'file ' || c.path) AS unit"
# Cases of trials that go on: nothing of them teaches before the close.
IN_TRIALS = """SELECT k.case_id FROM trial_cases k JOIN trials t ON t.id = k.trial
         WHERE t.started IS NOT NULL AND t.closed IS NULL"""
# In a session that is still read blind a mark is no more than a note.
_OPEN = f"""(EXISTS (SELECT 1 FROM reading_sessions s JOIN reading_session_cases o ON o.session = s.id
         WHERE o.case_id = c.id AND s.blind = 1 AND s.ended IS NULL{{whose}})
       OR c.id IN ({IN_TRIALS}))"""
# of each case and reader the accepted masks; a reader's last decision is the second look where there is one
_ACCEPTED = f"""
  SELECT m.id AS mask, m.case_id, m.reader, m.version, m.source, m.png, {_UNIT},
    EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = c.id AND k.reader = m.reader
            AND k.stage = 'adjudication') AS adjudicated,
    coalesce(a.finished, 0) AS finished, a.normal AS places,
    :reader IS NULL AND coalesce((SELECT v.normal FROM case_votes v WHERE v.case_id = c.id), 0) AS denied
  FROM lesion_masks m JOIN cases c ON c.id = m.case_id
  LEFT JOIN case_marks a ON a.case_id = c.id AND a.reader = m.reader
  WHERE c.study = :study AND c.split = 'test' AND m.source IN ('hand', 'run') AND m.reader IS NOT NULL
    AND (:reader IS NULL OR m.reader = :reader)
    AND (SELECT k.decision FROM current_reviews k WHERE k.case_id = c.id AND k.reader = m.reader
         ORDER BY k.stage = 'adjudication' DESC, k.stage DESC LIMIT 1) = 'abnormal'
    AND NOT EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = c.id AND k.stage = 'adjudication'
                    AND k.decision != 'abnormal')
    AND (:held = {_OPEN.format(whose=" AND s.reader = m.reader")})
  ORDER BY m.id"""
_NORMAL = f"""
  SELECT c.id FROM cases c JOIN case_votes v ON v.case_id = c.id
  WHERE c.study = :study AND c.split = 'test'
    AND CASE WHEN EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = c.id AND k.stage = 'adjudication')
        THEN NOT EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = c.id AND k.stage = 'adjudication'
                         AND k.decision != 'normal')
        ELSE v.normal = v.readers AND v.readers > 0
          AND (:reader IS NULL OR EXISTS (SELECT 1 FROM current_reviews k WHERE k.case_id = c.id
                                          AND k.reader = :reader)) END
    AND NOT {_OPEN.format(whose="")}
  ORDER BY c.id"""


def accepted(store: Store, study: str, reader: str | None = None) -> list[dict[str, Any]]:
    """Lists the accepted mask that counts of each marked case, by the case's id: [{"mask", "case_id", "reader",
    "version", "png", "unit", "finished", "places", "others"}].

    others: masks of the case's other readers, in the same form; none if one adjudicated. reader: only masks of this
    reader. unit: the same for images of one patient, volume or recording. finished: whether all is marked, as the
    mask's reader says. places: PNG of those called normal, or None. Cases of `whole` and `contradicting` are left out.
    """
    return [row for row in _last_accepted(store, study, reader) if _covers(row) <= WHOLE and not _contradicts(row)]


def whole(store: Store, study: str, reader: str | None = None) -> list[int]:
    """Lists the cases whose accepted mask covers more than WHOLE of the image, so that nothing is learnt from it."""
    return [row["case_id"] for row in _last_accepted(store, study, reader) if _covers(row) > WHOLE]


def contradicting(store: Store, study: str, reader: str | None = None) -> list[int]:
    """Lists the cases whose accepted masks do not teach, since their readers contradict each other."""
    return [row["case_id"] for row in _last_accepted(store, study, reader) if _contradicts(row)]


@dataclass(frozen=True)
class Truth:
    """The lesion masks that figures are computed against: `kind` of them, and {case id: mask id}."""

    kind: str
    masks: dict[int, int]

    def words(self, cases: Collection[int]) -> str:
        """Says against which masks figures of these cases are: 'against 76 reference masks'."""
        n = len(self.masks.keys() & set(cases))
        return f"against {n} {TRUTHS[self.kind]}{'' if n == 1 else 's'}"


def truth_masks(store: Store, study: str, kind: str = "") -> Truth:
    """Returns the masks of one kind, which figures are computed against: the references, or readers' accepted masks.

    kind: one of TRUTHS; by default the references, or readers' masks in a study without a reference. Of several
    readers' masks of a case the last one counts, unless one of them adjudicated. A mask that was taken from a run's
    heat map never counts: the run would be measured against itself. Raises ValueError for another kind.
    """
    if kind not in ("", *TRUTHS):
        raise ValueError(f"Figures are computed against masks of kind {' or '.join(TRUTHS)}, not {kind!r}.")
    if kind != "readers" and ((references := reference_masks(store, study)) or kind):
        return Truth("reference", references)
    drawn: dict[int, int] = {}
    for row in accepted(store, study):
        for mask in (*row["others"], row):
            if mask["source"] == "hand":
                drawn[row["case_id"]] = mask["mask"]
    return Truth("readers", drawn)


def held_back(store: Store, study: str, reader: str | None = None) -> int:
    """Counts the cases whose accepted masks teach nothing yet, since a trial or a blind session holds them back."""
    return len(_last_accepted(store, study, reader, held=True))


def none_accepted(store: Store, study: str, reader: str | None = None) -> str:
    """Says why there is no accepted mask in a study."""
    held = held_back(store, study, reader)
    if held:
        return f"All accepted masks, of {held} case{'s' * (held != 1)}, are held back: {HELD}"
    return "There is no accepted mask to learn from: mark what is abnormal, save it, and decide “abnormal”."


def lesion_of(row: dict[str, Any]) -> np.ndarray:
    """Returns the mask of what all readers of a case have marked, their masks' intersection. row: of `accepted`."""
    return np.asarray(np.min([decode_mask(mask["png"]) for mask in (row, *row["others"])], 0))


def _contradicts(row: dict[str, Any]) -> bool:
    if row["adjudicated"]:
        return False
    return bool(row["denied"]) or not lesion_of(row).any()


def _covers(row: dict[str, Any]) -> float:
    return float(decode_mask(row["png"]).mean())


def _last_accepted(store: Store, study: str, reader: str | None, held: bool = False) -> list[dict[str, Any]]:
    by_reader: dict[int, dict[str, dict]] = {}
    for row in store.query(_ACCEPTED, {"study": study, "reader": reader, "held": int(held)}):
        by_reader.setdefault(row["case_id"], {})[row["reader"]] = row
    out = []
    for _, rows in sorted(by_reader.items()):
        marked = [row for row in rows.values() if decode_mask(row["png"]).any()]
        counted = [row for row in marked if row["adjudicated"]] or marked
        if counted:
            *others, last = sorted(counted, key=lambda row: row["mask"])
            out.append({**last, "others": [] if last["adjudicated"] else others})
    return out


def normal_cases(store: Store, study: str, reader: str | None = None) -> list[int]:
    """Lists test cases that whoever adjudicated, else every reader (`reader` among them, if named), called normal."""
    return [row["id"] for row in store.query(_NORMAL, {"study": study, "reader": reader})]


def kinds(store: Store, rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Groups masks by the label of their findings: {label: masks}, of labels that KIND masks or more bear alone."""
    by_label: dict[str, list[int]] = {}
    for row in rows:
        labels = store.query(
            "SELECT DISTINCT label FROM findings WHERE case_id = ? AND reader = ? AND mask_version IN (?, ?)",
            [row["case_id"], row["reader"], row["mask"], row["version"]],
        )
        if len(labels) == 1:
            by_label.setdefault(labels[0]["label"], []).append(row["mask"])
    return {label: masks for label, masks in sorted(by_label.items()) if len(masks) >= KIND}


def chosen(store: Store, study: str, reader: str | None = None) -> dict[str, Any]:
    """Collects all that a run stores of the marks as they are now, to learn from them and to be repeated exactly.

    {"masks", "cases", "reader", "others": {case: masks}, "unfinished": cases, "places": {case: PNG, base64}, "normals":
    cases, "kinds": {label: masks}, "sha256": fingerprint of the masks}.
    """
    rows = accepted(store, study, reader)
    places = {row["case_id"]: row["places"] for row in rows if row["places"]}
    return {
        "masks": [row["mask"] for row in rows],
        "cases": [row["case_id"] for row in rows],
        "reader": reader,
        "others": {str(row["case_id"]): [o["mask"] for o in row["others"]] for row in rows if row["others"]},
        "unfinished": [r["case_id"] for r in rows if not all(mask["finished"] for mask in (r, *r["others"]))],
        "places": {str(case): base64.b64encode(png).decode() for case, png in places.items()},
        "normals": normal_cases(store, study, reader),
        "kinds": kinds(store, rows),
        "sha256": _fingerprint([*rows, *itertools.chain(*(row["others"] for row in rows))]),
    }


def as_donors(store: Store, study: str) -> dict[str, Any]:
    """Returns the `chosen` marks for a pre-training that pastes them. Raises ValueError if there are none, with why."""
    donors = chosen(store, study)
    if not donors["masks"]:
        raise ValueError(none_accepted(store, study))
    return donors


def donors_of(store: Store, run: dict, size: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Loads images uint8 (M, size, size, 3) and masks (M, size, size) of the lesions to be pasted by a pre-training.

    None for a run that pastes none.
    """
    marked = marks_of(store, run, size)
    if marked is None:
        return None
    some = marked.masks.any((1, 2))
    return marked.images[some], marked.masks[some]


def units(rows: list[dict[str, Any]]) -> np.ndarray:
    """Numbers the units of the rows, (M,): masks of one patient, volume or recording have the same number."""
    return np.asarray(np.unique([row["unit"] for row in rows], return_inverse=True)[1])


def fault(store: Store, run: dict) -> str | None:
    """Says why a run cannot be learnt again from the marks that it names; None if it can."""
    marks = run["config"].get("marks")
    if not marks:
        return None
    wanted = [*marks["cases"], *marks.get("normals", [])]
    there = {row["id"] for row in _of(store, "SELECT id FROM cases WHERE id IN ({})", wanted)}
    gone = len(set(wanted) - there)
    if gone:
        cases = "a case that it has learnt from is" if gone == 1 else f"{gone} cases that it has learnt from are"
        return f"{run['id']} cannot be repeated any more: {cases} no longer in the study. Learn anew without it."
    if fingerprint(store, marks) != marks["sha256"]:
        return f"the masks that {run['id']} was to learn from are not all there any more: learn anew"
    return None


def marks_of(store: Store, run: dict, size: int) -> Marks | None:
    """Loads the marks that a run learns from at side `size`; None for a run that learns from none.

    Raises ValueError if cases or masks that it names have gone, or are not what they were.
    """
    from core.engine.detectors.base import Marks  # torch, which the page's process does not load

    marks = run["config"].get("marks")
    if not marks:
        return None
    problem = fault(store, run)
    if problem:
        raise ValueError(problem)
    by_mask = {row["mask"]: row for row in _masks(store, marks)}
    arrays = load_arrays(store, run["study"], size)
    row_of = {int(case): row for row, case in enumerate(arrays.case_ids)}
    normals = marks.get("normals", [])
    rows = np.array([row_of[case] for case in [*marks["cases"], *normals]], np.int64)
    images, roi = (np.array(rows_of(values, rows)) for values in (arrays.images, arrays.roi))
    masks, ignored, named = (np.zeros(roi.shape, np.uint8) for _ in range(3))
    names = tuple(marks.get("kinds", {}))
    of_kind = {mask: i for i, name in enumerate(names, 1) for mask in marks["kinds"][name]}
    for i, (case, mask) in enumerate(zip(marks["cases"], marks["masks"], strict=True)):
        several = [decode_mask(by_mask[m]["png"]) for m in (mask, *marks.get("others", {}).get(str(case), []))]
        lesion, union = np.min(several, 0), np.max(several, 0)
        unknown = union & ~lesion & 1
        if case in marks.get("unfinished", []):
            known = union.copy()
            if str(case) in marks["places"]:
                known |= decode_mask(base64.b64decode(marks["places"][str(case)]))
            unknown |= 1 - known
        masks[i], ignored[i] = mask_at(lesion, size), mask_at(unknown, size)
        ignored[i] &= 1 - masks[i]
        named[i] = masks[i] * of_kind.get(mask, 0)
    where = _of(store, f"SELECT c.id, {_UNIT} FROM cases c WHERE c.id IN ({{}})", [*marks["cases"], *normals])
    unit = {row["id"]: row["unit"] for row in where}
    cases = [*marks["cases"], *normals]
    patients = units([{"unit": unit[case]} for case in cases])
    outlines = _outlines(store, run["config"].get("base_run", ""), cases, size, roi)
    return Marks(images, masks, roi, patients, ignored, named if names else None, names, outlines)


def _outlines(store: Store, run_id: str, cases: list[int], size: int, roi: np.ndarray) -> np.ndarray | None:
    """bool (M, S, S), what a scored run outlines of the cases; None if it has not read all of them."""
    from core.engine.calibration.heatmap import upsample
    from core.engine.calibration.outlines import level_of, outlined, peaks

    calibration = runs.get_run(store, run_id)["summary"].get("calibration") if run_id else None
    query = "SELECT count(*) AS n FROM readings WHERE run = ? AND case_id IN (SELECT value FROM json_each(?))"
    if calibration is None or store.first(query, [run_id, json.dumps(cases)])["n"] < len(cases):
        return None
    scale = Calibration.from_dict(calibration["roi"]).pixels
    assert scale is not None  # scoring made it of maps
    maps = read_maps(store, run_id, np.array(cases))
    return outlined(upsample(maps, size), level_of(peaks(maps, roi, scale), scale), scale, roi > 0)


def diameters(rows: list[dict[str, Any]]) -> np.ndarray:
    """Computes the diameter of each connected lesion in the masks, as a fraction of the image's short side.

    It is the diameter of a disc of the lesion's area.
    """
    sizes = []
    for row in rows:
        mask = decode_mask(row["png"])
        count, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        areas = stats[1:count, cv2.CC_STAT_AREA]
        sizes.append(2 * np.sqrt(areas / np.pi) / min(mask.shape))
    return np.concatenate(sizes) if sizes else np.zeros(0)


def learnt_from(store: Store, run_id: str) -> frozenset[int]:
    """Returns the cases that a run, or the encoder under it, has learnt from, and all cases of the same patient,
    volume, recording or content as one of them.

    What such a run says of them is no evidence of how well it reads.
    """
    run = runs.get_run(store, run_id)
    above = [runs.get_run(store, run["parent"])] if run["parent"] else []
    learnt = [ancestor["config"]["marks"] for ancestor in (run, *above) if ancestor["config"].get("marks")]
    cases = [case for marks in learnt for case in (*marks["cases"], *marks.get("normals", []))]
    if not cases:
        return frozenset()
    rows = store.query(
        "WITH seen AS (SELECT c.* FROM cases c JOIN json_each(?) j ON c.id = j.value) "
        "SELECT c.id FROM cases c WHERE c.study = ? AND ("
        "c.id IN (SELECT id FROM seen) OR c.path IN (SELECT path FROM seen) "
        "OR c.patient IN (SELECT patient FROM seen) OR c.series IN (SELECT series FROM seen) "
        "OR c.sha256 IN (SELECT sha256 FROM seen))",
        [json.dumps(cases), run["study"]],
    )
    return frozenset(row["id"] for row in rows)


def unseen(store: Store, run_id: str, case_ids: np.ndarray) -> np.ndarray:
    """Says which of the cases a run has not learnt from: bool (N,)."""
    return ~np.isin(case_ids, list(learnt_from(store, run_id)))


def _masks(store: Store, marks: dict[str, Any]) -> list[dict]:
    wanted = [*marks["masks"], *itertools.chain(*marks.get("others", {}).values())]
    return _of(store, "SELECT id AS mask, case_id, png FROM lesion_masks WHERE id IN ({}) ORDER BY case_id", wanted)


def _of(store: Store, query: str, numbers: list[int]) -> list[dict]:
    """Rows of a query whose {} stands for a list of numbers."""
    return store.query(query.format("SELECT value FROM json_each(?)"), [json.dumps(numbers)])


def fingerprint(store: Store, marks: dict[str, Any]) -> str:
    """Computes the SHA-256 of the masks that `chosen` names, as they are now."""
    return _fingerprint(_masks(store, marks))


def _fingerprint(rows: list[dict[str, Any]]) -> str:
    digest = hashlib.sha256()
    for row in sorted(rows, key=lambda r: (r["case_id"], r["mask"])):
        digest.update(f"{row['case_id']} {hashlib.sha256(row['png']).hexdigest()}\n".encode())
    return digest.hexdigest()
