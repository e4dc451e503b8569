"""Programming interface of the studio: imports studies, trains encoders, fits detectors and scores images."""

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
    """Programming interface to a home, the data folder that the web page also uses.

    A home contains studies, runs and reviews. Each method returns when its work is done and its results are stored in
    the home. An unknown id raises a ValueError. Scores are computed inside an image's region of interest, which
    excludes black borders, black insets and burned-in text. A percentile is the percentage of held-out normal images
    with a lower score, 0 to 100.

    Args:
        home: Data folder, which is created if it is missing. Defaults to $PMSACL_HOME or, if that is not set, to the
            platform's folder for user data.
        device: Device to compute on: `auto` (CUDA if available, else the CPU), `cpu`, or a CUDA device such as
            `cuda:0`.

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
        pick_device(device)  # raises ValueError if the device is not available
        self.store, self.device = opening.open(Home.at(home)), device

    def close(self) -> None:
        """Closes the connection to the database. The next call of a method opens a new connection."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def studies(self) -> pd.DataFrame:
        """Returns a table of all studies: id, name, created, and the numbers of cases and masks."""
        columns = ["id", "name", "created", "cases", "masks"]
        return pd.DataFrame([{c: row[c] for c in columns} for row in list_studies(self.store)], columns=columns)

    def runs(self, study: str | None = None) -> pd.DataFrame:
        """Returns a table of the runs of one study, or of all studies.

        Args:
            study: Id of the study. Defaults to all studies.

        Returns:
            A table with the columns id, study, kind (`pretrain` for an encoder, `fit` for a detector), method (name of
            the objective or detector), name, status (`done` if the run can be used, else `new`, `queued`, `running`,
            `stopped`, `interrupted`, `failed` or `collapsed`), created and seconds.
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
            folder: Folder of images, or a CSV table with the column `path` and the optional columns `split` (train or
                test), `label` (normal or abnormal), `mask` and `patient`.
            copy: Whether images are copied into the home. Otherwise they are read from the folder and must remain
                there.
            layout: Structure of the folder: `plain` (train/normal, test/normal, test/abnormal, test/mask), `mvtec`
                (train/good, test/good, test/KIND, ground_truth/KIND), `loco`, `visa` or `bmad` (the structures of these
                data sets), `classes` (a folder of normal images and other folders), `flat` (all images are normal) or
                `table`. By default, the structure is detected automatically.
            patients: Regular expression whose first group (without groups, the whole match) is the patient in a file
                name. By default, the patient is read from the DICOM header, and other files have no patient. Images of
                one patient are held out together.
            answers: Labels of folders whose names do not reveal them, {folder: label}. A label is "normal", "abnormal",
                or "out" for images that are not imported.

        Raises:
            ValueError: If the name is in use, if no image can be read, or if it is unclear which images are normal. In
                the last case the message lists the folders that `answers` must contain.
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
        """Imports images as a new study and writes them as PNG files into the home; returns the study's id.

        Args:
            name: Unique name of the study.
            normal: Normal images for training, of which a quarter are held out to set thresholds: one or more arrays,
                uint8 `(H, W, 3)` or `(H, W)`, one or more files, or a folder.
            test: Test images, in the same forms.
            abnormal: Whether each test image is abnormal. If omitted, images whose mask contains a lesion are abnormal,
                and the labels of the other images are unknown.
            masks: Lesion mask `(H, W)` of each test image, in which all values except 0 are lesion, or None for an
                image without a mask. A mask that is 0 everywhere counts as None. May be omitted if no image has a mask.

        Raises:
            ValueError: If an image is invalid, if the lengths differ, if the name is in use, or if a mask has another
                size, covers its whole image, or shows a lesion in an image that `abnormal` calls normal.
        """
        normals, judged = looks.listed(normal, "normal", 1), looks.listed(test, "test")
        truth, outlines = np.atleast_1d(np.asarray(abnormal)), list(masks)
        for key, values in (("abnormal", truth), ("masks", outlines)):
            if len(values) not in (0, len(judged)):
                raise ValueError(f"{key} must hold one value per test image: {len(judged)}, not {len(values)}")
        if len(truth) and not np.isin(truth, (0, 1)).all():
            raise ValueError(f"abnormal must hold True or False for each test image, not {truth.dtype} {truth.shape}")
        # All images are opened before the first file is written, so that an invalid image leaves nothing behind.
        pictures = [looks.opened(image) for image in (*normals, *judged)]
        sizes = [picture.shape[:2] for picture in pictures[len(normals) :]]
        lesions = [_lesion(i, mask, sizes[i]) for i, mask in enumerate(outlines)] or [None] * len(judged)
        kinds = ["abnormal" if lesion is not None else "unknown" for lesion in lesions]
        if len(truth):
            kinds = ["abnormal" if is_abnormal else "normal" for is_abnormal in truth]
        for i, (kind, lesion) in enumerate(zip(kinds, lesions, strict=True)):
            if kind == "normal" and lesion is not None:
                raise ValueError(f"masks[{i}] contains a lesion, but abnormal[{i}] calls the image normal")
        folder = self.store.home.files / slug(name)
        with locked(folder):
            demand_free_name(self.store, folder.name)
            shutil.rmtree(folder, ignore_errors=True)  # the remains of an import that was killed
            for i, image in enumerate(pictures[: len(normals)]):
                _write(folder / "train/normal" / f"{i:06d}.png", image)
            for i, image in enumerate(pictures[len(normals) :]):
                _write(folder / "test" / kinds[i] / f"{i:06d}.png", image)
                if (lesion := lesions[i]) is not None:
                    _write(folder / "test/mask" / f"{i:06d}.png", lesion.astype(np.uint8) * 255)
            return import_study(self.store, name, folder, by="program").study

    def pretrain(self, study: str, preset: str = PRETRAIN_DEFAULT, name: str | None = None, **settings: Any) -> str:
        """Pre-trains an encoder on a study's normal images; returns the run's id when pre-training has finished.

        Args:
            study: Id of the study.
            preset: Name of the settings: `sphere` (PMSACL from ImageNet weights, minutes on a CPU), `imagenet` (an
                earlier recipe of the same length), `quick` (from random weights, 64 pixels), `paper` (as published,
                days on a CPU), `from-random` (`paper` without ImageNet weights), `as-printed` (exactly the paper's
                text, which collapses), or a published comparator: `published-droc`, `published-csi` or `published-ccd`.
            name: Name of the run on the page. Defaults to an automatic name.
            settings: Settings that differ from the preset, such as `steps=100`. Names with a dot need a dictionary:
                `**{"encoder.arch": "resnet18", "medmix.k": 2}`. The error message for an unknown name lists all names.

        Raises:
            ValueError: If the preset or a setting is unknown, or if a value is invalid.
            RuntimeError: If pre-training fails.
        """
        if preset not in PRETRAIN_PRESETS:
            raise ValueError(f"unknown preset {preset!r}; choose from: {', '.join(PRETRAIN_PRESETS)}")
        run = pipeline.create_pretrain(self.store, study, PRETRAIN_PRESETS[preset].replace(**settings), name)
        return self._worked(run, pipeline.chain(pretrain=run, device=self.device))

    def pretrained(self, study: str, arch: str = "efficientnet-lite0", size: int = 224, init: str = "auto") -> str:
        """Creates a run with an encoder that is not trained on the study; returns the run's id.

        Args:
            study: Id of the study.
            arch: Network of the encoder: `efficientnet-lite0`, `resnet18`, or another model name of timm.
            size: Side length in pixels to which images are resized for detectors, 16 or more.
            init: Weights of the network: `auto` (installed ImageNet weights; a network without installed weights is
                replaced by efficientnet-lite0, with a warning), `imagenet`, `random` (for tests), a file of weights, or
                a folder that `PMSACL.save` wrote (then `arch` must be the network that was saved).

        Raises:
            ValueError: If the network is unknown, or if the size is out of range.
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
        """Fits a detector to a study's normal images on the features of an encoder; returns the id of the new run.

        Call `score` with this id to set the thresholds.

        Args:
            encoder: Id of a run that `pretrain` or `pretrained` returned. The detector is fitted to the study of this
                run.
            detector: Name of the detector: `blend-head` (the page's default after pre-training), `blend` (the page's
                first look), `padim`, `igd`, `mahalanobis`, `nearest`, `lesion-head`, `ensemble`, `combined`, or a
                comparator of the paper: `adgan`, `cutpaste`, `dae`, `f-anogan`, `ms-ssim-ae`, `ocgan` or `panda`.
            preset: Preset of the detector's settings, such as `paper` or `quick` for `padim`, or None for the default
                preset.
            name: Name of the run on the page. Defaults to an automatic name.
            settings: Settings that differ from the preset, such as `channels=50` for `padim`. The error message for an
                unknown name lists all names.

        Raises:
            ValueError: If the detector, the preset or a setting is unknown.
            RuntimeError: If the fit fails.
        """
        config = DETECTORS.get(detector).preset(preset).replace(**settings)
        run = pipeline.create_fit(self.store, encoder, detector, config, name)
        return self._worked(run, pipeline.chain(fits=[run], score=False, evaluate=False, device=self.device))

    def score(self, run: str, images: Images | None = None) -> pd.DataFrame:
        """Scores a study or other images with a fitted detector; returns a table with one row per image.

        The table has the columns score (larger is more abnormal), threshold (score above which the image is flagged),
        percentile and flagged. The last three are missing until the study has been scored. For the cases of a study,
        the table also has the columns case, name, split (`holdout` or `test`) and label (`normal`, `abnormal` or
        `unknown`). For image files, it also has the column file.

        Args:
            run: Id of the run that fitted the detector.
            images: Images to score, which are not stored: one or more arrays, uint8 `(H, W, 3)` or `(H, W)`, one or
                more files, or a folder. By default, the study's held-out and test cases are scored, and the page then
                shows their scores.

        Raises:
            ValueError: If the run is not a finished fit of a detector, or if an image cannot be read.
        """
        row = runs.get_run(self.store, run)
        if row["kind"] != "fit" or row["status"] != "done":
            raise ValueError(f"{run} is not a finished fit of a detector (kind {row['kind']}, status {row['status']})")
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
        """Computes heat maps of images, float32 `(N, h, w)`, in which larger values are more abnormal.

        `images` may have every form that `score` accepts. Maps may have a lower resolution than the images. Raises
        ValueError if the run is not a finished fit of a detector, or if an image cannot be read.
        """
        return np.concatenate([maps for maps, _ in self._looked(run, looks.listed(images, least=1))])

    def _looked(self, run: str, images: Sequence[looks.Image]) -> Iterator[looks.Looked]:
        return looks.looked(self.store, load_detector(self.store, run, self.device), run, images)

    def operating_point(self, run: str) -> dict[str, Any]:
        """Returns the operating point of a scored detector: {"threshold", "source", "words"}.

        The threshold is the score above which images are flagged. The source is `default` (the 95th percentile of the
        held-out normal images), `dragged` (set by hand), `limit` (set to limit false alarms) or `readers` (fitted to
        readers' decisions). The words describe the source. Raises ValueError if the run has not been scored.
        """
        runs.get_run(self.store, run)  # raises NotFound
        point = operating.in_effect(self.store, run)[run]
        level = operating.level_of(self.store, run, point)
        if level is None:
            raise ValueError(f"{run} has no threshold yet: call score({run!r}) first")
        return {"threshold": level, "source": point.source, "words": point.words}

    def flag_above(self, run: str, threshold: float | None, reader: str = "program") -> None:
        """Changes the threshold of a scored detector: images with a higher score are flagged.

        All worklists, metrics and exports use the threshold. The audit trail records the change.

        Args:
            run: Id of the run that fitted the detector.
            threshold: The new threshold, or None for the default, the 95th percentile of the held-out normal images.
            reader: Name of the person who is recorded in the audit trail.

        Raises:
            ValueError: If the threshold is not finite, or if the run has not been scored.
        """
        self.operating_point(run)  # raises ValueError if the run has not been scored
        if threshold is not None and not np.isfinite(threshold):
            raise ValueError(f"threshold must be a finite score, or None for the default, not {threshold}")
        study = runs.get_run(self.store, run)["study"]
        source = "default" if threshold is None else "dragged"
        operating.choose(self.store, study, run, source, threshold, reader, labels=threshold is not None)

    def export_run(self, run: str, out: str | os.PathLike[str]) -> dict[str, Any]:
        """Exports a fitted detector to a folder; returns the model's card.

        `Screen` can score images from the folder, unless the card states why the detector has no graph. Raises
        ValueError if the folder is not empty, or if the run is not a finished fit of a detector.
        """
        return exported.export_run(self.store, run, Path(out))

    def import_model(self, folder: str | os.PathLike[str], study: str, name: str | None = None) -> str:
        """Imports an exported model folder into a study; returns the id of the detector's new run.

        Raises ValueError if the folder contains no exported model, or if the model's weights were changed.
        """
        return exported.import_model(self.store, Path(folder), study, name)["fit"]

    def evaluate(self, run: str, roi: bool = True, bootstrap: int = 1000) -> dict[str, Any]:
        """Evaluates a scored detector on the study's test images whose label is known.

        Args:
            run: Id of the run that fitted the detector.
            roi: Whether only pixels inside the region of interest are evaluated.
            bootstrap: Number of bootstrap resamples for the confidence intervals, or 0 for no intervals.

        Returns:
            A dictionary with `auroc`, `ap`, `sensitivity`, `specificity`, `accuracy`, `pixel_auroc`, `dice`, `iou` and
            `pro`, each 0 to 1 or None if unknown. The key of a 95 % confidence interval (low, high) ends in `_ci`, such
            as `auroc_ci`. Further keys are `threshold`, `n_normal`, `n_abnormal` and `n_localised` (number of images
            with a mask). Sensitivity, specificity and accuracy refer to the threshold from the held-out normal images.
            Dice and IoU refer to the outlines that the page draws.

        Raises:
            ValueError: If the run has not been scored, or if no normal or no abnormal test image is labelled.
        """
        if bootstrap < 0:
            raise ValueError(f"bootstrap must be a number of resamples, 0 or more, not {bootstrap}")
        return results.evaluate_run(self.store, run, roi, "held-out", bootstrap=bootstrap)

    def learn(self, run: str, reader: str | None = None, **settings: Any) -> str:
        """Fits a new detector that is based on a scored detector and also learns from lesion masks drawn by readers.

        A mask is used only if the reader who drew it decided that the case is abnormal: call `mark` and `decide`, or
        use the page. If masks of at least four patients are available, the encoder is fine-tuned as well, which takes
        minutes on a CPU.

        Args:
            run: Id of the run of a scored detector that has not itself learned from masks.
            reader: Name of the reader whose masks are used. Defaults to all readers.
            settings: Settings that differ from the defaults, such as `tune=0` for no fine-tuning. The error message for
                an unknown name lists all names.

        Returns:
            The id of the new run, which has been scored. The run has the fine-tuned encoder if fine-tuning improved the
            result. The page compares the new detector with the old one on unseen test images.

        Raises:
            ValueError: If no mask can be used yet, or if the run is unsuitable.
            RuntimeError: If the fit fails.
        """
        learning = learnt.learn(self.store, run, reader, self.device, start=False, **settings)
        return jobs.runs_of(self._executed(learning["job"]), "score")[-1]

    def worklist(self, study: str, run: str | None = None, reader: str = "reader", **asked: Any) -> pd.DataFrame:
        """Returns the worklist of a study, as the page shows it to a reader, most urgent case first.

        Args:
            study: Id of the study.
            run: Id of the run whose scores order the list. Defaults to the run that the page shows first, if a run has
                scored the study.
            reader: Name of the reader whose decisions are shown.
            asked: Sort order and filters. `sort` is `percentile`, `score`, `name`, `added`, `reviewed`, `decision`,
                `disagreement`, or `teaches` (most informative annotation first); `descending` is True by default.
                `splits` is a tuple of `test` (the default), `holdout` and `train`. The filters are `flagged` and
                `has_mask` (True or False), `decision` (`unread`, `read`, `normal`, `abnormal`, `unsure`; `against`
                for a conflict with the flag, `differs` for one between readers), `mine` (True for cases assigned to the
                reader), `label` (`normal`, `abnormal` or `unknown`), `tag`, and `text` (part of the name).

        Returns:
            A table with one row per case and the columns case, name, decision (missing if the reader has not decided),
            score, percentile, flagged (these are missing without scores), disagreement (0 to 1), tags, kinds.

        Raises:
            ValueError: If a name in `asked` is unknown.
        """
        options = [field.name for field in fields(Query)]
        if unknown := set(asked).difference(options):
            raise ValueError(f"unknown worklist option {', '.join(sorted(unknown))}; choose from: {', '.join(options)}")
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
                    frame = pd.DataFrame(rows, columns=list(columns)).rename(columns=columns)
                    return frame.astype({"flagged": "boolean"})

    def decide(self, case: int, decision: str, reader: str, comment: str = "", run: str | None = None) -> None:
        """Stores a reader's decision on a case and records it in the audit trail.

        Args:
            case: Id of the case, as in the tables of `worklist` and `score`.
            decision: `normal`, `abnormal` or `unsure`.
            reader: Name of the reader.
            comment: Comment of the reader.
            run: Id of the run whose heat map the reader saw, or None.

        Raises:
            ValueError: If the decision is not one of the three, if the reader's name is empty, or if the case is
                unknown.
        """
        case, reader = operator.index(case), _reader(reader)
        with context.writing(self.store, reader, case_id=case, run=run, single_user=True) as request:
            decide(request, decision, comment=comment)

    def mark(self, case: int, mask: np.ndarray, reader: str, note: str = "") -> None:
        """Stores a reader's lesion mask of a case as the newest version and keeps the earlier versions.

        Args:
            case: Id of the case.
            mask: `(H, W)`, the size of the image. All values except 0 are lesion; 0 everywhere means no lesion.
            reader: Name of the reader.
            note: Note of the reader.

        Raises:
            ValueError: If the mask has another size, if the reader's name is empty, or if the case is unknown.
        """
        case, reader = operator.index(case), _reader(reader)
        with context.writing(self.store, reader, case_id=case, single_user=True) as request:
            lesion_masks.save(request, np.asarray(mask) != 0, note=note)

    def decisions(self, study: str) -> pd.DataFrame:
        """Returns a table of the current decisions: the last decision of each reader on each case in each stage.

        The columns are case, name, reader, stage (`first`, `second` or `adjudication`), decision, comment, created and
        run.
        """
        query = (
            "SELECT v.case_id AS 'case', c.name, v.reader, v.stage, v.decision, v.comment, v.created, v.run "
            "FROM current_reviews k JOIN reviews v ON v.id = k.review_id JOIN cases c ON c.id = v.case_id "
            "WHERE c.study = ? ORDER BY v.id"
        )
        columns = ["case", "name", "reader", "stage", "decision", "comment", "created", "run"]
        return pd.DataFrame(self.store.query(query, [study]), columns=columns)

    def _worked(self, run: str, steps: list[dict[str, Any]]) -> str:
        """Executes a job's steps in this process; returns the id `run`. Raises RuntimeError if the job fails."""
        self._executed(jobs.submit(self.store, steps, start=False))
        return run

    def _executed(self, job: int) -> dict[str, Any]:
        """Executes a job in this process; returns its row. Raises RuntimeError if the job fails."""
        row = worker.execute_here(self.store, job)
        if row["status"] != "done":
            raise RuntimeError(f"{row['run']}: {row['error'] or row['message'] or row['status']}")
        return row


def _write(file: Path, image: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(cv2.imencode(".png", looks.opened(image)[..., ::-1])[1].tobytes())


def _lesion(i: int, mask: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Returns the pixels of a mask that are not 0, bool (H, W), or None without any. Raises ValueError if invalid."""
    if mask is None:
        return None
    if np.shape(mask) != shape:
        raise ValueError(f"masks[{i}] has the shape {np.shape(mask)}, but must have the shape of its image, {shape}")
    lesion: np.ndarray = np.asarray(mask) != 0
    if lesion.all():
        raise ValueError(f"masks[{i}] covers the whole image: set the pixels outside the lesion to 0")
    return lesion if lesion.any() else None


def _reader(name: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"reader must be the name of a reader, not {name!r}")
    return name
