"""What readers' marks teach: figures by how many images are marked, on patients of whom none is marked.

Every second patient (or image, where patients are not known) may be marked and the others are tested; where patients
are known, then the other way round, and the figures are means of both. The true masks stand for readers' marks. The
base is fitted on normal images alone: the blend, where an arm names no other. It serves all arms of an encoder that
have the same; 0 marks are the base itself.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import Encoder, build_encoder, load_encoder
from core.engine.calibration.heatmap import upsample
from core.engine.calibration.outlines import learn_share, level_of, outlined, peaks, seen_rows
from core.engine.calibration.percentiles import Calibration
from core.engine.config import Config
from core.engine.detectors.base import Detector, FitContext, Marks
from core.engine.detectors.ensemble.ensemble import Blend
from core.engine.detectors.learnt.learnt import Learnt
from core.engine.metrics.detection import auroc
from core.engine.metrics.localisation import overlaps_of, pixel_auroc, pro
from core.engine.registry import DETECTORS
from core.engine.rows import resized, rows_of
from core.engine.tensors import pick_device
from core.studio.db.store import Store
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.patients import patients_of
from core.studio.ingest.studies import load_arrays
from core.studio.report.arms import Arm
from core.studio.runs.marks import diameters
from core.studio.runs.pipeline import UNTRAINED
from core.studio.runs.records import run_folder
from core.studio.runs.scoring import SEEN_SIDE, ordered
from core.studio.runs.sides import ARCH, SIZE, side_for, side_for_marks
from tests.benches.experiments.from_imagenet import HEADED, PMSACL, PRETRAINED

COUNTS = (0, 3, 5, 10, 20, 40)
ANY = 0.002  # share of a normal image: an outline of less is none
ORDERS = ("what teaches most", "score")  # of what is marked next, where not by chance
STEPS = COUNTS[1:5]  # after which it is learnt and ordered anew; of the arms that tell orders apart
USUAL, NOTHING_PASTED, STAYS = "20 marks", "nothing pasted", "the encoder stays"
PAIRS = [(USUAL, f"{USUAL}, {other}") for other in (NOTHING_PASTED, STAYS)] + [(f"{USUAL}, {PMSACL}", USUAL)]
PAIRS += [
    (f"{n} marks, {STAYS}, by {ORDERS[0]}", f"{n} marks, {STAYS}{by}")
    for n in STEPS[1:]
    for by in ("", f", by {ORDERS[1]}")
]
TRAINED_BEFORE: dict[str, Any] = {"encoder": "pmsacl", "preset": "imagenet", "sized": False, "pretrain": {}}
MEASURES = ("auroc", "pixel_auroc", "dice", "pro", "pro_all", "any_normal", "seconds")
Report = Callable[[str], None]


OWN = ("marks", "apart", "order")  # of an arm's settings, those of the experiment; the rest are the detector's


def marks() -> list[Arm]:
    """Lists arms that try what marks teach: by their number, and in other ways.

    The others are: without pasted lesions; on PMSACL's encoder; with small lesions marked alone, tested on the others;
    with an encoder that stays in any case, marked by chance and in ORDERS that a detector gives which has learnt from
    the marks before; and beside blend and head, on ImageNet's features and, as the default has it, on PMSACL's.
    """
    arms = [_arm(f"{count} marks", count) for count in COUNTS]
    arms += [
        _arm(f"{USUAL}, {NOTHING_PASTED}", 20, paste=False),
        _arm(f"{USUAL}, {PMSACL}", 20).replace(**TRAINED_BEFORE),
        _arm("the smaller half marked, the larger tested: 0", 0, apart=True),
        _arm("the smaller half marked, the larger tested: 20", 20, apart=True),
    ]
    stays = [_arm(f"{count} marks, {STAYS}", count, tune=0.0) for count in STEPS]
    arms += stays
    for order in ORDERS:
        arms += [arm.replace(label=f"{arm.label}, by {order}", fit={**arm.fit, "order": order}) for arm in stays[1:]]
    for count in (0, 20):
        on_head = _arm(f"{count} marks on {HEADED.lower()}", count, base="blend-head")
        pmsacl = on_head.replace(label=f"{on_head.label}, {PMSACL}", **TRAINED_BEFORE)
        arms += [on_head, pmsacl]
    return arms


def _arm(label: str, count: int, **fit: Any) -> Arm:
    return Arm(label, "learnt", UNTRAINED, pretrain=PRETRAINED, closer=True, fit={"marks": count, **fit})


@dataclass
class Images:
    """Images uint8 (N, S, S, 3), their regions of interest and masks uint8 (N, S, S), and whose each is (N,)."""

    images: np.ndarray
    roi: np.ndarray
    masks: np.ndarray
    patients: np.ndarray

    def of(self, rows: np.ndarray) -> Images:
        return Images(*(rows_of(x, rows) for x in (self.images, self.roi, self.masks, self.patients)))


@dataclass
class Sets:
    """Normals to fit on and held out, and normal and abnormal ones to test on; known: whether patients are."""

    train: Images
    held: Images
    well: Images
    sick: Images
    known: bool


def sets_of(store: Store, study: str, side: int) -> Sets:
    """Loads the study's images at a side. Raises ValueError for a study without lesion masks in its test."""
    arrays = load_arrays(store, study, side)
    whose = patients_of(store, study, arrays.case_ids)
    each = arrays.case_ids if whose is None else whose

    def some(rows: np.ndarray) -> Images:
        return Images(*(np.asarray(x[rows]) for x in (arrays.images, arrays.roi, arrays.masks, each)))

    test = arrays.index("test", label="abnormal")
    marked = test[arrays.has_mask[test].astype(bool)]
    if not len(marked):
        raise ValueError(f"study {study} has no test image with a lesion mask")
    train, held, well = (some(arrays.index(split, label="normal")) for split in ("train", "holdout", "test"))
    return Sets(train, held, well, some(marked), whose is not None)


def run_marks(
    store: Store, study: str, arms: list[Arm], seeds: list[int], *, device: str = "auto", report: Report = print,
    done: Container[tuple[str, int]] = (),
) -> Iterator[dict]:  # fmt: skip
    """Runs every arm with every seed, but those `done`; yields one row each as it comes, with MEASURES and `cases`.

    done: labels and seeds.

    `pro` is over the abnormal test images as in the paper, `pro_all` over all of them, `any_normal` the share of normal
    images with any outline; `cases`: Dice of each tested lesion image; `whose`: the number of its patient; `tried`: of
    each half, mean Dice on marks left out by what was tried.
    """
    from core.studio.report.arms import _encoder

    side = side_for(store, study)
    masks = store.query(
        "SELECT m.png FROM lesion_masks m JOIN cases c ON c.id = m.case_id WHERE c.study = ? AND c.split = 'test' "
        "AND m.source = 'import'",
        [study],
    )
    lesions = diameters([m for m in masks if decode_mask(m["png"]).any()])
    usual = side_for_marks(store, study, lesions, side)
    sets: dict[int, Sets] = {}
    bases: dict[str, tuple[Encoder, Path]] = {}
    with tempfile.TemporaryDirectory() as folder:
        fits: dict[int, dict[Any, Fit]] = {}  # of the seed that is under way
        for seed, arm in itertools.product(seeds, arms):
            if (arm.label, seed) in done:
                continue
            if seed not in fits:
                fits = {seed: {}}
            own = arm.fit_size or usual
            if own not in sets:
                sets[own] = sets_of(store, study, own)
            # ImageNet's weights and the blend on them are the same for every seed.
            base = arm.fit.get("base", Blend.name) if arm.detector == Learnt.name else ""
            name = base + "-" + (arm.encoder if arm.encoder == UNTRAINED else f"{arm.encoder}-{seed}")
            if name not in bases:
                if arm.encoder == UNTRAINED:
                    encoder = build_encoder(EncoderConfig(arch=ARCH, init="imagenet"))
                else:
                    encoder = load_encoder(run_folder(store, _encoder(store, study, arm, seed, SIZE, device)))
                if base:
                    fit_base(encoder, sets[own], side, device, base).save(Path(folder) / name)
                bases[name] = (encoder, Path(folder) / name)
            row = run_arm(sets[own], *bases[name], side, arm, seed, device, fits[seed])
            report(f"{study} seed {seed} {arm.label}: " + ", ".join(f"{m} {row[m]:.3f}" for m in MEASURES))
            yield {"label": arm.label, "seed": seed, "roi": True, **row}


def fit_base(encoder: Encoder, sets: Sets, side: int, device: str = "cpu", base: str = Blend.name) -> Detector:
    """Fits the detector `base` on the normals to fit on, at the side `side`."""
    kind = DETECTORS.get(base)
    patients = sets.train.patients if sets.known else None
    images, roi = (np.asarray(resized(x, side)) for x in (sets.train.images, sets.train.roi))
    return kind.fit(encoder.eval(), images, kind.Config(), FitContext(roi, pick_device(device), patients=patients))


Fit = tuple[Detector, float]  # and the seconds that it took


def run_arm(
    sets: Sets, encoder: Encoder, base: Path, side: int, arm: Arm, seed: int, device: str = "cpu",
    fits: dict[Any, Fit] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Computes MEASURES of one arm, means over the halves, and what it has of each case.

    Of the arm's settings "marks" says how many, "apart" whether the smaller lesions are marked and the larger tested,
    "order" which of ORDERS; the others are the detector's. base: where the detector lies that one of the kind `learnt`
    is joined with, at the side `side`. fits: those made for other arms, which are not made again; this one's are added.
    seconds: of the last fit.
    """
    kind, fit = DETECTORS.get(arm.detector), arm.fit
    joined = {"base_run": str(base), "base_side": side} if kind is Learnt else {}
    config = arm.start().replace(**joined, seed=seed, **{k: v for k, v in fit.items() if k not in OWN})
    known = {} if fits is None else fits

    def fitted(rows: np.ndarray) -> Fit:
        rows = np.sort(rows)
        key = id(sets), id(encoder), kind.name, config, rows.tobytes()
        if key not in known:
            started = time.monotonic()
            detector = _fitted(kind, sets, rows, encoder, config, device)
            known[key] = detector, time.monotonic() - started
        return known[key]

    figures, cases, whose, tried = [], [], [], []
    numbers = np.unique(sets.sick.patients, return_inverse=True)[1]
    for may, test in halves(sets, fit.get("apart", False)):
        rows = drawn(sets.sick, may, fit["marks"], seed, fit.get("order"), lambda rows: fitted(rows)[0])
        detector, seconds = fitted(rows)
        means, dice = measured(detector, sets, test)
        figures.append({**means, "seconds": seconds})
        cases += dice.tolist()
        whose += numbers[test].tolist()
        tried.append(getattr(detector, "tried", {}))
    means = {m: float(np.mean([row[m] for row in figures])) for m in MEASURES}
    return means | {"cases": cases, "whose": whose, "tried": tried}


def drawn(
    sick: Images, may: np.ndarray, count: int, seed: int, order: str | None, fitted: Callable[[np.ndarray], Detector]
) -> np.ndarray:
    """Draws `count` of the rows `may` to be marked.

    By chance; or the first of STEPS by chance and what comes after each step in an order, of ORDERS, that `fitted`
    gives which has learnt from the rows before, as a reader marks who lets it learn whenever the page offers it.
    """
    rows = np.random.default_rng(seed).permutation(may)
    if order is None:
        return rows[:count]
    for step in (step for step in STEPS if step < count):
        marked, others = np.split(rows, [step])
        rows = np.concatenate([marked, others[_order(fitted(marked), sick.of(others), order, seed)]])
    return rows[:count]


def _fitted(
    kind: type[Detector], sets: Sets, rows: np.ndarray, encoder: Encoder, config: Config, device: str
) -> Detector:
    marked = sets.sick.of(rows)
    marks = Marks(marked.images, marked.masks, marked.roi, marked.patients) if len(rows) else None
    patients = sets.train.patients if sets.known else None
    context = FitContext(sets.train.roi, pick_device(device), patients=patients, marks=marks)
    return kind.fit(encoder, sets.train.images, config, context)


def _order(detector: Detector, others: Images, order: str, seed: int) -> np.ndarray:
    """Places of the images in an order, of ORDERS, of what to mark next."""
    prediction = detector.predict(others.images, roi=others.roi)
    if order == "score":
        return np.argsort(-detector.image_score(prediction, others.roi), kind="stable")
    return ordered(prediction.extras["unsure"], prediction.extras["novelty"], seed)[0]


def halves(sets: Sets, apart: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields (rows that may be marked, rows that are tested) of the abnormal images."""
    if apart:
        areas = sets.sick.masks.sum((1, 2))
        yield np.flatnonzero(areas <= np.median(areas)), np.flatnonzero(areas > np.median(areas))
        return
    order = {patient: i for i, patient in enumerate(dict.fromkeys(sets.sick.patients.tolist()))}
    mine = np.array([order[patient] % 2 == 0 for patient in sets.sick.patients.tolist()])
    yield np.flatnonzero(mine), np.flatnonzero(~mine)
    if sets.known:
        yield np.flatnonzero(~mine), np.flatnonzero(mine)


def measured(detector: Detector, sets: Sets, test: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
    """Computes figures on the normal test images and the abnormal ones `test`, and Dice of each of these (m,)."""
    sick = sets.sick.of(test)
    images, roi = (np.concatenate(pair) for pair in ((sets.well.images, sick.images), (sets.well.roi, sick.roi)))
    labels = np.repeat([0, 1], [len(sets.well.images), len(test)])
    truth = np.concatenate([np.zeros_like(sets.well.roi), sick.masks])
    held = detector.predict(sets.held.images, roi=sets.held.roi)
    patients = sets.held.patients if sets.known else None
    calibration = Calibration.of(np.zeros(len(held)), held.maps, sets.held.roi, patients)
    scale, level = calibration.pixels, detector.outline_level()
    assert scale is not None  # it was made of maps
    shown_rows = seen_rows(sets.train.roi, SEEN_SIDE)
    share = None
    if level is None:
        scale = scale._replace(seen=shown_rows)
        share = learn_share(lambda x, r: detector.predict(x, roi=r).maps, sets.held.images, sets.held.roi, scale)
    scale = calibration.outlined_by(share, shown_rows, level).pixels
    assert scale is not None
    prediction = detector.predict(images, roi=roi)
    valid, maps = roi > 0, upsample(prediction.maps, roi.shape[1])
    marked = outlined(maps, level_of(peaks(prediction.maps, roi, scale), scale), scale, valid)
    dice = overlaps_of(marked[labels == 1], truth[labels == 1], valid[labels == 1])[0]
    figures = {
        "auroc": auroc(detector.image_score(prediction, roi), labels),
        "pixel_auroc": pixel_auroc(maps, truth, valid),
        "dice": np.nanmean(dice),
        "pro": pro(maps[labels == 1], truth[labels == 1], valid[labels == 1]),
        "pro_all": pro(maps, truth, valid),
        "any_normal": (marked[labels == 0].sum((1, 2)) > ANY * valid[labels == 0].sum((1, 2))).mean(),
    }
    return {name: float(value) for name, value in figures.items()}, dice
