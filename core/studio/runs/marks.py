"""Lesion masks drawn by readers ("marks") from which detectors learn, and the cases that contain them.

A mask is accepted if a reader saved it, by hand or from a heat map, on a test case that the same reader's last decision
calls abnormal. Drafts and imported masks are not accepted, because no reader has confirmed them; masks of an open blind
session or trial are not accepted either. If several readers annotated a case, the adjudicator's mask is used. Without
adjudication, pixels in all masks are lesion, and pixels in only some masks are ignored. If readers contradict each
other (their masks share no pixel, or a reader calls the case normal), the case is not used until it is adjudicated.
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

from core.engine.rows import rows_of
from core.studio.db.store import Store
from core.studio.ingest.masks import decode_mask, reference_masks
from core.studio.ingest.resize import mask_at
from core.studio.ingest.studies import load_arrays
from core.studio.runs import records as runs
from core.studio.runs.readings import pixel_scale, read_maps

if TYPE_CHECKING:
    from core.engine.detectors.base import Marks

WHOLE = 0.95  # fraction of an image; a larger mask does not show where a lesion ends
TRUTHS = {"reference": "reference mask", "readers": "accepted reader’s mask"}
KIND = 5  # least number of masks for which a label is trained as a separate kind of lesion
HELD = "they belong to a trial or a blind session that is still open. Close it first."
# SQL text that is equal for images of one patient, volume or recording
_UNIT = "coalesce('patient ' || c.patient, 'series ' || c.series, 'file ' || c.path) AS unit"
# Cases of open trials are not used for learning until the trial is closed.
IN_TRIALS = """SELECT k.case_id FROM trial_cases k JOIN trials t ON t.id = k.trial
         WHERE t.started IS NOT NULL AND t.closed IS NULL"""
# Masks of an open blind session are not accepted until the session has ended.
_OPEN = f"""(EXISTS (SELECT 1 FROM reading_sessions s JOIN reading_session_cases o ON o.session = s.id
         WHERE o.case_id = c.id AND s.blind = 1 AND s.ended IS NULL{{whose}})
       OR c.id IN ({IN_TRIALS}))"""
HELD_BACK = _OPEN.format(whose="")  # whether a case c is held back
# The accepted masks by case and reader; the decision of a second look replaces the reader's first decision.
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
    """Lists the accepted lesion mask of each annotated case, ordered by case id.

    Each entry is {"mask": mask id, "case_id", "reader", "version", "source", "png", "unit", "finished", "places",
    "others"}.
    unit: Text that is equal for images of one patient, volume or recording.
    finished: Whether the reader has confirmed that all lesions are annotated.
    places: PNG of the regions that the reader called normal, or None.
    others: Entries of the case's other readers, empty after adjudication.

    Cases of `whole_image_cases` and `contradicting` are skipped. With `reader`, only this reader's masks are listed.
    """
    return [row for row in _last_accepted(store, study, reader) if _covers(row) <= WHOLE and not _contradicts(row)]


def whole_image_cases(store: Store, study: str, reader: str | None = None) -> list[int]:
    """Lists cases whose mask is not used for learning because it covers more than the fraction WHOLE of the image."""
    return [row["case_id"] for row in _last_accepted(store, study, reader) if _covers(row) > WHOLE]


def contradicting(store: Store, study: str, reader: str | None = None) -> list[int]:
    """Lists the cases whose masks are not used for learning, because their readers contradict each other."""
    return [row["case_id"] for row in _last_accepted(store, study, reader) if _contradicts(row)]


@dataclass(frozen=True)
class Truth:
    """Lesion masks against which metrics are computed.

    kind: Source of the masks, a key of TRUTHS.
    masks: Ids of the masks, {case id: mask id}.
    """

    kind: str
    masks: dict[int, int]

    def words(self, cases: Collection[int]) -> str:
        """Describes the number and source of the masks of the given cases, such as 'against 76 reference masks'."""
        n = len(self.masks.keys() & set(cases))
        return f"against {n} {TRUTHS[self.kind]}{'' if n == 1 else 's'}"


def truth_masks(store: Store, study: str, kind: str = "") -> Truth:
    """Returns the lesion masks against which metrics are computed: reference masks or readers' accepted masks.

    kind: Source of the masks, a key of TRUTHS. By default, reference masks are used if the study has any.

    If several readers annotated a case, the adjudicator's mask or else the last mask is used. Masks that came from a
    run's heat map are never used, because the run would be compared with itself. Raises ValueError for another kind.
    """
    if kind not in ("", *TRUTHS):
        raise ValueError(f"The kind of masks must be {' or '.join(TRUTHS)}, not {kind!r}.")
    if kind != "readers" and ((references := reference_masks(store, study)) or kind):
        return Truth("reference", references)
    last_by_hand: dict[int, int] = {}
    for row in accepted(store, study):
        for mask in (*row["others"], row):
            if mask["source"] == "hand":
                last_by_hand[row["case_id"]] = mask["mask"]
    return Truth("readers", last_by_hand)


def held_back(store: Store, study: str, reader: str | None = None) -> int:
    """Counts the cases whose accepted masks cannot be used until a trial or blind session is closed."""
    return len(_last_accepted(store, study, reader, held=True))


def none_accepted(store: Store, study: str, reader: str | None = None) -> str:
    """Returns a sentence that explains why a study has no accepted mask that can be used."""
    held_cases = held_back(store, study, reader)
    if held_cases:
        return f"All accepted masks, of {held_cases} case{'s' * (held_cases != 1)}, are held back: {HELD}"
    return "There is no accepted mask to learn from: draw a mask of the lesion, save it, and decide “abnormal”."


def lesion_of(row: dict[str, Any]) -> np.ndarray:
    """Returns the intersection of all readers' masks of a case, uint8 (H, W). `row` is an entry of `accepted`."""
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
            *earlier, last = sorted(counted, key=lambda row: row["mask"])
            out.append({**last, "others": [] if last["adjudicated"] else earlier})
    return out


def normal_cases(store: Store, study: str, reader: str | None = None) -> list[int]:
    """Lists test cases that the adjudicator or else all readers (including `reader`, if given) called normal."""
    return [row["id"] for row in store.query(_NORMAL, {"study": study, "reader": reader})]


def kinds(store: Store, rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Groups masks with a single finding label, {label: mask ids}; omits labels of fewer than KIND masks."""
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
    """Returns the current annotations of a study, in the form in which a run stores them to be repeatable.

    The result is {"masks": mask ids, "cases": case ids, "reader", "others": {case: mask ids of other readers},
    "unfinished": cases without confirmation that all lesions are annotated, "places": {case: PNG of the regions called
    normal, in base64}, "normals": cases called normal, "kinds": {label: mask ids}, "sha256": fingerprint of the masks}.
    """
    rows = accepted(store, study, reader)
    normal_places = {row["case_id"]: row["places"] for row in rows if row["places"]}
    return {
        "masks": [row["mask"] for row in rows],
        "cases": [row["case_id"] for row in rows],
        "reader": reader,
        "others": {str(row["case_id"]): [o["mask"] for o in row["others"]] for row in rows if row["others"]},
        "unfinished": [r["case_id"] for r in rows if not all(mask["finished"] for mask in (r, *r["others"]))],
        "places": {str(case): base64.b64encode(png).decode() for case, png in normal_places.items()},
        "normals": normal_cases(store, study, reader),
        "kinds": kinds(store, rows),
        "sha256": _fingerprint([*rows, *itertools.chain(*(row["others"] for row in rows))]),
    }


def as_donors(store: Store, study: str) -> dict[str, Any]:
    """Returns the result of `chosen`, for pre-training that pastes lesions. Raises ValueError if it has no masks."""
    donors = chosen(store, study)
    if not donors["masks"]:
        raise ValueError(none_accepted(store, study))
    return donors


def donors_of(store: Store, run: dict, size: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Loads the annotated lesions that a pre-training run pastes into normal images.

    Returns images uint8 (M, size, size, 3) and masks (M, size, size), or None if the run pastes no annotated lesions.
    """
    marked = marks_of(store, run, size)
    if marked is None:
        return None
    has_lesion = marked.masks.any((1, 2))
    return marked.images[has_lesion], marked.masks[has_lesion]


def units(rows: list[dict[str, Any]]) -> np.ndarray:
    """Returns an integer per row that identifies its patient, volume or recording; `rows` are entries of `accepted`."""
    return np.asarray(np.unique([row["unit"] for row in rows], return_inverse=True)[1])


def repeat_problem(store: Store, run: dict) -> str | None:
    """Returns a sentence that explains why a run cannot be repeated with its annotations, or None if it can be."""
    marks = run["config"].get("marks")
    if not marks:
        return None
    case_ids = [*marks["cases"], *marks.get("normals", [])]
    existing = {row["id"] for row in _of(store, "SELECT id FROM cases WHERE id IN ({})", case_ids)}
    missing = len(set(case_ids) - existing)
    if missing:
        cases = "1 of its cases is" if missing == 1 else f"{missing} of its cases are"
        return f"{run['id']} cannot be repeated: {cases} no longer in the study. Start a new run without them."
    if fingerprint(store, marks) != marks["sha256"]:
        return f"{run['id']} cannot be repeated: some of its masks were deleted or changed. Start a new run."
    return None


def marks_of(store: Store, run: dict, size: int) -> Marks | None:
    """Loads the annotations that a run learns from, resized to side length `size`. Returns None if it has none.

    Raises ValueError if cases or masks were deleted or changed.
    """
    from core.engine.detectors.base import Marks  # imports torch, which the page's process does not load

    marks = run["config"].get("marks")
    if not marks:
        return None
    problem = repeat_problem(store, run)
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
        reader_masks = [decode_mask(by_mask[m]["png"]) for m in (mask, *marks.get("others", {}).get(str(case), []))]
        lesion, union = np.min(reader_masks, 0), np.max(reader_masks, 0)
        unknown = union & ~lesion & 1
        if case in marks.get("unfinished", []):
            judged = union.copy()
            if str(case) in marks["places"]:
                judged |= decode_mask(base64.b64decode(marks["places"][str(case)]))
            unknown |= 1 - judged
        masks[i], ignored[i] = mask_at(lesion, size), mask_at(unknown, size)
        ignored[i] &= 1 - masks[i]
        named[i] = masks[i] * of_kind.get(mask, 0)
    unit_rows = _of(store, f"SELECT c.id, {_UNIT} FROM cases c WHERE c.id IN ({{}})", [*marks["cases"], *normals])
    unit = {row["id"]: row["unit"] for row in unit_rows}
    cases = [*marks["cases"], *normals]
    patients = units([{"unit": unit[case]} for case in cases])
    outlines = _outlines(store, run["config"].get("base_run", ""), cases, size, roi)
    return Marks(images, masks, roi, patients, ignored, named if names else None, names, outlines)


def _outlines(store: Store, run_id: str, cases: list[int], size: int, roi: np.ndarray) -> np.ndarray | None:
    """Computes a run's outlines of the cases, bool (M, S, S), or None if the run has not scored all of the cases."""
    from core.engine.calibration.heatmap import upsample
    from core.engine.calibration.outlines import level_of, outlined, peaks

    run = runs.get_run(store, run_id) if run_id else {"summary": {}}
    query = "SELECT count(*) AS n FROM readings WHERE run = ? AND case_id IN (SELECT value FROM json_each(?))"
    if "calibration" not in run["summary"] or store.first(query, [run_id, json.dumps(cases)])["n"] < len(cases):
        return None
    scale = pixel_scale(run)
    maps = read_maps(store, run_id, np.array(cases))
    return outlined(upsample(maps, size), level_of(peaks(maps, roi, scale), scale), scale, roi > 0)


def diameters(rows: list[dict[str, Any]]) -> np.ndarray:
    """Computes the diameter of each connected lesion in the masks, as a fraction of the image's short side.

    The diameter of a lesion is that of a disc of the same area. `rows` are entries of `accepted`.
    """
    sizes = []
    for row in rows:
        mask = decode_mask(row["png"])
        count, _, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        areas = stats[1:count, cv2.CC_STAT_AREA]
        sizes.append(2 * np.sqrt(areas / np.pi) / min(mask.shape))
    return np.concatenate(sizes) if sizes else np.zeros(0)


def learnt_from(store: Store, run_id: str) -> frozenset[int]:
    """Returns the ids of the cases on which a run must not be evaluated.

    These are the cases whose annotations were used to train the run or its encoder, the cases to whose lesions MedMix
    settings were matched, all cases of the same patients, volumes or recordings, and copies of these images.
    """
    run = runs.get_run(store, run_id)
    encoder_runs = [runs.get_run(store, run["parent"])] if run["parent"] else []
    configs = [ancestor["config"] for ancestor in (run, *encoder_runs)]
    learnt = [config["marks"] for config in configs if config.get("marks")]
    cases = [case for marks in learnt for case in (*marks["cases"], *marks.get("normals", []))]
    matched = [digest for config in configs for digest in config.get("medmix", {}).get("matched", ())]
    if not cases and not matched:
        return frozenset()
    rows = store.query(
        "WITH seen AS (SELECT c.* FROM cases c WHERE c.id IN (SELECT value FROM json_each(?)) "
        "OR c.study = ? AND c.sha256 IN (SELECT value FROM json_each(?))) "
        "SELECT c.id FROM cases c WHERE c.study = ? AND ("
        "c.id IN (SELECT id FROM seen) OR c.path IN (SELECT path FROM seen) "
        "OR c.patient IN (SELECT patient FROM seen) OR c.series IN (SELECT series FROM seen) "
        "OR c.sha256 IN (SELECT sha256 FROM seen))",
        [json.dumps(cases), run["study"], json.dumps(matched), run["study"]],
    )
    return frozenset(row["id"] for row in rows)


def unseen(store: Store, run_id: str, case_ids: np.ndarray) -> np.ndarray:
    """Returns for each case whether a run may be evaluated on the case (see `learnt_from`), bool (N,)."""
    return ~np.isin(case_ids, list(learnt_from(store, run_id)))


def _masks(store: Store, marks: dict[str, Any]) -> list[dict]:
    mask_ids = [*marks["masks"], *itertools.chain(*marks.get("others", {}).values())]
    return _of(store, "SELECT id AS mask, case_id, png FROM lesion_masks WHERE id IN ({}) ORDER BY case_id", mask_ids)


def _of(store: Store, query: str, numbers: list[int]) -> list[dict]:
    """Returns the rows of a query in which {} stands for the list `numbers`."""
    return store.query(query.format("SELECT value FROM json_each(?)"), [json.dumps(numbers)])


def fingerprint(store: Store, marks: dict[str, Any]) -> str:
    """Computes the SHA-256 of the current masks whose ids are in `marks`, a result of `chosen`."""
    return _fingerprint(_masks(store, marks))


def _fingerprint(rows: list[dict[str, Any]]) -> str:
    digest = hashlib.sha256()
    for row in sorted(rows, key=lambda r: (r["case_id"], r["mask"])):
        digest.update(f"{row['case_id']} {hashlib.sha256(row['png']).hexdigest()}\n".encode())
    return digest.hexdigest()
