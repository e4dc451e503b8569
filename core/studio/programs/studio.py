"""A home as one object: studies in, encoders and detectors trained, images scored, worklist and decisions as tables."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

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
from core.studio.runs import exported, learnt, operating, pipeline, results
from core.studio.runs import records as runs
from core.studio.runs.scoring import load_detector

Images: TypeAlias = "np.ndarray | str | os.PathLike[str] | Sequence[looks.Image]"


class Studio:
    """A home: the folder with studies, runs and reviews that the page shows as well.

    Args:
        home: Its folder, made if it is not there; None for the platform's user-data folder, or $PMSACL_HOME.
        device: `auto`, `cpu` or `cuda:0`.

    Example:
        >>> from pmsacl_studio import Studio, draw_case
        >>> normal = [draw_case((0, i), 48).image for i in range(16)]
        >>> abnormal = [draw_case((1, i), 48, lesions=1).image for i in range(4)]
        >>> with Studio("home", device="cpu") as studio:
        ...     study = studio.import_arrays("drawn", normal, test=abnormal, abnormal=[True] * 4)
        ...     encoder = studio.pretrained(study, "resnet18", size=48, init="random")
        ...     run = studio.fit(encoder, "padim")
        ...     cases = studio.score(run)
        ...     one = studio.score(run, abnormal[0])
        ...     card = studio.export_run(run, "model")
        >>> list(one.columns), len(one)
        (['score', 'threshold', 'percentile', 'flagged'], 1)
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
        normal: Images,
        test: Images = (),
        abnormal: bool | Sequence[bool] | np.ndarray = (),
        masks: Sequence[np.ndarray | None] | np.ndarray = (),
    ) -> str:
        """Imports images as a new study; returns its id. They are written as PNG into the home.

        Args:
            name: Name of the study, which no other has.
            normal: Images to learn from, one or many: arrays uint8 (H, W, 3) or (H, W), files, or a folder.
            test: Images to score.
            abnormal: Whether each test image is abnormal; left out where it is not known.
            masks: The lesion mask (H, W) of each test image, or None; left out where there are none.

        Raises:
            ValueError: If an image is none, the lengths differ, or the name is in use.
        """
        shown, judged = looks.listed(normal, "normal"), looks.listed(test, "test")
        truth, outlines = np.atleast_1d(np.asarray(abnormal)), list(masks)
        for what, values in (("abnormal", truth), ("masks", outlines)):
            if len(values) not in (0, len(judged)):
                raise ValueError(f"{what} holds one value for each of the {len(judged)} test images, not {len(values)}")
        if len(truth) and not np.isin(truth, (0, 1)).all():
            raise ValueError(f"abnormal is True or False for each test image, not {truth.dtype} {truth.shape}")
        pictures = [looks.opened(image) for image in (*shown, *judged)]  # all of them before the first file is written
        for i, mask in enumerate(outlines):
            if mask is not None and np.shape(mask) != pictures[len(shown) + i].shape[:2]:
                raise ValueError(
                    f"masks[{i}] is {np.shape(mask)}, its image {pictures[len(shown) + i].shape[:2]}: they must agree"
                )
        folder = self.store.home.files / slug(name)
        with locked(folder):
            demand_free_name(self.store, folder.name)
            shutil.rmtree(folder, ignore_errors=True)  # what an import that was killed left
            for i, image in enumerate(pictures[: len(shown)]):
                _write(folder / "train/normal" / f"{i:06d}.png", image)
            for i, image in enumerate(pictures[len(shown) :]):
                kind = "unknown" if not len(truth) else "abnormal" if truth[i] else "normal"
                _write(folder / "test" / kind / f"{i:06d}.png", image)
                mask = np.asarray(outlines[i]) > 0 if len(outlines) and outlines[i] is not None else np.zeros(1)
                if mask.any():
                    _write(folder / "test/mask" / f"{i:06d}.png", mask.astype(np.uint8) * 255)
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

    def score(self, run: str, images: Images | None = None) -> pd.DataFrame:
        """Scores cases or images by a fit; returns a table with a row each.

        Its columns, all inside the region of interest: score; threshold, the score above which the run's operating
        point flags an image; percentile, of the held-out normals; flagged. The last three are there once the study was
        scored. Cases also have case, name, split and label, files have file.

        Args:
            run: Id of the fit.
            images: One image or many, of which nothing is kept: arrays uint8 (H, W, 3) or (H, W) of any size, files, or
                a folder. None: the study's held-out and test cases, which the page then shows too.

        Raises:
            ValueError: If the run is no finished fit, or an image cannot be read.
        """
        if images is not None:
            given = looks.listed(images)
            frame = looks.scored(self.store, run, [scores["roi"] for _, scores in self._looked(run, given)])
            if given and all(isinstance(image, (str, os.PathLike)) for image in given):
                frame.insert(0, "file", [str(image) for image in given])
            return frame
        self._worked(run, [{"step": "score", "run": run, "args": {"device": self.device, "steady": False}}])
        query = (
            "SELECT c.id AS 'case', c.name, c.split, c.label, r.score_roi AS score, r.percentile_roi AS percentile, "
            "r.flagged_roi AS flagged FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? ORDER BY c.id"
        )
        frame = pd.DataFrame(self.store.query(query, [run])).astype({"flagged": bool})
        frame.insert(5, "threshold", self.operating_point(run)["threshold"])
        return frame

    def heat_maps(self, run: str, images: Images) -> np.ndarray:
        """Computes heat maps float32 (N, h, w) of images, given as to `score`, on the detector's own grid.

        Larger is more abnormal.
        """
        return np.concatenate([maps for maps, _ in self._looked(run, looks.listed(images))])

    def _looked(self, run: str, images: Sequence[looks.Image]) -> Iterator[looks.Looked]:
        return looks.looked(self.store, load_detector(self.store, run, self.device), run, images)

    def operating_point(self, run: str) -> dict[str, Any]:
        """Returns the operating point of a fit: `threshold`, the score above which it flags, `source` and `words`.

        Raises ValueError if the run has not been scored: there are no thresholds yet.
        """
        runs.get_run(self.store, run)  # raises NotFound
        point = operating.in_effect(self.store, run)[run]
        level = operating.level_of(self.store, run, point)
        if level is None:
            raise ValueError(f"{run} has no thresholds yet: score({run!r}) sets them by the held-out normals")
        return {"threshold": level, "source": point.source, "words": point.words}

    def flag_above(self, run: str, threshold: float | None, reader: str = "program") -> None:
        """Moves the operating point of a scored fit to a score; None goes back to the usual percentile.

        All lists, figures and exports follow it, and it is in the audit trail.
        """
        self.operating_point(run)  # raises ValueError if there is none
        if threshold is not None and not np.isfinite(threshold):
            raise ValueError(f"threshold is a finite score, or None for the usual one, not {threshold}")
        study = runs.get_run(self.store, run)["study"]
        operating.choose(self.store, study, run, "default" if threshold is None else "dragged", threshold, reader)

    def export_run(self, run: str, out: str | os.PathLike[str]) -> dict[str, Any]:
        """Writes a finished fit to a folder, from which `Screen` scores anywhere; returns the model's card.

        Raises ValueError if the folder holds anything, or the run is no finished fit.
        """
        return exported.export_run(self.store, run, Path(out))

    def import_model(self, folder: str | os.PathLike[str], study: str, name: str | None = None) -> str:
        """Imports a folder that `export_run` wrote into a study; returns the id of the new fit.

        Raises ValueError if the folder is no exported model, or was changed.
        """
        return exported.import_model(self.store, Path(folder), study, name)["fit"]

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


def _write(file: Path, image: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(cv2.imencode(".png", looks.opened(image)[..., ::-1])[1].tobytes())
