"""The search for MedMix settings whose synthetic lesions look like chosen real lesions, which runs as a job.

The real lesions are annotated on cases of a study, or outlined on images dropped on the page. Of dropped images, only
the outline and a hash are stored. The search is implemented in core/engine/augment/matching.py, and its results are in
the table `matches`. A preset that is made from a search, and each training run with this preset, lists the hashes of
the images (`MedMixConfig.matched`). Like training images, these images are excluded when a run is evaluated.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from core.engine.augment.config import MedMixConfig
from core.engine.augment.matching import ENCODER, NORMALS, SIDE, Lesions, Match, Search, imagenet_features
from core.engine.files import file_sha256
from core.engine.progress import Stopped
from core.engine.tensors import to_batch
from core.studio.db import limits
from core.studio.db.home import Home
from core.studio.db.store import NotFound, Store, now
from core.studio.ingest import uploads
from core.studio.ingest.decode import read_image
from core.studio.ingest.masks import decode_mask, reference_masks
from core.studio.ingest.originals import shown
from core.studio.ingest.patients import patients_of
from core.studio.ingest.studies import study_row
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import Work
from core.studio.medmix import presets
from core.studio.medmix.preview import Samples
from core.studio.runs import marks

MOST = 20  # maximum number of lesions
SECONDS = 60.0
LONGEST = 3600.0
WRITE = 0.5  # seconds between two results that are stored
NOTHING_YET = "the search has no result yet: wait a moment"
LEAST_AREA = 1e-5  # minimum area of an outline, as a fraction of the image
KEPT = 50  # maximum number of searches stored for a study; the oldest are deleted

Outline = tuple[tuple[float, float], ...]  # points (x, y), as fractions of the image's width and height


def offered(store: Store, study: str) -> list[dict[str, Any]]:
    """Lists the cases of a study whose lesions can be matched, ordered by id: [{"case", "name", "kind", "mask"}].

    kind is "reference" for a reference mask, or "readers" for an accepted mask of a reader; mask is the id of the mask.
    Cases of an open trial or blind session are excluded.
    """
    by_case = {row["case_id"]: ("readers", row["mask"]) for row in marks.accepted(store, study)}
    by_case |= {case: ("reference", mask) for case, mask in reference_masks(store, study).items()}
    rows = store.query(
        "SELECT id, name FROM cases c WHERE split = 'test' AND id IN (SELECT value FROM json_each(?)) "
        f"AND NOT {marks.HELD_BACK} ORDER BY id",
        [json.dumps(list(by_case))],
    )
    return [
        {"case": r["id"], "name": r["name"], "kind": by_case[r["id"]][0], "mask": by_case[r["id"]][1]} for r in rows
    ]


@dataclass(frozen=True)
class Drawn:
    """A lesion outlined on a dropped image. The image is identified by the upload's token and the file's SHA-256."""

    drop: str
    sha256: str
    outline: Outline


@dataclass(frozen=True)
class MatchRequest:
    """Request to search for MedMix settings that match the lesions on `cases` and the lesions in `drawn`.

    The search ends after `seconds`. With `tries`, it ends after this number of settings, which is reproducible.
    """

    study: str
    cases: tuple[int, ...]
    seconds: float = SECONDS
    tries: int | None = None
    seed: int = 0
    drawn: tuple[Drawn, ...] = ()

    @classmethod
    def read(cls, text: str) -> MatchRequest:
        """Returns the request that was stored as a JSON text."""
        stored = json.loads(text)
        drawn = tuple(Drawn(d["drop"], d["sha256"], tuple(map(tuple, d["outline"]))) for d in stored.get("drawn", []))
        return cls(**{**stored, "cases": tuple(stored["cases"]), "drawn": drawn})

    @property
    def count(self) -> int:
        """The number of lesions to match."""
        return len(self.cases) + len(self.drawn)

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.cases)) + len(set(self.drawn)) == self.count <= MOST:
            raise ValueError(f"choose 1 to {MOST} different lesions to match, not {self.count}")
        if not 1 <= self.seconds <= LONGEST:
            raise ValueError(f"a search takes 1 to {LONGEST:.0f} seconds, not {self.seconds:g}")


def begin(store: Store, asked: MatchRequest, start: bool = True) -> dict[str, Any]:
    """Queues a search and returns its id and the id of its job: {"match", "job"}.

    Raises ValueError if a case has no lesion that can be matched, or if the study has no normal training image.
    """
    study_row(store, asked.study)
    can_match = {row["case"] for row in offered(store, asked.study)}
    missing = [case for case in asked.cases if case not in can_match]
    if missing:
        raise ValueError(f"case {missing[0]} has no reference or accepted mask that can be matched")
    if not store.one("SELECT 1 FROM cases WHERE study = ? AND split = 'train' AND label = 'normal'", [asked.study]):
        raise ValueError("this study has no normal training images to paste lesions into")

    def chain() -> list[dict[str, Any]]:
        going = "status IN ('queued', 'running') AND json_extract(chain, '$[0].step') = 'match'"
        limits.demand_rows(store, "search", "jobs", going, [])
        old = "SELECT id FROM matches WHERE study = ? ORDER BY created DESC, rowid DESC LIMIT -1 OFFSET ?"
        store.execute(f"DELETE FROM matches WHERE id IN ({old})", [asked.study, KEPT - 1])
        match = secrets.token_hex(6)
        row = {"id": match, "study": asked.study, "created": now(), "asked": json.dumps(asdict(asked))}
        store.db.table("matches").insert(row)
        return [{"step": "match", "args": {"match": match}}]

    job = jobs.once(store, ["match", asdict(asked)], chain, start)
    return {"match": job["chain"][0]["args"]["match"], "job": job["id"]}


def get(store: Store, match: str) -> dict[str, Any]:
    """Returns a search with its request and its results so far: {"id", "study", "created", "asked", "state", "job"}.

    state: Fields of `Match`, "done" (whether the search is finished) and "history" ([[seconds, distance]]). It is empty
    before the first result, and some fields are missing until the search has ended.
    job: Id, status and error of the search's newest job, or None.
    """
    row = store.one("SELECT * FROM matches WHERE id = ?", [match])
    if row is None:
        raise NotFound(f"unknown match {match!r}")
    job = store.one(
        "SELECT id, status, error FROM jobs WHERE json_extract(chain, '$[0].args.match') = ? ORDER BY id DESC LIMIT 1",
        [match],
    )
    return {**row, "asked": MatchRequest.read(row["asked"]), "state": json.loads(row["state"]), "job": job}


def latest(store: Store, study: str) -> str | None:
    """Returns the id of the study's newest search, or None if there is no search."""
    row = store.one("SELECT id FROM matches WHERE study = ? ORDER BY created DESC, rowid DESC LIMIT 1", [study])
    return row["id"] if row else None


def patch(store: Store, study: str, case: int) -> np.ndarray:
    """Returns the image patch around a case's lesion, uint8 (PATCH, PATCH, 3). Raises NotFound without a lesion."""
    masks = {row["case"]: row["mask"] for row in offered(store, study)}
    if case not in masks:
        raise NotFound(f"case {case} has no lesion that can be matched")
    return _lesions(store, study, {case: masks[case]}).patches[0]


def dropped_file(home: Home, drop: str, name: str) -> Path:
    """Returns the path of a dropped file. Raises BadDrop if the file is no longer stored."""
    path = uploads.path_of(home, drop, name)
    if not path.is_file():
        raise uploads.BadDrop("this file is no longer stored; drop it again")
    return path


def outlined(home: Home, drop: str, name: str, outline: Outline) -> Drawn:
    """Returns a lesion outlined on a dropped image. Raises ValueError if the file is gone or the outline is empty."""
    if len(outline) < 3 or cv2.contourArea(np.clip(np.array(outline, np.float32), 0, 1)) < LEAST_AREA:
        raise ValueError("the outline encloses nothing: draw it around the lesion")
    return Drawn(drop, file_sha256(dropped_file(home, drop, name)), outline)


def _filled(outline: Outline, shape: tuple[int, int]) -> np.ndarray:
    """Returns the mask of an outline, uint8 (H, W), which is 1 inside the outline."""
    points = np.array(outline) * (shape[1], shape[0]) - 0.5
    return cv2.fillPoly(np.zeros(shape, np.uint8), [np.clip(points, -1, max(shape)).round().astype(np.int32)], 1)


def _dropped(home: Home, drawn: Drawn) -> Path:
    """Finds a dropped image by its hash. Raises ValueError if the image is gone."""
    try:
        files = [file for file in uploads.drop_folder(home, drawn.drop).rglob("*") if file.is_file()]
    except uploads.BadDrop:
        files = []
    for file in files:
        if file_sha256(file) == drawn.sha256:
            return file
    raise ValueError("an image with an outlined lesion is no longer stored: drop it again")


def matched(work: Work) -> None:
    """Runs a search as a step of a job. A stopped search resumes from its best result, for the remaining seconds."""
    store, match = work.store, work.args["match"]
    before = get(store, match)
    asked, state = before["asked"], before["state"]
    spent, history, written = state.get("seconds", 0.0), state.get("history", []), 0.0
    warm = [MedMixConfig.from_dict(state["config"])] if state else []
    rows = store.query(
        "SELECT DISTINCT sha256 FROM cases WHERE id IN (SELECT value FROM json_each(?)) AND sha256 IS NOT NULL "
        "ORDER BY sha256",
        [json.dumps(asked.cases)],
    )
    contents = tuple(sorted({row["sha256"] for row in rows} | {drawn.sha256 for drawn in asked.drawn}))

    def keep(result: dict[str, Any]) -> None:
        config = result["config"].replace(matched=contents).to_dict()
        stored = {**result, "config": config, "seconds": spent + result["seconds"], "history": history}
        store.execute("UPDATE matches SET state = ? WHERE id = ?", [json.dumps(stored), match])

    def report(result: dict[str, Any]) -> None:
        nonlocal written
        step = result["tries"] if asked.tries else min(result["seconds"], left)
        message = f"{result['tries']} tried, distance {result['after']:.2f} (before {result['before']:.2f})"
        work.report({"step": step, "steps": asked.tries or left, "message": message})
        better = not history or result["after"] < history[-1][1]
        if better:
            history.append([round(spent + result["seconds"], 1), round(result["after"], 4)])
        if better or time.monotonic() - written > WRITE:
            written = time.monotonic()
            keep({**result, "done": False})

    left = max(1.0, asked.seconds - spent)
    search = _search(store, asked)
    result = search.run(left, asked.tries, warm, report, work.should_stop)
    stopped = work.should_stop()
    keep(
        {
            **asdict(result),
            "config": result.config,
            "words": result.words,
            "note": _note(result, asked),
            "done": not stopped,
        }
    )
    if stopped:
        raise Stopped


def _search(store: Store, asked: MatchRequest) -> Search:
    """Prepares a search with its lesions and normal images."""
    mask_of = {row["case"]: row["mask"] for row in offered(store, asked.study)}
    gone = [case for case in asked.cases if case not in mask_of]
    if gone:
        raise ValueError(f"case {gone[0]} no longer has a mask that can be matched: start again without it")
    lesions = _lesions(store, asked.study, {case: mask_of[case] for case in asked.cases}, asked.drawn)
    samples = Samples(store, most=NORMALS)
    images, roi = samples.load(
        list({c["id"]: c for c in samples.normals(asked.study, asked.seed, NORMALS)}.values()), SIDE
    )
    return Search(
        to_batch(images, torch.device("cpu")), torch.from_numpy(roi), lesions, imagenet_features(), asked.seed
    )


def _lesions(store: Store, study: str, masks: dict[int, int], drawn: tuple[Drawn, ...] = ()) -> Lesions:
    cases = np.array(list(masks), int)
    whose = patients_of(store, study, cases)
    units = range(len(cases)) if whose is None else whose.tolist()
    rows = [store.first("SELECT path, frame, scale FROM cases WHERE id = ?", [int(case)]) for case in cases]
    pngs = [store.first("SELECT png FROM lesion_masks WHERE id = ?", [mask])["png"] for mask in masks.values()]
    images = [read_image(_dropped(store.home, lesion)) for lesion in drawn]
    return Lesions.of(
        [*map(shown, rows), *images],
        [*map(decode_mask, pngs), *(_filled(d.outline, i.shape[:2]) for d, i in zip(drawn, images, strict=True))],
        [*units, *range(len(cases), len(cases) + len(drawn))],  # the patients of dropped images are unknown
    )


def _note(result: Match, asked: MatchRequest) -> str:
    """Returns a sentence on the origin of a preset, for the list of presets."""
    count = f"{asked.count} lesion{'s' * (asked.count > 1)}"
    rest = "unknown for other lesions" if result.left_out is None else f"{result.left_out:.2f} on held-out lesions"
    return f"Matched to {count}: distance {result.after:.2f} (preset {result.preset}: {result.before:.2f}), {rest}"


def save(store: Store, match: str, name: str, reader: str | None = None) -> dict[str, Any]:
    """Saves the best settings of a search as a preset and returns it. Raises ValueError if there is no result yet."""
    state = get(store, match)["state"]
    if not state:
        raise ValueError(NOTHING_YET)
    return presets.save_preset(store, name, "medmix", state["config"], state.get("note", ""), reader)


def as_json(store: Store, match: str, name: str, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns the result of a search for export: the contents of a preset's file, and its origin.

    config: Settings to export, if a user has changed some after the search. Defaults to the best settings.
    Raises ValueError if there is no result yet.
    """
    result = get(store, match)
    state, asked = result["state"], result["asked"]
    if not state:
        raise ValueError(NOTHING_YET)
    rows = store.query(
        "SELECT name FROM cases WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", [json.dumps(asked.cases)]
    )
    figures = ("preset", "before", "after", "left_out", "left_out_before", "settings", "words", "tries", "seconds")
    origin = {key: state.get(key) for key in figures} | {"study": asked.study, "seed": asked.seed, "encoder": ENCODER}
    origin |= {"lesions": [row["name"] for row in rows], "outlined": [drawn.sha256 for drawn in asked.drawn]}
    settings = presets.checked("medmix", config or state["config"])
    return {"preset": name, "strong": "medmix", "note": state.get("note", ""), "config": settings, "origin": origin}
