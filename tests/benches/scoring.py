"""Benchmarks of scoring against the backbone's pass that it needs anyway, and of IGD in batches against one by one."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import inference_copy
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.detectors.igd.igd import IGD
from core.engine.detectors.igd.model import PRESETS
from core.engine.detectors.lesion_head.config import LESION_PRESETS
from core.engine.detectors.lesion_head.decoder import LesionNet
from core.engine.detectors.lesion_head.lesion_head import LesionHead, ScoreRule
from core.engine.detectors.map_detector import MapDetector, fit_together, predict_together
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.tensors import autocast, pick_device, to_batch
from tests.benches import Aim, bench, medians


def beside_pass(detector: MapDetector, images: np.ndarray, rounds: int) -> dict[str, Any]:
    """Times scoring from uint8 (N, S, S, 3). "ratio": over the bare pass up to the coarsest map the detector reads.

    "ratio_whole" is against the whole backbone, its last stage and pooling included, which scoring does not need.
    """
    encoder = detector.encoder
    device = encoder.mean.device

    def score() -> None:
        detector.image_score(detector.predict(images))

    @torch.inference_mode()
    def bare() -> None:
        encoder.maps(to_batch(images, device), detector.config.strides)

    @torch.inference_mode()
    def whole() -> None:
        encoder.backbone(to_batch(images, device))

    taken, passing, through = medians([score, bare, whole], rounds, device=device)
    return {
        "ratio": taken / passing,
        "ratio_whole": taken / through,
        "images_per_second": len(images) / taken,
        "backbone_images_per_second": len(images) / passing,
        "threads": torch.get_num_threads(),
    }


@bench("padim-score", Aim(1.05))
def padim_score(quick: bool = False) -> dict[str, Any]:
    """PaDiM's scoring against the forward pass of the backbone it needs anyway.

    Images of 256 px (quick: 128), from uint8 to score. "ratio": scoring over the bare pass up to layer 3.
    """
    size, n, rounds = (128, 16, 3) if quick else (256, 32, 7)
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    padim = PaDiM.fit(build_encoder(EncoderConfig()).eval(), images, PaDiMConfig())
    return {**beside_pass(padim, images, rounds)}


@bench("nearest-score", Aim(1.5))
def nearest_score(quick: bool = False) -> dict[str, Any]:
    """Scoring by nearest patches (PatchCore's form) against the forward pass of the backbone it needs anyway.

    Images of 256 px (quick: 128) against 4,000 patches. "ratio": scoring over the bare pass up to layer 3.
    """
    size, n, rounds = (128, 16, 3) if quick else (256, 32, 7)
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    nearest = Nearest.fit(build_encoder(EncoderConfig()).eval(), images, NearestConfig(coreset="random"))
    return {"patches": len(nearest.memory.features), **beside_pass(nearest, images, rounds)}


@bench("lesion-score", Aim(1.15))
def lesion_score(quick: bool = False, device: str = "auto") -> dict[str, Any]:
    """The lesion head's scoring against the forward pass of the bare encoder.

    Images of 256 px (quick: 128), from uint8 to score and map. "ratio": scoring over the encoder's pass to f_theta.

    Both in the same precision and in batches of 32. The weights are untrained: they cost what trained ones cost.
    """
    size, n, rounds = (128, 16, 3) if quick else (256, 32, 7)
    where, config = pick_device(device), LESION_PRESETS["quick"]
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    encoder = build_encoder(EncoderConfig())
    head = LesionHead(LesionNet(encoder, config.width, config.k + 1), config, ScoreRule(), where)

    def score() -> None:
        head.image_score(head.predict(images))

    @torch.inference_mode()
    def bare() -> None:
        x = to_batch(images, where).contiguous(memory_format=torch.channels_last)
        with autocast(where, config.autocast):
            head.net.encoder(x).float().cpu()

    scoring, passing = medians([score, bare], rounds)
    return {
        "ratio": scoring / passing,
        "size": size,
        "images_per_second": n / scoring,
        "encoder_images_per_second": n / passing,
        "device": str(where),
        "threads": torch.get_num_threads(),
    }


@torch.inference_mode()
def one_by_one(igd: IGD, images: np.ndarray) -> np.ndarray:
    """Computes scores (N,) with each image, and each of its patches, in a pass of its own."""
    c, scores = igd.config, []
    for image in images:
        x = to_batch(image[None], torch.device("cpu"))
        rec, gauss, _ = igd.whole.judge(x)
        score = c.xi * rec + (1 - c.xi) * gauss
        if igd.local is not None:
            patches = []
            for patch in igd.grid.cut(x)[0]:
                rec, gauss, _ = igd.local.judge(patch[None])
                patches.append(c.xi_local * rec + (1 - c.xi_local) * gauss)
            score = c.local_share * torch.stack(patches).max() + (1 - c.local_share) * score
        scores.append(float(score))
    return np.array(scores)


@bench("igd-score", Aim(5, at_least=True))
def igd_score(quick: bool = False) -> dict[str, Any]:
    """IGD's scoring in batches against one image at a time, patch by patch, as it is published; the same scores.

    Images of 256 px with 225 patches (quick: 96 px, 25). "ratio": seconds one by one over ours, on the same weights.

    The weights are untrained: they cost what trained ones cost. "difference": the largest between the two scores.
    """
    size, n, rounds = (96, 2, 1) if quick else (256, 4, 5)
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    encoder = build_encoder(EncoderConfig()).eval()
    igd = IGD._build(PRESETS["paper" if not quick else "quick"], size, encoder, None, torch.device("cpu"))
    ours, theirs = medians([lambda: igd.image_score(igd.predict(images)), lambda: one_by_one(igd, images)], rounds)
    difference = np.abs(igd.image_score(igd.predict(images)) - one_by_one(igd, images)).max()
    return {
        "ratio": theirs / ours,
        "difference": float(difference),
        "patches": len(igd.grid),
        "images_per_second": n / ours,
        "threads": torch.get_num_threads(),
    }


@bench("quick-fit")
def quick_fit(quick: bool = False) -> dict[str, Any]:
    """PaDiM and nearest patches on ImageNet features, fitted and scored in one pass of the encoder each.

    500 images of 224 px on EfficientNet-lite0, 250 to fit and all 500 scored (quick: 60 of 128 px).

    "seconds_in_all" is what a newcomer waits for, "cpu_seconds" its work, which a busy machine alters less.
    "folding": the encoder's plain pass over that of its inference copy.
    """
    size, n = (128, 60) if quick else (224, 500)
    draw = np.random.default_rng(0)
    images = np.clip(draw.normal(120, 40, (n, size // 8, size // 8, 3)), 0, 255).astype(np.uint8)
    images = images.repeat(8, 1).repeat(8, 2)
    encoder = build_encoder(EncoderConfig(arch="efficientnet-lite0", init="auto")).eval()
    times, before = [time.perf_counter()], time.process_time()
    wanted: list[Any] = [(PaDiM, PaDiMConfig()), (Nearest, NearestConfig())]
    detectors = fit_together(encoder, images[: n // 2], wanted)
    times.append(time.perf_counter())
    for detector, prediction in zip(detectors, predict_together(detectors, images), strict=True):
        detector.image_score(prediction)
    times.append(time.perf_counter())
    work = time.process_time() - before
    folded, x = inference_copy(encoder), to_batch(images[:16], torch.device("cpu"))

    @torch.inference_mode()
    def through(which: Encoder) -> None:
        which.maps(x, (4, 8, 16))

    plain, quicker = medians([lambda: through(encoder), lambda: through(folded)], 2 if quick else 5)
    return {
        "images": n,
        "fit_seconds": times[1] - times[0],
        "score_seconds": times[2] - times[1],
        "seconds_in_all": times[2] - times[0],
        "cpu_seconds": work,
        "folding": plain / quicker,
        "threads": torch.get_num_threads(),
    }
