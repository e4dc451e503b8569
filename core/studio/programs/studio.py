"""A home as one object: studies in, encoders and detectors trained, images scored, worklist and decisions as tables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd
from typing_extensions import Self

from core.engine.files import locked
from core.engine.objectives.presets import PRETRAIN_DEFAULT, PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.ingest.studies import demand_free_name, import_study, list_studies, slug
from core.studio.jobs import here
from core.studio.jobs import queue as jobs
from core.studio.programs import looks
from core.studio.review import context
from core.studio.review import masks as lesion_masks
from core.studio.review.decisions import decide
from core.studio.review.worklist import Query, Worklist
from core.studio.runs import learnt, pipeline, results
from core.studio.runs import records as runs
from core.studio.runs.scoring import load_detector


class Studio:
    """A home: the folder with studies, runs and reviews that the page shows as well.

    home: its folder, made if it is not there; None for the platform's user-data folder, or $PMSACL_HOME.
    device: `auto`, `cpu` or `cuda:0`.

        with Studio("home") as studio:
            study = studio.import_folder("colon", "images")
            encoder = studio.pretrain(study, preset="quick")
            detector = studio.fit(encoder, "padim")
            readings = studio.score(detector)
    """

    def __init__(self, home: str | os.PathLike[str] | None = None, device: str = "auto") -> None:
        self.store, self.device = opening.open(Home.at(home)), device

    def close(self) -> None:
        """Close the database's connection."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def studies(self) -> pd.DataFrame:
        """List the studies, a row each: id, name, created, cases, masks."""
        columns = ["id", "name", "created", "cases", "masks"]
        return pd.DataFrame([{c: row[c] for c in columns} for row in list_studies(self.store)], columns=columns)

    def runs(self, study: str | None = None) -> pd.DataFrame:
        """List the runs, a row each: id, study, kind (`pretrain` or `fit`), method, name, status, created, seconds."""
        columns = ["id", "study", "kind", "method", "name", "status", "created", "seconds"]
        rows = runs.list_runs(self.store, study)
        return pd.DataFrame([{c: row[c] for c in columns} for row in rows], columns=columns)

    def import_folder(self, name: str, folder: str | os.PathLike[str], **options: Any) -> str:
        """Import a folder of images as a new study; returns its id.

        options: of `study import`: copy, layout, patients. Raises ValueError if the name is in use or nothing can be
        read.
        """
        return import_study(self.store, name, folder, by="program", **options).study

    def import_arrays(
        self,
        name: str,
        normal: Sequence[np.ndarray],
        test: Sequence[np.ndarray] = (),
        abnormal: Sequence[bool] = (),
        masks: Sequence[np.ndarray | None] = (),
    ) -> str:
        """Import images uint8 (H, W, 3) as a new study; returns its id. They are written as PNG into the home.

        normal: to learn from. test: to score, with whether each is abnormal and its lesion mask (H, W), where known;
        without `abnormal` nothing is known of them. Raises ValueError for arrays that are no images.
        """
        if abnormal and len(abnormal) != len(test) or masks and len(masks) != len(test):
            raise ValueError("abnormal and masks say something of each test image, or are left out")
        folder = self.store.home.files / slug(name)
        with locked(folder):
            demand_free_name(self.store, folder.name)
            shutil.rmtree(folder, ignore_errors=True)  # what an import that was killed left
            for i, image in enumerate(normal):
                _write(folder / "train/normal" / f"{i:06d}.png", image)
            for i, image in enumerate(test):
                kind = "unknown" if not len(abnormal) else "abnormal" if abnormal[i] else "normal"
                _write(folder / "test" / kind / f"{i:06d}.png", image)
                mask = masks[i] if len(masks) else None
                if mask is not None and mask.any():
                    _write(folder / "test/mask" / f"{i:06d}.png", (np.asarray(mask) > 0).astype(np.uint8) * 255)
            return import_study(self.store, name, folder, by="program").study

    def pretrain(self, study: str, preset: str = PRETRAIN_DEFAULT, name: str | None = None, **settings: Any) -> str:
        """Train an encoder on a study's normal images; returns the run's id once it is done.

        preset: `imagenet`, `quick` or `paper`. settings: any of its configuration, as `epochs=2` or
        `**{"medmix.k": 2}`. Raises ValueError for one that there is not.
        """
        if preset not in PRETRAIN_PRESETS:
            raise ValueError(f"there is no preset {preset!r}; there are: {', '.join(PRETRAIN_PRESETS)}")
        run = pipeline.create_pretrain(self.store, study, PRETRAIN_PRESETS[preset].replace(**settings), name)
        return self._worked(run, pipeline.chain(pretrain=run, device=self.device))

    def pretrained(self, study: str, arch: str = "efficientnet-lite0", size: int = 224, init: str = "auto") -> str:
        """Make a run of an encoder as it comes, without a training on the study; returns the run's id.

        init `random`: untrained.
        """
        run = pipeline.create_untrained(self.store, study, size, init=init, arch=arch)
        return self._worked(run, pipeline.chain(pretrain=run, device=self.device))

    def fit(
        self,
        encoder: str,
        detector: str = "blend-head",
        preset: str | None = None,
        name: str | None = None,
        **settings: Any,
    ) -> str:
        """Fit a detector on an encoder's run; returns the run's id. settings: any of its configuration."""
        config = DETECTORS.get(detector).preset(preset).replace(**settings)
        run = pipeline.create_fit(self.store, encoder, detector, config, name)
        return self._worked(run, pipeline.chain(fits=[run], score=False, evaluate=False, device=self.device))

    def score(self, run: str, images: Sequence[np.ndarray] | None = None) -> pd.DataFrame:
        """Score cases or images by a fit; a row each.

        Without images: its study's held-out and test cases, which the page then shows too. images: uint8 (H, W, 3) of
        any size, of which nothing is kept. Columns: score, percentile and flagged inside the region of interest
        (percentile and flagged once the study was scored); of cases also case, name, split, label.
        """
        if images is not None:
            return self._score_arrays(run, images)
        self._worked(run, [{"step": "score", "run": run, "args": {"device": self.device, "steady": False}}])
        query = (
            "SELECT c.id AS 'case', c.name, c.split, c.label, r.score_roi AS score, r.percentile_roi AS percentile, "
            "r.flagged_roi AS flagged FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? ORDER BY c.id"
        )
        return _flags(pd.DataFrame(self.store.query(query, [run])))

    def heat_maps(self, run: str, images: Sequence[np.ndarray]) -> np.ndarray:
        """Compute heat maps float32 (N, h, w) of images uint8 (H, W, 3), on the detector's own grid.

        Larger is more abnormal.
        """
        return np.concatenate([maps for maps, _ in self._looked(run, images)])

    def _score_arrays(self, run: str, images: Sequence[np.ndarray]) -> pd.DataFrame:
        return looks.scored(self.store, run, [scores["roi"] for _, scores in self._looked(run, images)])

    def _looked(self, run: str, images: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        detector = load_detector(self.store, run, self.device)
        return looks.looked(self.store, detector, run, [_image(image) for image in images])

    def evaluate(self, run: str, roi: bool = True, bootstrap: int = 1000) -> dict[str, Any]:
        """Evaluate a scored run: AUROC, sensitivity, Dice and the rest, with intervals; as `evaluate` prints them."""
        return results.evaluate_run(self.store, run, roi, "held-out", bootstrap=bootstrap)

    def learn(self, run: str, reader: str | None = None, **settings: Any) -> str:
        """Learn on from a scored fit by what readers marked; returns the new fit's id, scored and compared.

        settings: options that differ from the usual ones; `tune=0` leaves the encoder as it is, in a third of the time.
        """
        learnt_run = learnt.create_learnt(self.store, run, reader, **settings)
        return self._worked(learnt_run, learnt.steps(learnt_run, self.device))

    def worklist(self, study: str, run: str | None = None, reader: str = "reader", **asked: Any) -> pd.DataFrame:
        """Return the worklist of a study, most urgent first, as a reader of the page sees it.

        asked: sort, splits, flagged, decision, label, text, ... of `review.worklist.Query`.
        """
        with context.reading(self.store, reader, study=study, run=run, single_user=True) as request:
            listed = Worklist(request, Query(**asked))
            rows, after = [], None
            while True:
                page = listed.page(after)
                rows += page["rows"]
                after = page["cursor"]
                if not after:
                    return pd.DataFrame(rows)

    def decide(self, case: int, decision: str, reader: str, comment: str = "", run: str | None = None) -> None:
        """Store a reader's decision on a case: `normal`, `abnormal` or `unsure`; in the audit trail as any other."""
        with context.writing(self.store, reader, case_id=case, run=run, single_user=True) as request:
            decide(request, decision, comment=comment)

    def mark(self, case: int, mask: np.ndarray, reader: str, note: str = "") -> None:
        """Store a reader's lesion mask (H, W) of a case, of its image's size, as a new version."""
        with context.writing(self.store, reader, case_id=case, single_user=True) as request:
            lesion_masks.save(request, np.asarray(mask) > 0, note=note)

    def decisions(self, study: str) -> pd.DataFrame:
        """List the decisions that count, a row each: case, name, reader, stage, decision, comment, created, run."""
        query = (
            "SELECT v.case_id AS 'case', c.name, v.reader, v.stage, v.decision, v.comment, v.created, v.run "
            "FROM current_reviews k JOIN reviews v ON v.id = k.review_id JOIN cases c ON c.id = v.case_id "
            "WHERE c.study = ? ORDER BY v.id"
        )
        columns = ["case", "name", "reader", "stage", "decision", "comment", "created", "run"]
        return pd.DataFrame(self.store.query(query, [study]), columns=columns)

    def _worked(self, run: str, steps: list[dict[str, Any]]) -> str:
        """Do a job's steps in this process; returns the run's id. Raises RuntimeError with the job's sentence."""
        row = here.execute(self.store, jobs.submit(self.store, steps, start=False))
        if row["status"] != "done":
            raise RuntimeError(f"{run}: {row['error'] or row['message'] or row['status']}")
        return run


def _image(image: np.ndarray) -> np.ndarray:
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise ValueError(f"an image is uint8 (H, W, 3) or (H, W), not {image.dtype} {image.shape}")
    return np.repeat(image[..., None], 3, 2) if image.ndim == 2 else image


def _write(file: Path, image: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(cv2.imencode(".png", _image(image)[..., ::-1])[1].tobytes())


def _flags(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(flagged=frame["flagged"].astype(bool)) if len(frame) else frame
