"""The studio as one object for programs: imports studies, trains encoders, fits detectors, scores images."""

from __future__ import annotations

import operator
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
import pandas as pd
from typing_extensions import Self

from core.engine.files import locked
from core.engine.objectives.presets import PRETRAIN_DEFAULT, PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.engine.tensors import pick_device
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.ingest.studies import demand_free_name, import_study, list_studies, show_study, slug
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.programs import looks
from core.studio.review import context
from core.studio.review import masks as lesion_masks
from core.studio.review.cases import scored_runs
from core.studio.review.decisions import decide
from core.studio.review.worklist import Query, Worklist
from core.studio.runs import exported, learnt, operating, pipeline, results
from core.studio.runs import records as runs
from core.studio.runs.scoring import load_detector

Images: TypeAlias = "np.ndarray | str | os.PathLike[str] | Sequence[looks.Image]"


class Studio:
    """Gives programs access to a home: the folder of studies, runs and reviews that the web page shows as well.

    A method returns when its work is done and its results are stored in the home. An unknown id raises a ValueError.
    Scores are computed inside an image's region of interest, which excludes black borders, black insets and burned-in
    text. A percentile is the share of held-out normals with a lower score, 0 to 100.

    Args:
        home: The folder, created if it is missing; None for $PMSACL_HOME, else the platform's folder for user data.
        device: `auto` (CUDA if there is any), `cpu` or `cuda:0`.

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
        pick_device(device)  # raises ValueError if there is no such device
        self.store, self.device = opening.open(Home.at(home)), device

    def close(self) -> None:
        """Closes the connection to the database; the next call of a method opens it again."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def studies(self) -> pd.DataFrame:
        """Returns a table of the studies: id, name, created, and the numbers of cases and masks."""
        columns = ["id", "name", "created", "cases", "masks"]
        return pd.DataFrame([{c: row[c] for c in columns} for row in list_studies(self.store)], columns=columns)

    def runs(self, study: str | None = None) -> pd.DataFrame:
        """Returns a table of the runs of one study, or of all studies.

        Columns: id, study, kind (`pretrain` of an encoder, `fit` of a detector), method (what is trained or fitted),
        name, status (`done` once it can be used; else `new`, `queued`, `running`, `stopped`, `interrupted`, `failed` or
        `collapsed`), created, seconds.
        """
        columns = ["id", "study", "kind", "method", "name", "status", "created", "seconds"]
        rows = runs.list_runs(self.store, None if study is None else show_study(self.store, study)["id"])
        return pd.DataFrame([{c: row[c] for c in columns} for row in rows], columns=columns)

    def import_folder(
        self,
        name: str,
        folder: str | os.PathLike[str],
        copy: bool = False,
        layout: str | None = None,
        patients: str | None = None,
        answers: Mapping[str, str] | None = None,
    ) -> str:
        """Imports a folder of images as a new study; returns the study's id.

        Args:
            name: Unique name of the study.
            folder: The folder, or a table (CSV) with a column `path` and, where known, `split` (train, test), `label`
                (normal, abnormal), `mask` and `patient`.
            copy: Whether images are copied into the home; else they stay where they are and must remain there.
            layout: How the folder is read: `plain` (train/normal, test/normal, test/abnormal, test/mask), `mvtec`
                (train/good, test/good, test/KIND, ground_truth/KIND), `loco`, `visa` or `bmad` (as these data sets
                come), `classes` (a folder of normal images and others), `flat` (all images are normal) or `table`.
                None: detected automatically.
            patients: Regular expression whose first group (or whole match), in a file's name, is the patient. None: the
                patient of a DICOM header; other files have none. Images of one patient are held out together.
            answers: The labels of folders whose names do not show them: {folder: "normal", "abnormal", or "out" for
                images that are not imported}.

        Raises:
            ValueError: If the name is in use, nothing can be read, or it is not clear which images are normal (the
                message lists the folders that `answers` must contain).
        """
        report = import_study(
            self.store, name, folder, copy, layout=layout, patients=patients, answers=answers, by="program"
        )
        return report.study

    def import_arrays(
        self,
        name: str,
        normal: Images,
        test: Images = (),
        abnormal: bool | Sequence[bool] | np.ndarray = (),
        masks: Sequence[np.ndarray | None] | np.ndarray = (),
    ) -> str:
        """Imports images as a new study; returns the study's id. They are written as PNG into the home.

        Args:
            name: Unique name of the study.
            normal: Images to learn from, of which a quarter are held out to set thresholds; one or many: arrays uint8
                (H, W, 3) or (H, W), files, or a folder.
            test: Images to score, in the same forms.
            abnormal: Whether each test image is abnormal. If it is omitted, images with a lesion in their mask are
                abnormal, and the labels of the others are unknown.
            masks: The lesion mask (H, W) of each test image, in which any value but 0 is lesion, or None for an image
                without one; omitted if no image has a mask. A mask that is 0 everywhere counts as None.

        Raises:
            ValueError: If an image is invalid, lengths differ, the name is in use, or a mask has another size, covers
                its whole image, or marks a lesion in an image that `abnormal` calls normal.
        """
        normals, judged = looks.listed(normal, "normal", 1), looks.listed(test, "test")
        truth, outlines = np.atleast_1d(np.asarray(abnormal)), list(masks)
        for key, values in (("abnormal", truth), ("masks", outlines)):
            if len(values) not in (0, len(judged)):
                raise ValueError(f"{key} holds one value for each of the {len(judged)} test images, not {len(values)}")
        if len(truth) and not np.isin(truth, (0, 1)).all():
            raise ValueError(f"abnormal is True or False for each test image, not {truth.dtype} {truth.shape}")
        pictures = [
            looks.opened(image) for image in (*normals, *judged)
        ]  # all of them before the first file is written
        sizes = [picture.shape[:2] for picture in pictures[len(normals) :]]
        lesions = [_lesion(i, mask, sizes[i]) for i, mask in enumerate(outlines)] or [None] * len(judged)
        kinds = ["abnormal" if lesion is not None else "unknown" for lesion in lesions]
        if len(truth):
            kinds = ["abnormal" if is_abnormal else "normal" for is_abnormal in truth]
        for i, (kind, lesion) in enumerate(zip(kinds, lesions, strict=True)):
            if kind == "normal" and lesion is not None:
                raise ValueError(f"masks[{i}] marks a lesion, but abnormal[{i}] says that the image is normal")
        folder = self.store.home.files / slug(name)
        with locked(folder):
            demand_free_name(self.store, folder.name)
            shutil.rmtree(folder, ignore_errors=True)  # what an import that was killed left
            for i, image in enumerate(pictures[: len(normals)]):
                _write(folder / "train/normal" / f"{i:06d}.png", image)
            for i, image in enumerate(pictures[len(normals) :]):
                _write(folder / "test" / kinds[i] / f"{i:06d}.png", image)
                if (lesion := lesions[i]) is not None:
                    _write(folder / "test/mask" / f"{i:06d}.png", lesion.astype(np.uint8) * 255)
            return import_study(self.store, name, folder, by="program").study

    def pretrain(self, study: str, preset: str = PRETRAIN_DEFAULT, name: str | None = None, **settings: Any) -> str:
        """Pre-trains an encoder on a study's normal images; returns the run's id once it is done.

        Args:
            study: Id of the study.
            preset: `sphere` (PMSACL from ImageNet weights, minutes on a CPU), `imagenet` (an earlier recipe of the same
                length), `quick` (from random weights, 64 pixels), `paper` (as published: days on a CPU), `from-random`
                (`paper` without ImageNet weights), `as-printed` (the paper's text to the letter, which collapses), or a
                comparator as published: `published-droc`, `published-csi`, `published-ccd`.
            name: Name of the run on the page.
            settings: Settings that differ from the preset, such as `steps=100`; names with a dot need a dictionary:
                `**{"encoder.arch": "resnet18", "medmix.k": 2}`. The error for an unknown name lists all names.

        Raises:
            ValueError: If the preset or a setting is unknown, or a value is invalid.
            RuntimeError: If the training fails.
        """
        if preset not in PRETRAIN_PRESETS:
            raise ValueError(f"unknown preset {preset!r}; choose from: {', '.join(PRETRAIN_PRESETS)}")
        run = pipeline.create_pretrain(self.store, study, PRETRAIN_PRESETS[preset].replace(**settings), name)
        return self._worked(run, pipeline.chain(pretrain=run, device=self.device))

    def pretrained(self, study: str, arch: str = "efficientnet-lite0", size: int = 224, init: str = "auto") -> str:
        """Creates a run whose encoder is not trained on the study; detectors can be fitted on it.

        Args:
            study: Id of the study.
            arch: `efficientnet-lite0`, `resnet18`, or another model name of timm.
            size: Side in pixels to which images are resized for detectors, 16 or more.
            init: `auto` (installed ImageNet weights; a network without any is replaced by efficientnet-lite0, with a
                warning), `imagenet`, `random` (for trying things out), a file of weights, or a folder that
                `PMSACL.save` wrote, with its `arch`.

        Returns:
            The run's id.

        Raises:
            ValueError: If the network is unknown, or the size is out of range.
            RuntimeError: If the weights are not available.
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
        """Fits a detector to a study's normal images, on the features of an encoder.

        Args:
            encoder: Id of a run that `pretrain` or `pretrained` returned; its study is used.
            detector: `blend-head` (the page's default after a training), `blend` (the page's first look), `padim`,
                `igd`, `mahalanobis`, `nearest`, `lesion-head`, `ensemble`, `combined`, or a comparator of the paper:
                `adgan`, `cutpaste`, `dae`, `f-anogan`, `ms-ssim-ae`, `ocgan`, `panda`.
            preset: The preset of the detector's settings, such as `paper` or `quick` for `padim`; None for its default.
            name: Name of the run on the page.
            settings: Settings that differ from the preset, such as `channels=50` for `padim`. The error for an unknown
                name lists all names.

        Returns:
            The run's id. `score` then sets its thresholds.

        Raises:
            ValueError: If the detector, preset or a setting is unknown.
            RuntimeError: If the fit fails.
        """
        config = DETECTORS.get(detector).preset(preset).replace(**settings)
        run = pipeline.create_fit(self.store, encoder, detector, config, name)
        return self._worked(run, pipeline.chain(fits=[run], score=False, evaluate=False, device=self.device))

    def score(self, run: str, images: Images | None = None) -> pd.DataFrame:
        """Scores cases or images with a fitted detector; returns a table with a row for each.

        Columns: score, larger is more abnormal; threshold, the score above which the run's operating point flags an
        image; percentile; flagged. All but the score are missing until the study was scored. Rows of cases have case,
        name, split (`holdout`, `test`) and label (`normal`, `abnormal`, `unknown`) as well, rows of files have file.

        Args:
            run: Id of the fit.
            images: One image or many, which are not stored: arrays uint8 (H, W, 3) or (H, W) of any size, files, or a
                folder. None: the study's held-out and test cases, which the page then shows too.

        Raises:
            ValueError: If the run is not a finished fit, or an image cannot be read.
        """
        row = runs.get_run(self.store, run)
        if row["kind"] != "fit" or row["status"] != "done":
            raise ValueError(f"{run} is no finished fit, but a {row['kind']} that is {row['status']}")
        if images is not None:
            listed_images = looks.listed(images)
            frame = looks.scored(self.store, run, [scores["roi"] for _, scores in self._looked(run, listed_images)])
            if listed_images and all(isinstance(image, (str, os.PathLike)) for image in listed_images):
                frame.insert(0, "file", [str(image) for image in listed_images])
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
        """Returns the heat maps, float32 (N, h, w) on the detector's grid, of images in the forms that `score` takes.

        Larger is more abnormal. Raises ValueError if the run is not a finished fit, or an image cannot be read.
        """
        return np.concatenate([maps for maps, _ in self._looked(run, looks.listed(images, least=1))])

    def _looked(self, run: str, images: Sequence[looks.Image]) -> Iterator[looks.Looked]:
        return looks.looked(self.store, load_detector(self.store, run, self.device), run, images)

    def operating_point(self, run: str) -> dict[str, Any]:
        """Returns the operating point of a fit: {"threshold", "source", "words"}.

        threshold: the score above which images are flagged. source: `default` (the 95th percentile of the held-out
        normals), `dragged` (a chosen score), `limit` (false alarms are limited) or `readers` (fitted to readers'
        decisions). words: the source in words. Raises ValueError if the run has not been scored.
        """
        runs.get_run(self.store, run)  # raises NotFound
        point = operating.in_effect(self.store, run)[run]
        level = operating.level_of(self.store, run, point)
        if level is None:
            raise ValueError(f"{run} has no thresholds yet: score({run!r}) sets them by the held-out normals")
        return {"threshold": level, "source": point.source, "words": point.words}

    def flag_above(self, run: str, threshold: float | None, reader: str = "program") -> None:
        """Moves the operating point of a scored fit: images that score above it are flagged.

        All lists, metrics and exports use it, and the audit trail records it.

        Args:
            run: Id of the fit.
            threshold: A score; None resets it to the 95th percentile of the held-out normals.
            reader: Name that the audit trail records.

        Raises:
            ValueError: If the threshold is not finite, or the run has not been scored.
        """
        self.operating_point(run)  # raises ValueError if there is none
        if threshold is not None and not np.isfinite(threshold):
            raise ValueError(f"threshold is a finite score, or None for the usual one, not {threshold}")
        study = runs.get_run(self.store, run)["study"]
        source = "default" if threshold is None else "dragged"
        operating.choose(self.store, study, run, source, threshold, reader, labels=threshold is not None)

    def export_run(self, run: str, out: str | os.PathLike[str]) -> dict[str, Any]:
        """Exports a finished fit to a folder from which `Screen` can score images anywhere; returns the model's card.

        Raises ValueError if the folder is not empty, or the run is not a finished fit.
        """
        return exported.export_run(self.store, run, Path(out))

    def import_model(self, folder: str | os.PathLike[str], study: str, name: str | None = None) -> str:
        """Imports a folder that `export_run` wrote into a study; returns the id of the new fit.

        Raises ValueError if the folder is not an exported model, or its weights were changed.
        """
        return exported.import_model(self.store, Path(folder), study, name)["fit"]

    def evaluate(self, run: str, roi: bool = True, bootstrap: int = 1000) -> dict[str, Any]:
        """Evaluates a scored fit on the study's test images whose label is known.

        Args:
            run: Id of the fit.
            roi: Whether only pixels inside the region of interest count.
            bootstrap: Number of bootstrap resamples for the intervals; 0 for no intervals.

        Returns:
            `auroc`, `ap`, `sensitivity`, `specificity`, `accuracy`, `pixel_auroc`, `dice`, `iou` and `pro`, 0 to 1 or
            None if unknown, each with its 95 % interval (low, high) under its name and `_ci`; `threshold`, `n_normal`,
            `n_abnormal`, `n_localised` (images with a mask), and more. Sensitivity, specificity and accuracy are at the
            threshold from the held-out normals; Dice and IoU measure the outlines that the page draws.

        Raises:
            ValueError: If the run has not been scored, or the test images with a label are not both normal and
                abnormal.
        """
        if bootstrap < 0:
            raise ValueError(f"bootstrap is a number of resamples, 0 or more, not {bootstrap}")
        return results.evaluate_run(self.store, run, roi, "held-out", bootstrap=bootstrap)

    def learn(self, run: str, reader: str | None = None, **settings: Any) -> str:
        """Fits a detector that is based on a scored fit and learns from lesions that readers marked.

        Only masks of cases that their reader decided to be abnormal are used: call `mark` and `decide`, or do the same
        on the page. With four patients or more, the encoder is then fine-tuned, which takes some minutes more on a CPU.

        Args:
            run: Id of a fit that was scored and has not itself learnt from marks.
            reader: Reader whose masks are used; None for all readers.
            settings: Settings that differ from the defaults, such as `tune=0`, which does not fine-tune the encoder.
                The error for an unknown name lists all names.

        Returns:
            The id of the new fit, which is scored: the fine-tuned one if it is better. The page compares it with the
            old one on unseen test images.

        Raises:
            ValueError: If no mask can be used yet, or the run is not a fit as described above.
            RuntimeError: If the fit fails.
        """
        learning = learnt.learn(self.store, run, reader, self.device, start=False, **settings)
        return jobs.runs_of(self._executed(learning["job"]), "score")[-1]

    def worklist(self, study: str, run: str | None = None, reader: str = "reader", **asked: Any) -> pd.DataFrame:
        """Returns the worklist of a study as a reader of the page sees it, most urgent first.

        Args:
            study: Id of the study.
            run: Id of the fit whose scores order the list. None: the fit that the page shows first, if the study has
                been scored.
            reader: Name of the reader whose decisions are shown.
            asked: `sort` (`percentile`, `score`, `name`, `added`, `reviewed`, `decision`, `disagreement`, or `teaches`
                for the cases from which a detector would learn most); `descending` (True); `splits` (a tuple of `test`,
                `holdout`, `train`; default `test`); and filters: `flagged` and `has_mask` (True or False), `decision`
                (`unread`, `read`, `normal`, `abnormal`, `unsure`, `against` what was flagged, `differs` from another
                reader's), `mine` (True: assigned to the reader), `label` (`normal`, `abnormal`, `unknown`), `tag`,
                `text` (in the name).

        Returns:
            A row per case, in the list's order: case, name, decision (the reader's; missing if unread), score,
            percentile, flagged (missing without a scored fit), disagreement (0 to 1), tags, kinds (of findings).

        Raises:
            ValueError: If an argument in `asked` is unknown.
        """
        if unknown := set(asked) - {field.name for field in fields(Query)}:
            raise ValueError(
                f"a worklist has no {', '.join(sorted(unknown))}; it has: {', '.join(f.name for f in fields(Query))}"
            )
        if run is None:
            run = next((row["id"] for row in scored_runs(self.store, show_study(self.store, study)["id"])), None)
        columns = {"id": "case"} | {
            n: n for n in ("name", "decision", "score", "percentile", "flagged", "disagreement", "tags", "kinds")
        }
        with context.reading(self.store, reader, study=study, run=run, single_user=True) as request:
            listed, rows, after = Worklist(request, Query(**asked)), [], None
            while True:
                page = listed.page(after)
                rows += page["rows"]
                after = page["cursor"]
                if not after:
                    return (
                        pd.DataFrame(rows, columns=list(columns)).rename(columns=columns).astype({"flagged": "boolean"})
                    )

    def decide(self, case: int, decision: str, reader: str, comment: str = "", run: str | None = None) -> None:
        """Stores a reader's decision on a case, and writes it to the audit trail.

        Args:
            case: Number of the case, as `worklist` and `score` list it.
            decision: `normal`, `abnormal` or `unsure`.
            reader: Name of the reader.
            comment: The reader's comment.
            run: Id of the fit whose heat map the reader saw, if any.

        Raises:
            ValueError: If the decision is not one of the three, the reader's name is empty, or the case is unknown.
        """
        case, reader = operator.index(case), _reader(reader)
        with context.writing(self.store, reader, case_id=case, run=run, single_user=True) as request:
            decide(request, decision, comment=comment)

    def mark(self, case: int, mask: np.ndarray, reader: str, note: str = "") -> None:
        """Stores a reader's lesion mask of a case, as the newest version; earlier ones are kept.

        `learn` only uses masks of cases that their reader decided to be abnormal.

        Args:
            case: Number of the case.
            mask: (H, W), the size of the image; any value but 0 is lesion, and 0 everywhere means no lesion.
            reader: Name of the reader.
            note: The reader's note.

        Raises:
            ValueError: If the mask has another size, the reader's name is empty, or the case is unknown.
        """
        case, reader = operator.index(case), _reader(reader)
        with context.writing(self.store, reader, case_id=case, single_user=True) as request:
            lesion_masks.save(request, np.asarray(mask) != 0, note=note)

    def decisions(self, study: str) -> pd.DataFrame:
        """Returns a table of the current decisions: the last one of each reader on each case in each stage.

        Columns: case, name, reader, stage (`first`, `second` or `adjudication`), decision, comment, created, run.
        """
        query = (
            "SELECT v.case_id AS 'case', c.name, v.reader, v.stage, v.decision, v.comment, v.created, v.run "
            "FROM current_reviews k JOIN reviews v ON v.id = k.review_id JOIN cases c ON c.id = v.case_id "
            "WHERE c.study = ? ORDER BY v.id"
        )
        columns = ["case", "name", "reader", "stage", "decision", "comment", "created", "run"]
        return pd.DataFrame(self.store.query(query, [study]), columns=columns)

    def _worked(self, run: str, steps: list[dict[str, Any]]) -> str:
        """Executes a job's steps in this process; returns the run's id. Raises RuntimeError with the job's error."""
        self._executed(jobs.submit(self.store, steps, start=False))
        return run

    def _executed(self, job: int) -> dict[str, Any]:
        """Executes a job in this process; returns its row. Raises RuntimeError with the job's error."""
        row = worker.execute_here(self.store, job)
        if row["status"] != "done":
            raise RuntimeError(f"{row['run']}: {row['error'] or row['message'] or row['status']}")
        return row


def _write(file: Path, image: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(cv2.imencode(".png", looks.opened(image)[..., ::-1])[1].tobytes())


def _lesion(i: int, mask: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Returns where a mask is not 0, bool (H, W); None if it is 0 everywhere. Raises ValueError if it is invalid."""
    if mask is None:
        return None
    if np.shape(mask) != shape:
        raise ValueError(f"masks[{i}] is {np.shape(mask)}, its image {shape}: they must agree")
    lesion: np.ndarray = np.asarray(mask) != 0
    if lesion.all():
        raise ValueError(f"masks[{i}] covers the whole image; a lesion's mask is 0 everywhere else")
    return lesion if lesion.any() else None


def _reader(name: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"reader is the name of a reader, not {name!r}")
    return name
