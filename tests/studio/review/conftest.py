"""A study of small drawn images with lesion masks and the readings of two made-up runs; and a large one of rows
alone."""

from __future__ import annotations

import contextlib
import json
import random
import zlib

import cv2
import numpy as np
import pytest

from core.engine.calibration.percentiles import PixelScale
from core.studio.db import opening
from core.studio.db.store import now
from core.studio.ingest import studies
from core.studio.ingest.masks import decode_mask
from core.studio.review import decisions, masks
from core.studio.review.context import RequestContext
from core.studio.review.worklist import Query, Worklist
from core.studio.runs import records as runs

STUDY = "room"
# What a blind reader who has not decided gets of a case; of the findings their own alone.
HIDDEN = {"id", "study", "v", "width", "height", "bits", "name", "blind", "mine", "findings"}
LARGE = 137  # cases of the study `large`


def asks(store, reader: str = "ann", **asked) -> RequestContext:
    """What a request of a reader knows; asked: study, case_id, run."""
    return RequestContext.read(store, reader, **asked)


def decide(store, case_id: int, reader: str, decision: str, run: str | None = None, **more) -> dict:
    """A reader's decision on a case."""
    return decisions.decide(asks(store, reader, case_id=case_id, run=run), decision, **more)


def save_mask(store, case_id: int, mask, reader: str, run: str | None = None, **more) -> dict:
    """A reader's lesion mask of a case."""
    return masks.save(asks(store, reader, case_id=case_id, run=run), mask, **more)


def mask_pixels(store, mask_id: int) -> np.ndarray:
    """A stored lesion mask, uint8 (H, W)."""
    return decode_mask(store.first("SELECT png FROM lesion_masks WHERE id = ?", [mask_id])["png"])


def list_of(store, query: Query | None = None, reader: str = "ann", study: str = "large", run="r") -> Worklist:
    """A reader's worklist."""
    return Worklist(asks(store, reader, study=study, run=run), query or Query())


def add_readings(store, study: str, method: str, seed: int = 0) -> str:
    """A finished fit with a 16 x 16 heat map of every held-out and test case; larger scores for abnormal cases."""
    rng = np.random.default_rng(seed)
    run = runs.create_run(store, study, "fit", method, {})
    cases = store.query("SELECT * FROM cases WHERE study = ? AND split != 'train' ORDER BY id", [study])
    maps = {c["id"]: rng.normal(0.3, 0.05, (16, 16)) + (c["label"] == "abnormal") * rng.uniform(0, 0.4) for c in cases}
    held = np.sort([maps[c["id"]].max() for c in cases if c["split"] == "holdout"] or [0.45])
    with store.write() as db:
        for c in cases:
            heat = maps[c["id"]]
            low, high = float(heat.min()), float(heat.max())
            codes = np.rint((heat - low) / (high - low) * 65535).astype("<u2")
            percentile = 100 * float(np.searchsorted(held, high)) / len(held)
            db["readings"].insert(
                {
                    "run": run, "case_id": c["id"], "score": high, "score_roi": high, "percentile": percentile,
                    "percentile_roi": percentile, "flagged": int(percentile >= 95), "flagged_roi": int(percentile >=
                    95),
                    "map": zlib.compress(codes.tobytes()), "map_h": 16, "map_w": 16, "map_lo": low, "map_hi": high,
                    "created": now(),
                }
            )  # fmt: skip
    usual = [maps[c["id"]] for c in cases if c["split"] == "holdout"] or list(maps.values())
    low, threshold, high = np.percentile(usual, (50, 99, 99.5))
    scale = PixelScale(low, 2 * high - low, threshold)
    runs.update_run(store, run, status="done", summary={"pixels": scale._asdict()})
    return run


def draw_folder(folder, train: int = 10, normal: int = 6, abnormal: int = 6):
    """PNG files of 72 x 60 pixels in the plain layout."""
    rng = np.random.default_rng(0)
    for part, count in (("train/normal", train), ("test/normal", normal), ("test/abnormal", abnormal)):
        (folder / part).mkdir(parents=True)
        letter = "t" if part.startswith("train") else part[5]
        for i in range(count):
            image = cv2.resize(rng.integers(60, 200, (6, 6, 3), np.uint8), (72, 60), interpolation=cv2.INTER_CUBIC)
            if part == "test/abnormal":
                mask = np.zeros((60, 72), np.uint8)
                cv2.circle(
                    mask, (int(rng.integers(20, 50)), int(rng.integers(20, 40))), int(rng.integers(4, 14)), 255, -1
                )
                image[mask > 0] = (20, 40, 220)
                (folder / "test/mask").mkdir(exist_ok=True)
                cv2.imwrite(str(folder / "test/mask" / f"{letter}{i:02}.png"), mask)
            cv2.imwrite(str(folder / part / f"{letter}{i:02}.png"), image)
    return folder


@contextlib.contextmanager
def drawn_home(folder, *counts: int):
    """(store, run): a home with the study `room`, scored once. counts: as for `draw_folder`."""
    store = opening.open(str(folder / "home"))
    studies.import_study(store, STUDY, draw_folder(folder / "images", *counts), copy=True)
    yield store, add_readings(store, STUDY, "padim")
    store.close()


@pytest.fixture
def room(tmp_path):
    """A `drawn_home` of few cases."""
    with drawn_home(tmp_path) as home:
        yield home


def fill(store, n: int, study: str = "large", reviewed: int = 0) -> list[int]:
    """Rows of a study with n test cases, one scored run called `r` and two readers' reviews of the first cases."""
    draw = random.Random(0)
    with store.write() as db:
        db.execute("INSERT INTO studies (id, name, created) VALUES (?, ?, ?)", [study, study, now()])
        db.execute(
            "INSERT INTO runs (id, study, kind, name, method, created, status) VALUES ('r', ?, 'fit', 'r', "
            "'padim', ?, 'done')",
            [study, now()],
        )
        db.conn.executemany(
            'INSERT INTO cases (study, name, path, split, label, width, height, bits, sha256, "row", added, tags) '
            "VALUES (?, ?, ?, 'test', 'unknown', 512, 512, 8, ?, ?, ?, ?)",
            (
                (study, f"image-{draw.randrange(10**9):09}.png", f"/nowhere/{i}", f"{draw.getrandbits(256):064x}", i,
                now(),
                 json.dumps(["odd"] if i % 2 else []))
                for i in range(n)
            ),
        )  # fmt: skip
        ids = [row[0] for row in db.execute("SELECT id FROM cases WHERE study = ? ORDER BY id", [study])]
        scored = [(i, round(draw.random(), 3)) for i in ids if i % 10]  # ties on purpose, and a tenth not scored
        db.conn.executemany(
            "INSERT INTO readings (run, case_id, score, score_roi, percentile, percentile_roi, flagged, "
            "flagged_roi, created) "
            "VALUES ('r', ?, ?, ?, ?, ?, ?, ?, ?)",
            ((i, s, s, 100 * s, 100 * s, int(s > 0.95), int(s > 0.95), now()) for i, s in scored),
        )
        db.conn.executemany(
            "INSERT INTO next_marks (run, case_id, value, why) VALUES ('r', ?, ?, 'drawn by chance')",
            ((i, draw.randrange(10**6)) for i in ids if i % 3),
        )
        for reader in ("ann", "ben"):
            db.conn.executemany(
                "INSERT INTO reviews (case_id, reader, decision, created) VALUES (?, ?, ?, ?)",
                ((i, reader, draw.choice(["normal", "abnormal", "unsure"]), now()) for i in ids[:reviewed]),
            )
    return ids


@pytest.fixture
def bare(tmp_path):
    """A store without any study."""
    store = opening.open(str(tmp_path / "bare"))
    yield store
    store.close()


@pytest.fixture
def large(bare):
    """A store with the study `large`, of whose cases 60 are read by both readers."""
    fill(bare, LARGE, reviewed=60)
    return bare


def every_page(listed: Worklist, size: int, backwards: bool = False) -> list[int]:
    """The ids of the whole list, page by page."""
    ids, after = [], None
    while True:
        page = listed.page(after, size, backwards)
        ids += [r["id"] for r in page["rows"]]
        after = page["cursor"]
        if after is None:
            return ids
