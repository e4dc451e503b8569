"""Lesion masks: drafts, stored versions, marks of finished cases and normal regions, and segmentation from clicks."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from core.studio.db import audit, limits
from core.studio.db.store import NotFound, Store, now
from core.studio.ingest.masks import add_mask, decode_mask, encode_mask, reference_mask
from core.studio.ingest.originals import Source
from core.studio.review import sessions
from core.studio.review.context import RequestContext
from core.studio.runs import records as runs
from core.studio.runs.readings import pixel_scale, stored_map
from core.studio.runs.records import get_run
from core.studio.runs.weights import encoder_run

# A draft is a reader's unsaved drawing (strokes, undo history, open polygons), which no export, metric or other reader
# uses. The page defines its format (app/widgets/review/js/drafts.js).

LARGEST = 8 << 20  # bytes of one draft


def keep_draft(context: RequestContext, body: bytes) -> None:
    """Stores the reader's unsaved mask drawing of the requested case, and replaces the previous draft.

    Raises ValueError unless `body` has 1 to LARGEST bytes, and TooMuch if the reader's drafts exceed a limit.
    """
    if not 0 < len(body) <= LARGEST:
        raise ValueError(f"A draft has 1 to {LARGEST} bytes, not {len(body)}. Save the drawing as a mask instead.")
    store, case, reader = context.store, context.asked_case["id"], context.reader
    with store.write() as db:
        usage = store.first(
            "SELECT count(*) AS drafts, coalesce(sum(length(body)), 0) AS bytes FROM mask_drafts "
            "WHERE reader = ? AND case_id != ?",
            [reader, case],
        )
        limits.demand("draft", usage["drafts"])
        limits.demand("draft bytes", usage["bytes"], len(body))
        db.execute("INSERT OR REPLACE INTO mask_drafts VALUES (?, ?, ?, ?)", [case, reader, body, now()])


def draft_body(context: RequestContext) -> bytes:
    """Returns the reader's draft of the requested case's mask. Raises NotFound if the reader has no draft."""
    query = "SELECT body FROM mask_drafts WHERE case_id = ? AND reader = ?"
    row = context.store.one(query, [context.asked_case["id"], context.reader])
    if row is None:
        raise NotFound("There is no draft of this case.")
    return bytes(row["body"])


def drop_draft(context: RequestContext) -> None:
    """Deletes the reader's draft of the requested case's mask, if any."""
    key = [context.asked_case["id"], context.reader]
    context.store.execute("DELETE FROM mask_drafts WHERE case_id = ? AND reader = ?", key)


def list_drafts(context: RequestContext) -> list[dict]:
    """Lists the reader's drafts in the study, latest first, as [{"id": case id, "updated": time}], or [] in a trial."""
    if context.trial is not None:
        return []
    return context.store.query(
        "SELECT d.case_id AS id, d.updated FROM mask_drafts d JOIN cases c ON c.id = d.case_id "
        "WHERE d.reader = ? AND c.study = ? ORDER BY d.updated DESC",
        [context.reader, context.study],
    )


def draft_marks(store: Store, reader: str) -> dict[str, str]:
    """Returns {study: version tag of the reader's drafts}. The tag changes whenever a draft is stored or deleted."""
    rows = store.query(
        "SELECT c.study, count(*) AS n, max(d.updated) AS last FROM mask_drafts d JOIN cases c ON c.id = d.case_id "
        "WHERE d.reader = ? GROUP BY c.study",
        [reader],
    )
    return {row["study"]: f"{row['n']} {row['last']}" for row in rows}


SOURCES = ("hand", "run")
_COLUMNS = "id, case_id, version, source, reader, created, run, threshold, note"
# Counts each author's masks of a case separately, so that a number reveals nothing about other cases or readers.
_TURN = "row_number() OVER (PARTITION BY case_id, source = 'import', reader ORDER BY version) AS turn"


def versions(context: RequestContext, case_id: int) -> list[dict]:
    """Lists the versions of a case's mask, newest first, without pixels.

    "reference" states whether metrics are computed against the version. For a blind reader, other readers' masks are
    hidden, the last imported mask is the reference, and version numbers skip hidden masks. Neutral names also hide ids
    and import times, because these depend on the case's position in the import.
    """
    rows = context.store.query(
        f"SELECT {_COLUMNS}, {_TURN} FROM lesion_masks WHERE case_id = ? ORDER BY version DESC", [case_id]
    )
    visible = [row for row in rows if _shown(context, row)]
    reference = reference_mask(context.store, case_id)
    if context.blinded:  # a reference chosen after the import may be another reader's mask
        reference = next((row["id"] for row in visible if row["source"] == "import"), None)
    for row in visible:
        row["reference"] = row["id"] == reference
    for number, row in zip(range(len(visible), 0, -1), visible, strict=True):
        row |= {"id": context.names.mask_number(row)} | ({"version": number} if context.blinded else {})
        row |= {"created": ""} if row["source"] == "import" and context.names.covers else {}
        del row["turn"]
    return visible


def version_shown(context: RequestContext, case_id: int, version: int | None) -> int | None:
    """Translates the stored number of a mask version into the number that the reader sees. None stays None."""
    if version is None or not context.blinded:
        return version
    query = "SELECT id, source, reader FROM lesion_masks WHERE case_id = ? AND version <= ?"
    return sum(_shown(context, row) for row in context.store.query(query, [case_id, version]))


def _shown(context: RequestContext, row: dict) -> bool:
    if context.trial is not None:
        return False
    return not context.blinded or row["source"] == "import" or row["reader"] == context.reader


def case_of(store: Store, mask_id: int, reader: str) -> int:
    """Returns the id of the case to which a mask belongs. mask_id: Number of the mask on the page.

    Raises NotFound if the mask is unknown. To a reader who reads blind or in a trial, raises Hidden instead, so that
    the error does not reveal which numbers exist. Hidden and missing masks take the same queries for this reason.
    """
    hidden = sessions.session_status(store, reader)["blind"]
    if sessions.is_neutral_mask(mask_id):
        case = _case_of_neutral(store, mask_id, reader, hidden)
    else:
        query = "SELECT m.case_id, c.study FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE m.id = ?"
        row = store.one(query, [mask_id])
        case = None if row is None or row["study"] in hidden else int(row["case_id"])
    if case is not None:
        return case
    if store.one(sessions.IN_TRIALS, {"reader": reader}):
        raise sessions.Hidden(sessions.NO_MACHINE)
    raise sessions.Hidden(sessions.DECIDE_FIRST) if hidden else no_mask(mask_id)


def _case_of_neutral(store: Store, mask_id: int, reader: str, hidden: list[str]) -> int | None:
    """Returns the case of a mask with a neutral number, or None if the number is unknown or hidden from the reader."""
    orders = store.query(
        "SELECT o.* FROM neutral_orders o LEFT JOIN reading_sessions h ON h.id = o.session WHERE o.reader = ? "
        "AND (o.session IS NULL OR h.ended IS NULL)",
        [reader],
    )
    for order in orders:
        names = sessions.Aliases(store, order)
        rows = store.query(
            f"SELECT m.id, case_id, source, reader, {_TURN} FROM lesion_masks m JOIN cases c ON c.id = m.case_id "
            "WHERE c.study = ? AND (source = 'import' OR reader = ? OR ?)",
            [order["study"], reader, order["study"] not in hidden],
        )
        for row in rows:
            if names.mask_number(row) == mask_id:
                return int(row["case_id"])
    return None


def no_mask(mask_id: int) -> NotFound:
    """Returns the error for the number of a mask that does not exist or whose existence is hidden from the reader."""
    return NotFound(f"Unknown lesion mask {mask_id}.")


def of_case(context: RequestContext, mask_id: int | None = None) -> dict | None:
    """Returns the row of a mask of the requested case, with the number of the mask on the page as "number".

    mask_id: Number on the page, by default of the newest visible mask. Returns None if no visible mask has this number.
    """
    # Neutral numbers are hashes that cannot be queried, so all masks of the case are read.
    requested = mask_id if mask_id is not None and not context.names.covers else None
    first = "" if context.blinded or (mask_id is not None and requested is None) else " LIMIT 1"
    query = (
        f"SELECT *, {_TURN} FROM lesion_masks WHERE case_id = ? AND id = coalesce(?, id) ORDER BY version DESC{first}"
    )
    rows = context.store.query(query, [context.asked_case["id"], requested])
    visible = (row | {"number": context.names.mask_number(row)} for row in rows if _shown(context, row))
    return next((row for row in visible if mask_id in (None, row["number"])), None)


def latest(store: Store, case_id: int) -> dict | None:
    """Returns the row of the newest mask of a case by any author, or None if the case has no mask."""
    return store.one("SELECT * FROM lesion_masks WHERE case_id = ? ORDER BY version DESC LIMIT 1", [case_id])


def save(
    context: RequestContext,
    mask: np.ndarray,
    *,
    source: str = "hand",
    threshold: float | None = None,
    note: str = "",
) -> dict:
    """Stores a new version of the requested case's mask; earlier versions are kept.

    mask: Mask (H, W) of the same size as the image. Positive pixels are lesion.
    source: "hand" for a drawing, or "run" for an outline of the requested run's heat map.
    threshold: Heat-map value at which the outline was taken, if the source is "run".

    Returns {"mask": number of the mask on the page, "version": stored number of the version, "pixels": area in pixels}.
    Raises ValueError if the size, source or threshold is invalid, and TooMuch if the reader has too many masks.
    """
    mask = _fitting(context, mask)
    if source not in SOURCES:
        raise ValueError(f"a mask's source is one of {', '.join(SOURCES)}, not {source!r}")
    if source == "run" and context.run is None:
        raise ValueError("a mask taken from a heat map needs a run")
    if source == "run" and threshold is not None:
        _demand_threshold(context, threshold)
    run = context.run if source == "run" else None
    outline_threshold = threshold if source == "run" else None
    return _add(context, encode_mask(mask), source, run, outline_threshold, note, int(mask.sum()))


def _fitting(context: RequestContext, mask: np.ndarray) -> np.ndarray:
    """Returns a mask as bool (H, W). Raises ValueError unless the mask has the size of the requested case's image."""
    case, mask = context.asked_case, np.asarray(mask) > 0
    if mask.shape != (case["height"], case["width"]):
        have, want = (" x ".join(map(str, s)) for s in (mask.shape[::-1], (case["width"], case["height"])))
        raise ValueError(f"the mask has {have} pixels, but its image has {want}")
    return mask


def _demand_threshold(context: RequestContext, threshold: float) -> None:
    """Raises ValueError unless the run has a heat map of the case and the threshold is near the map's range."""
    case, run = context.asked_case["id"], str(context.run)
    row = stored_map(context.store, run, case)
    scale = pixel_scale(get_run(context.store, run))
    low, high = min(row["map_lo"], scale.lo), max(row["map_hi"], scale.hi)
    if not low - (high - low) <= threshold <= high + (high - low):
        raise ValueError(f"The threshold {threshold:g} lies outside this heat map's values, {low:g} to {high:g}.")


def restore(context: RequestContext, mask_id: int) -> dict:
    """Stores a copy of an earlier mask as the newest version, and returns the same dictionary as `save`.

    If the reader may see no such mask, raises Hidden for a blind reader and NotFound otherwise.
    """
    old = of_case(context, mask_id)
    if old is None:
        raise sessions.Hidden(sessions.DECIDE_FIRST) if context.blinded else no_mask(mask_id)
    note = f"version {version_shown(context, old['case_id'], old['version'])} restored" + (
        f": {old['note']}" if old["note"] else ""
    )
    source = "run" if old["source"] == "run" else "hand"
    pixels = int(decode_mask(old["png"]).sum())
    return _add(context, old["png"], source, old["run"], old["threshold"], note, pixels)


def make_reference(context: RequestContext, mask_id: int) -> None:
    """Makes a mask the reference mask of the requested case, against which metrics are computed.

    Raises NotAllowed unless the reader may adjudicate, Hidden if the reader is blind, NotFound if the mask is unknown,
    and ValueError if the mask was taken from a heat map, because a run would be measured against its own output.
    """
    context.demand("adjudicate")
    if context.blinded:
        raise sessions.Hidden(sessions.DECIDE_FIRST)
    store, case, mask = context.store, context.asked_case["id"], of_case(context, mask_id)
    if mask is None:
        raise no_mask(mask_id)
    if mask["source"] == "run":
        raise ValueError("A mask taken from a heat map cannot be the reference. Correct it by hand and save it first.")
    with store.write():
        before = reference_mask(store, case)
        row = [case, mask["id"], context.reader, now()]
        store.execute(
            "INSERT OR REPLACE INTO reference_masks (case_id, mask, reader, created) VALUES (?, ?, ?, ?)", row
        )
        events = [{"mask": number} for number in (before, mask["id"])]
        audit.record(
            store, context.reader, "reference", study=context.study, case_id=case, before=events[0], after=events[1]
        )


def _add(context, png, source, run, threshold, note, pixels) -> dict:
    store, case, reader = context.store, context.asked_case, context.reader
    with store.write():
        limits.demand_rows(store, "mask", "lesion_masks", "case_id = ? AND reader = ?", [case["id"], reader])
        before = latest(store, case["id"])
        number = add_mask(store, case["id"], png, source, reader, run, threshold, note)
        query = f"SELECT {_COLUMNS}, {_TURN} FROM lesion_masks WHERE case_id = ? ORDER BY version DESC LIMIT 1"
        row = store.first(query, [case["id"]])
        drop_draft(context)
        audit.record(
            store,
            reader,
            "mask",
            study=context.study,
            case_id=case["id"],
            before=before and {"mask": before["id"], "version": before["version"]},
            after={
                "mask": row["id"],
                "version": number,
                "source": source,
                "run": run,
                "threshold": threshold,
                "pixels": pixels,
                "sha256": hashlib.sha256(png).hexdigest(),
            },
        )
    return {"mask": context.names.mask_number(row), "version": number, "pixels": pixels}


def case_marks(context: RequestContext) -> dict:
    """Returns {"finished": whether the reader annotated all lesions, "normal": whether any region is marked normal}."""
    row = _marks_row(context)
    return {"finished": bool(row and row["finished"]), "normal": bool(row and row["normal"])}


def set_finished(context: RequestContext, finished: bool) -> dict:
    """Records whether the reader has annotated all lesions of the requested case, and returns the new `case_marks`."""
    row = _marks_row(context)
    return _store_marks(context, finished, row["normal"] if row else None)


def normal_places(context: RequestContext) -> bytes | None:
    """Returns a PNG mask of the regions that the reader annotated as normal, or None if there are no such regions."""
    row = _marks_row(context)
    return bytes(row["normal"]) if row and row["normal"] else None


def set_normal_places(context: RequestContext, mask: np.ndarray) -> dict:
    """Stores a mask (H, W) of the regions that the reader marks as normal. An empty mask deletes the stored regions.

    Returns the new `case_marks`. Raises ValueError unless the mask has the size of the image.
    """
    row, mask = _marks_row(context), _fitting(context, mask)
    return _store_marks(context, bool(row and row["finished"]), encode_mask(mask) if mask.any() else None)


def _marks_row(context: RequestContext) -> dict | None:
    query = "SELECT finished, normal FROM case_marks WHERE case_id = ? AND reader = ?"
    return context.store.one(query, [context.asked_case["id"], context.reader])


def _store_marks(context: RequestContext, finished: bool, normal: bytes | None) -> dict:
    store, case, reader = context.store, context.asked_case["id"], context.reader
    with store.write():
        before, after = case_marks(context), {"finished": finished, "normal": normal is not None}
        row = [case, reader, int(finished), normal, now()]
        store.execute("INSERT OR REPLACE INTO case_marks VALUES (?, ?, ?, ?, ?)", row)
        sha256 = {} if normal is None else {"sha256": hashlib.sha256(normal).hexdigest()}
        audit.record(
            store, reader, "marks", study=context.study, case_id=case, before=before, after={**after, **sha256}
        )
    return after


# Segmentation of a lesion from clicks, with features of a run's encoder. Features are cached, so that further clicks on
# the same image take hundredths of a second.

KEPT = 8  # images or windows whose features are cached
Window = tuple[int, int, int, int]


def segment(
    store: Store,
    case: dict,
    run: str,
    clicks: Sequence[tuple[float, float, bool]],
    window: Window | None = None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Segments the region that clicks select. Returns a mask, bool (H, W), which is empty without clicks.

    case: Row of the case.
    run: Id of the run whose encoder computes the features, or "" for the network installed with the studio.
    clicks: Points (x, y, positive) in pixels. Positive clicks lie inside the region, negative ones outside.
    window: Visible part (x0, y0, x1, y1) of the image, in which small lesions are segmented more precisely.
    start: Mask, bool (H, W), that the clicks correct, or None for a new region.

    Raises ValueError if all clicks are negative and there is no `start`, or if the window is smaller than 8 x 8 pixels.
    """
    from core.engine.segment.region import Click, refined, region

    shape = (case["height"], case["width"])
    if window is not None:
        x0, y0, x1, y1 = window
        window = (max(x0, 0), max(y0, 0), min(x1, shape[1]), min(y1, shape[0]))
    folder = _encoder_folder(store, run) if run else None
    cells = _lattice(folder, Source.of(case), window)
    if not clicks:
        return np.zeros(shape, bool)
    points = [Click(*xyp) for xyp in clicks]
    return region(cells, points, shape) if start is None else refined(cells, start, points)


@functools.lru_cache(maxsize=KEPT)
def _lattice(folder: Path | None, source: Source, window: Window | None):
    from core.engine.segment.region import lattice

    return lattice(_encoder(folder), source.image(), window)


def _encoder_folder(store: Store, run: str) -> Path | None:
    """Returns the folder of a run's encoder, or None if the run has no encoder of its own."""
    from core.engine.backbones.encoder import ABOUT

    row = runs.get_run(store, run)
    if row["kind"] != "pretrain" and row["parent"] is None:
        return None
    folder = runs.run_folder(store, encoder_run(store, run)["id"])
    return folder if (folder / ABOUT).is_file() else None


@functools.lru_cache(maxsize=2)
def _encoder(folder: Path | None):
    from core.engine.backbones.config import EncoderConfig
    from core.engine.backbones.embed import inference_copy
    from core.engine.backbones.encoder import build_encoder, load_encoder

    config = EncoderConfig(arch="efficientnet-lite0", init="auto")
    return inference_copy(load_encoder(folder, "cpu") if folder else build_encoder(config).eval())
