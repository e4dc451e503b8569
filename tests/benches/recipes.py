"""Recipes of pre-training side by side: what the classes become, and what detectors gain from the encoder.

    python launch.py bench recipes --data FOLDER --only sphere --only imagenet

FOLDER holds train/normal, test/normal, test/abnormal and, if masks are known, test/mask. A quarter of the training
images is held out. A recipe is chosen by figures of the held-out images alone: class accuracy, AUROC of A_0 against the
rest, neighbour purity of the centred features, and how well detectors find lesions of JUDGED, which no recipe pastes.
The test's figures stand beside them and choose nothing. Only the engine is needed, so that it runs on a bare machine
with a GPU, in as many processes as there are recipes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from core.engine.augment.config import MEDMIX_PRESETS, WEAK_PRESETS
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.calibration.heatmap import upsample
from core.engine.detectors.base import FitContext
from core.engine.detectors.lesion_head.synth import Pairs
from core.engine.metrics import localisation
from core.engine.metrics.clusters import cluster_metrics
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import DETECTORS
from core.engine.roi import find_roi
from core.engine.tensors import pick_device, to_batch, to_pixels
from core.engine.training.base import generator
from core.engine.training.pretrain import validate
from core.engine.training.pretraining import Data, Pretraining
from tests.benches import bench

SIDE = 256  # at which images are kept
DETECT = 224  # at which detectors see them
DETECTOR_NAMES = ("padim", "mahalanobis", "nearest", "blend")
JUDGED = ("medmix:lens", "medmix:mottle", "medmix:seam", "medmix:grain", "medmix:foreign", "medmix:stain",
          "growth:body", "growth:flat")  # fmt: skip
_ALL = PRETRAIN_PRESETS["sphere"].replace(steps=420, frozen=0, frozen_norm=False)
_MEDMIX = {name: preset.to_dict() for name, preset in MEDMIX_PRESETS.items()}
# The presets, those of 256 px shortened, and `sphere` with one thing changed each, from all layers at the full rate.
RECIPES: dict[str, PretrainConfig | None] = {
    "none": None,
    "imagenet": PRETRAIN_PRESETS["imagenet"],
    "sphere": PRETRAIN_PRESETS["sphere"],
    **{n: PRETRAIN_PRESETS[n].replace(size=128, steps=420, batch=8) for n in ("paper", "as-printed", "from-random")},
    "all layers": _ALL,
    "frozen to 4": _ALL.replace(frozen=4, frozen_norm=True),
    "frozen to 8": _ALL.replace(frozen=8, frozen_norm=True),
    "frozen to 16": _ALL.replace(frozen=16, frozen_norm=True),
    "a tenth of the rate": _ALL.replace(frozen_norm=True, backbone_rate=0.1),
    "frozen to 8, a tenth": _ALL.replace(frozen=8, frozen_norm=True, backbone_rate=0.1),
    "gentle views": _ALL.replace(weak=WEAK_PRESETS["gentle"].to_dict()),
    "classes on features": _ALL.replace(aug_on="features"),
    "batch of 32": _ALL.replace(batch=32, lr=0.02),
    "1,260 steps": _ALL.replace(steps=1260),
    "paste varied": _ALL.replace(medmix=_MEDMIX["varied"]),
    "paste large": _ALL.replace(medmix=_MEDMIX["large"]),
    "paste lesions": _ALL.replace(medmix=_MEDMIX["lesions"]),
    # Lesions keep the colours of the image that they are cut from, as `quick` pasted them before they were mended.
    "foreign colours": PRETRAIN_PRESETS["sphere"].replace(
        **{"medmix.match": (0.0, 0.0), "medmix.jitter": (0.4, 0.4, 0.4, 0.1)}
    ),
}


@dataclass
class Part:
    """Images uint8 (N, S, S, 3), their regions of interest and lesion masks uint8 (N, S, S), 1 inside."""

    images: np.ndarray
    roi: np.ndarray
    masks: np.ndarray

    def at(self, side: int) -> Part:
        """Shrinks all to `side`."""
        if side == self.images.shape[1]:
            return self
        shrunk = [
            np.stack([cv2.resize(x, (side, side), interpolation=cv2.INTER_AREA) for x in stack])
            for stack in (self.images, 255 * self.roi, 255 * self.masks)
        ]
        return Part(shrunk[0], (shrunk[1] > 127).astype(np.uint8), (shrunk[2] > 127).astype(np.uint8))

    def rows(self, rows: np.ndarray) -> Part:
        """Returns the images at `rows`."""
        return Part(self.images[rows], self.roi[rows], self.masks[rows])


@bench("recipes")
def recipes(
    quick: bool = False, device: str = "auto", data: str = "", only: tuple[str, ...] = (), seed: int = 0
) -> dict[str, Any]:
    """Pre-trainings by recipe on one set of images: classes told apart, and detectors on each encoder.

    Raises ValueError without --data, or for an unknown recipe.
    """
    if not data:
        raise ValueError("recipes are compared on real images: give --data FOLDER")
    if unknown := sorted(set(only) - set(RECIPES)):
        raise ValueError(f"unknown recipe {unknown[0]!r}; choose from: {', '.join(RECIPES)}")
    where, folder = pick_device(device), Path(data)
    normal, test = read_part(folder, "train/normal"), [read_part(folder, f"test/{n}") for n in ("normal", "abnormal")]
    order = np.random.default_rng(seed).permutation(len(normal.images))
    held, train = (normal.rows(np.sort(rows)) for rows in np.split(order, [len(order) // 4]))
    rows = []
    for name in only or RECIPES:
        started, config = time.monotonic(), RECIPES[name]
        if config is not None and quick:
            config = config.replace(size=64, steps=8, batch=4)
        row: dict[str, Any] = {"recipe": name, "seed": seed}
        if config is None:
            encoder = build_encoder(EncoderConfig(arch="efficientnet-lite0", init="auto", seed=seed)).to(where)
        else:
            config = config.replace(seed=seed, **{"encoder.seed": seed})
            encoder = _trained(config, train, held, where, row)
        encoder.eval()
        names, families = (DETECTOR_NAMES[1:2], JUDGED[:1]) if quick else (DETECTOR_NAMES, JUDGED)
        row |= _detected(encoder, train, held, test, where, names, families)
        rows.append({**row, "seconds": round(time.monotonic() - started, 1)})
        print(json.dumps(rows[-1]), flush=True)
    return {"set": folder.name, "rows": rows}


def read_part(folder: Path, part: str, but: Collection[str] = ()) -> Part:
    """Reads a part of a set at SIDE, with masks that share the images' names. but: names of images to leave out."""
    images, regions, masks = [], [], []
    for file in sorted(file for file in (folder / part).iterdir() if file.stem not in but):
        image = cv2.cvtColor(cv2.imread(str(file), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
        mask = next((folder / "test/mask").glob(f"{file.stem}.*"), None) if part == "test/abnormal" else None
        lesion = np.zeros(image.shape[:2], np.uint8) if mask is None else cv2.imread(str(mask), cv2.IMREAD_GRAYSCALE)
        for stack, pixels in ((images, image), (regions, 255 * find_roi(image)), (masks, lesion)):
            stack.append(cv2.resize(pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA))
    binary = [(np.stack(stack) > 127).astype(np.uint8) for stack in (regions, masks)]
    return Part(np.stack(images), *binary)


def _trained(config: PretrainConfig, train: Part, held: Part, device: torch.device, row: dict[str, Any]) -> Encoder:
    """Pre-trains, and notes in `row` how well the classes of held-out normals are told apart."""
    train, held = train.at(config.size), held.at(config.size)
    training = Pretraining(config, Data(train.images, train.roi), device)
    training.prepare()
    alarms = sum(bool(training.advance()["alarm"]) for _ in range(training.steps))
    row |= validate(training, Data(held.images, held.roi)) | {"steps": training.steps, "alarms": alarms}
    row |= purity(training, Data(held.images, held.roi))
    training.encoder.class_head = training.objective.class_head()
    return training.encoder.to(device)


def purity(training: Pretraining, held: Data) -> dict[str, float]:
    """Measures the neighbour purity and silhouette of the centred features of held-out normals and their MedMix."""
    training.encoder.eval(), training.objective.eval()
    samples = []
    with torch.no_grad():
        for start in range(0, len(held.images), 32):
            images, inside = held.batch(np.arange(start, min(start + 32, len(held.images))), training.device)
            pasted, labels = training.objective.samples(
                images, generator(training.config.seed, 0, start), inside, False
            )
            samples.append((training.features(pasted)[1].cpu(), labels.cpu()))
    z, of_images = (torch.cat(parts) for parts in zip(*samples, strict=True))
    assert training.centres is not None
    measured = cluster_metrics((z - training.centres.cpu()[of_images]).numpy(), of_images.numpy())
    return {name: measured[name] for name in ("knn_purity", "silhouette")}


def _detected(
    encoder: Encoder,
    train: Part,
    held: Part,
    test: list[Part],
    device: torch.device,
    names: tuple[str, ...],
    families: tuple[str, ...],
) -> dict[str, dict[str, float]]:
    """Measures each detector on lesions pasted into held-out normals, and on the test images."""
    train, held, normal, abnormal = (part.at(DETECT) for part in (train, held, *test))
    pasted = {name: _pasted(held, name, i) for i, name in enumerate(families)}
    figures = {}
    for name in names:
        kind = DETECTORS.get(name)
        context = FitContext(roi=train.roi, device=device)
        detector = kind.fit(encoder, train.images, kind.preset(), context)

        def read(part: Part, detector: Any = detector) -> tuple[np.ndarray, np.ndarray]:
            prediction = detector.predict(part.images, roi=part.roi)
            return detector.image_score(prediction, part.roi), upsample(prediction.maps, DETECT // 2)

        of_held = read(held)[0]
        judged = []
        for part in pasted.values():
            scores, maps = read(part)
            masks = part.masks[:, ::2, ::2] > 0
            judged.append((auroc(of_held, scores), localisation.pixel_auroc(maps, masks, np.ones_like(masks))))
        of_normal, of_abnormal = read(normal), read(abnormal)
        row = {"pasted_auroc": np.mean([a for a, _ in judged]), "pasted_pixel_auroc": np.mean([p for _, p in judged])}
        row["test_auroc"] = auroc(of_normal[0], of_abnormal[0])
        if abnormal.masks.any():
            maps = np.concatenate([of_normal[1], of_abnormal[1]])
            masks = np.concatenate([normal.masks, abnormal.masks])[:, ::2, ::2] > 0
            inside = np.concatenate([normal.roi, abnormal.roi])[:, ::2, ::2] > 0
            sick = slice(len(normal.images), None)
            row |= {
                "test_pixel_auroc": localisation.pixel_auroc(maps, masks, inside),
                "test_dice": localisation.best_dice(maps, masks, inside)[1],
                "test_pro": localisation.pro(maps[sick], masks[sick], inside[sick]),
            }
        figures[name] = {key: round(float(value), 4) for key, value in row.items()}
    return figures


def _pasted(held: Part, family: str, number: int) -> Part:
    """Pastes two lesions of a family into every other held-out image; those that cannot be seen are left out."""
    part = held.rows(np.arange(number % 2, len(held.images), 2))
    images: Tensor = to_batch(part.images, torch.device("cpu"))
    counts = torch.full((len(images),), 2)
    pair = Pairs((family,), 3)(images, torch.from_numpy(part.roi), generator(0, 11, number), counts=counts)
    seen = pair.masks.numpy().any((1, 2))
    return Part(to_pixels(pair.images)[seen], part.roi[seen], pair.masks.numpy()[seen].astype(np.uint8))


def auroc(normal: np.ndarray, abnormal: np.ndarray) -> float:
    """Returns the AUROC of abnormal images' scores against those of normal ones."""
    from sklearn.metrics import roc_auc_score  # here: scikit-learn takes seconds to load

    labels = np.r_[np.zeros(len(normal)), np.ones(len(abnormal))]
    return float(roc_auc_score(labels, np.r_[normal, abnormal]))
