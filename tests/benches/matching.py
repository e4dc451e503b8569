"""How near pasted lesions come to real ones that the search for MedMix settings was not shown, and whether it helps."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from scipy.stats import wilcoxon

from core.engine.augment.config import MEDMIX_PRESETS, MedMixConfig
from core.engine.augment.matching import (
    APART,
    NORMALS,
    PATCH,
    SIDE,
    Lesions,
    Match,
    Search,
    energy_distance,
    imagenet_features,
    patch_around,
)  # fmt: skip
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.calibration.heatmap import upsample
from core.engine.detectors.base import Detector, FitContext
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.metrics import localisation
from core.engine.metrics.bootstrap import interval_of_mean
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch
from core.engine.training.pretraining import Data, Pretraining
from core.studio.ingest.resize import prepare
from tests.benches import Aim, bench
from tests.benches.recipes import Part, auroc, read_part
from tests.benches.unseen import PATIENT

SETS = {"hyperkvasir": "colonoscopy", "brain": "brain MRI", "idrid": "fundus", "cxr": "chest X-ray"}
DRAWS, SHOWN, REST = 5, 5, 90
NAMED = ("varied", "paper")


@bench("match", Aim(0.6))
def match(
    quick: bool = False, data: str | None = None, only: tuple[str, ...] = (), seconds: float = 60
) -> dict[str, Any]:
    """MedMix from five lesions: distance of its pasted lesions to 90 real ones never shown, beside the presets'.

    --data FOLDER holds sets: NAME/train/normal, NAME/test/abnormal, NAME/test/mask. Of each set five lesions are drawn
    five times, and the search is given 60 s. The others are of other patients where names tell.

    "rows": of each set the means over draws, and each draw's under "draws". Distances are energy distances in ImageNet
    features; 1 is that of patches of normal tissue. anywhere: the same, where normal patches are squares anywhere in
    the image, the background too, as they were in the first prototype. found: by the search; preset: the fixed preset
    that is best by the five lesions; best: by the 90, which nobody knows. left_out: what the search said itself.
    ratio: `found_anywhere` of colonoscopy.
    """
    if data is None:
        raise ValueError("say where the sets are: --data FOLDER")
    rows: list[dict[str, Any]] = []
    for name in only or SETS:
        folder = Path(data) / name
        if not (folder / "test/mask").is_dir():
            rows.append({"set": name, "missing": "no masks: there is no lesion to match"})
            continue
        images, roi, lesions, _ = read(folder)
        draws = [
            one(images, roi, lesions, seed, 3 if quick else None, seconds) for seed in range(1 if quick else DRAWS)
        ]
        mean = {key: float(np.mean([d[key] for d in draws])) for key in draws[0] if isinstance(draws[0][key], float)}
        rows.append({"set": name, **mean, "draws": draws})
        print(rows[-1], flush=True)
    colon = next((row.get("found_anywhere") for row in rows if row["set"] == "hyperkvasir"), None)
    return {"ratio": colon, "missing": "no colonoscopy", "rows": rows}


def read(folder: Path) -> tuple[torch.Tensor, torch.Tensor, Lesions, list[str]]:
    """Reads normal images, their regions of interest, the lesions of a set, and the names of their images."""
    normal = [prepare(_rgb(f), SIDE) for f in sorted((folder / "train/normal").iterdir())[:NORMALS]]
    pairs = [
        (f, next((folder / "test/abnormal").glob(f"{f.stem}.*"))) for f in sorted((folder / "test/mask").iterdir())
    ]
    masks = [cv2.imread(str(f), cv2.IMREAD_GRAYSCALE) > 127 for f, _ in pairs]
    keep = [i for i, mask in enumerate(masks) if mask.mean() > 60 / (2 * SIDE) ** 2]
    owner = [(re.match(PATIENT, f.name) or [f.name])[0] for f, _ in pairs]
    units = np.unique([owner[i] for i in keep], return_inverse=True)[1]
    lesions = Lesions.of((_rgb(pairs[i][1]) for i in keep), (masks[i] for i in keep), units)
    x = to_batch(np.stack([image for image, _ in normal]), torch.device("cpu"))
    stems = [pairs[i][1].stem for i in keep]
    return x, torch.from_numpy(np.stack([roi for _, roi in normal])), lesions, stems


def one(
    x: torch.Tensor, roi: torch.Tensor, lesions: Lesions, seed: int, tries: int | None, seconds: float
) -> dict[str, Any]:
    """Searches by five lesions drawn from the seed, and measures by the others: {"found", "found_anywhere", ...}."""
    order = np.random.default_rng(seed).permutation(len(lesions.patches))
    few = order[:SHOWN]
    rest = [i for i in order[SHOWN:] if lesions.units[i] not in lesions.units[few]][:REST]
    search = _search(x, roi, lesions, few, seed)
    found = search.run(seconds, tries)
    others = search.encoded(lesions.patches[rest]) / search.scale
    anywhere = search.encoded(_anywhere(x, search.lesions, seed)) / search.scale
    bases = {"": energy_distance(search.plain, others), "_anywhere": energy_distance(anywhere, others)}
    presets = {name: search.describe(config, fresh=True) for name, config in MEDMIX_PRESETS.items()}
    every = {"found": search.describe(found.config, fresh=True), "preset": presets[found.preset]}
    every |= {name: presets[name] for name in NAMED}
    far = {name: energy_distance(z, others) for name, z in every.items()}
    far["best"] = min(energy_distance(z, others) for z in presets.values())
    figures = {f"{name}{of}": d / max(base, APART) for of, base in bases.items() for name, d in far.items()}
    return {**figures, "left_out": found.left_out, "shown": found.after, "seconds": found.seconds, "tries": found.tries,
            "preset_name": found.preset, "words": found.words}  # fmt: skip


def _search(x: torch.Tensor, roi: torch.Tensor, lesions: Lesions, few: np.ndarray, seed: int) -> Search:
    chosen = Lesions(lesions.patches[few], lesions.sizes[few], lesions.units[few])
    return Search(x, roi, chosen, imagenet_features(), seed)


def _anywhere(x: torch.Tensor, lesions: Lesions, seed: int) -> np.ndarray:
    """Cuts out a square of a lesion's size anywhere in each image."""
    rng, patches = np.random.default_rng(seed), []
    for image in (x.permute(0, 2, 3, 1) * 255).byte().numpy():
        side = max(8, int(SIDE * lesions.sizes[rng.integers(len(lesions.sizes))].max()))
        y, x0 = (int(v) for v in rng.integers(0, max(1, SIDE - side), 2))
        patches.append(patch_around(image, (y, x0, y + side, x0 + side), PATCH))
    return np.stack(patches)


def _rgb(file: Path) -> np.ndarray:
    return cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)


DETECT = 128  # pixels at which detectors see images
HEAD = LesionHeadConfig(mode="frozen", batch=8, steps=80)
PRETRAINED = PRETRAIN_PRESETS["sphere"].replace(steps=70)
PAIRS = [("head", "matched", "preset"), ("head", "matched", "varied"), ("blend", "matched", "preset"),
         ("blend", "matched", "varied"), ("blend", "matched", "none"), ("blend", "varied", "none")]  # fmt: skip
EACH = 100  # images of each kind: to train on, and of the test


@bench("matched")
def matched(
    quick: bool = False,
    data: str | None = None,
    only: tuple[str, ...] = (),
    seconds: float = 60,
) -> dict[str, Any]:
    """Whether training with matched settings helps to find lesions, as a lesion head and as pre-training.

    --data FOLDER as for `match`. For each draw of five lesions and each set the same trainings are done with what the
    search found, with the fixed preset that is nearest to the five, and with `varied`. Neither the five nor other
    images of their patients are tested. Printed draw by draw.

    "rows": "head": figures of a lesion head on ImageNet's features, which stay; "blend": those of PaDiM, Mahalanobis
    and nearest on an encoder pre-trained with these settings. The arm `none` has the blend on ImageNet's features.
    "compared": see `compared`.
    """
    if data is None:
        raise ValueError("say where the sets are: --data FOLDER")
    folders = [Path(data) / name for name in only or SETS if (Path(data) / name / "test/mask").is_dir()]
    draws = [(draw, folder) for draw in range(1 if quick else DRAWS) for folder in folders]
    # All searches come first, because what is found in a given time depends on what else the machine does.
    searched = [_searched(folder, draw, seconds, 3 if quick else None) for draw, folder in draws]
    rows: list[dict[str, Any]] = []
    for (draw, folder), (found, shown) in zip(draws, searched, strict=True):
        kinds = [("train/normal", set[str]()), ("test/normal", set[str]()), ("test/abnormal", shown)]
        parts = [read_part(folder, part, but).at(DETECT) for part, but in kinds]
        train, *test = [p.rows(np.unique(np.linspace(0, len(p.images) - 1, EACH).astype(int))) for p in parts]
        known = {"set": folder.name, "draw": draw, "preset": found.preset}
        rows.append({**known, "arm": "none", "blend": _blended(_imagenet(draw), train, test)})
        arms = {"preset": MEDMIX_PRESETS[found.preset], "matched": found.config, "varied": MEDMIX_PRESETS["varied"]}
        done: list[tuple[MedMixConfig, dict[str, Any]]] = []  # settings and their figures
        for arm, config in arms.items():
            figures = next((of for settings, of in done if settings == config), None)
            figures = figures or _trained(config, draw, quick, train, test)
            done.append((config, figures))
            rows.append({**known, "arm": arm, **figures})
        print(*map(json.dumps, rows[-1 - len(arms) :]), sep="\n", flush=True)
    return {"rows": rows, "compared": compared(rows)}


def compared(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Compares pairs of arms draw by draw, on each figure.

    {pair and figure: mean "difference", its 95 % "interval" over draws, draws "ahead" and "behind", "p" by Wilcoxon}.
    """
    of = {(row["set"], row["draw"], row["arm"]): row for row in rows}
    draws = sorted({key[:2] for key in of})
    found = {}
    for kind, arm, other in PAIRS:
        for figure in ("auroc", "pixel_auroc", "dice", "pro"):
            apart = np.array([of[(*d, arm)][kind][figure] - of[(*d, other)][kind][figure] for d in draws])
            found[f"{kind}: {arm} - {other}, {figure}"] = {
                "difference": float(apart.mean()), "interval": interval_of_mean(apart), "ahead": int((apart > 0).sum()),
                "behind": int((apart < 0).sum()), "p": float(wilcoxon(apart).pvalue) if apart.any() else 1.0,
            }  # fmt: skip
    return found


def _searched(folder: Path, draw: int, seconds: float, tries: int | None) -> tuple[Match, set[str]]:
    """Searches by the five lesions of a draw; the result, and the names of all images of their patients."""
    x, roi, lesions, stems = read(folder)
    few = np.random.default_rng(draw).permutation(len(lesions.patches))[:SHOWN]
    found = _search(x, roi, lesions, few, draw).run(seconds, tries)
    print(folder.name, draw, found.preset, f"{found.seconds:.0f} s, {found.tries} tries: {found.words}", flush=True)
    return found, {stems[i] for i in np.flatnonzero(np.isin(lesions.units, lesions.units[few]))}


def _trained(config: MedMixConfig, seed: int, quick: bool, train: Part, test: list[Part]) -> dict[str, Any]:
    """Trains a lesion head and pre-trains an encoder with one kind of pasted lesions, and tests both."""
    started = time.monotonic()
    options = HEAD.replace(families=("medmix:_matched",), seed=seed, **({"steps": 4} if quick else {}))
    MEDMIX_PRESETS["_matched"] = config
    head = DETECTORS.get("lesion-head").fit(_imagenet(seed), train.images, options, _context(train))
    del MEDMIX_PRESETS["_matched"]
    settings = {"seed": seed, "encoder.seed": seed, "medmix": config.to_dict(), **({"steps": 2} if quick else {})}
    part = train.at(PRETRAINED.size)
    training = Pretraining(PRETRAINED.replace(**settings), Data(part.images, part.roi), torch.device("cpu"))
    training.prepare()
    alarms = sum(bool(training.advance()["alarm"]) for _ in range(training.steps))
    figures = {"head": _tested(head, test), "blend": _blended(training.encoder.eval(), train, test)}
    return {**figures, "alarms": alarms, "seconds": round(time.monotonic() - started)}


def _imagenet(seed: int) -> Encoder:
    return build_encoder(EncoderConfig(arch="efficientnet-lite0", init="auto", seed=seed)).eval()


def _context(train: Part) -> FitContext:
    return FitContext(roi=train.roi, device=torch.device("cpu"))


def _blended(encoder: Encoder, train: Part, test: list[Part]) -> dict[str, float]:
    kind = DETECTORS.get("blend")
    return _tested(kind.fit(encoder, train.images, kind.preset(), _context(train)), test)


def _tested(detector: Detector, test: list[Part]) -> dict[str, float]:
    """Measures a detector on normal and abnormal images of the test."""
    predictions = [detector.predict(part.images, roi=part.roi) for part in test]
    scores = [detector.image_score(found, part.roi) for found, part in zip(predictions, test, strict=True)]
    maps = np.concatenate([upsample(found.maps, DETECT) for found in predictions])
    masks, inside = (np.concatenate([getattr(part, of) for part in test]) > 0 for of in ("masks", "roi"))
    sick = slice(len(test[0].images), None)
    figures = {
        "auroc": auroc(*scores),
        "pixel_auroc": localisation.pixel_auroc(maps, masks, inside),
        "dice": localisation.best_dice(maps, masks, inside)[1],
        "pro": localisation.pro(maps[sick], masks[sick], inside[sick]),
    }
    return {name: round(float(value), 4) for name, value in figures.items()}
