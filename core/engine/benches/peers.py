"""PaDiM, nearest patches and figures beside anomalib's, with the same weights on the same images.

anomalib lives in an environment of its own: python -m venv .peers && .peers/bin/pip install -r requirements-bench.txt
(or PMSACL_PEERS, the path of its Python). Images are drawn: speed and agreement do not depend on what they show.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.benches import _anomalib
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.metrics.localisation import pixel_auroc, pro
from core.engine.tensors import to_batch

LAYERS = ["blocks.1", "blocks.2", "blocks.4"]  # of EfficientNet-lite in timm: strides 4, 8 and 16
CPU = torch.device("cpu")


def run(quick: bool = False) -> dict[str, Any]:
    """100 images of 224 px fitted and 50 scored, EfficientNet-lite0; figures of 12 maps of 256 px; medians of three
    rounds, in turns (quick: 24 and 8 of 96 px, 4 maps of 64 px, one round).

    "ratio": seconds of anomalib's fit of PaDiM, backbone included, over ours. "ratios": the same of each part.
    "padim_difference": the largest relative difference of PaDiM's distances, before either's blur; "auroc_difference"
    and "pro_difference": of the figures. "ours", "anomalib": seconds.

    Raises ValueError if the peers' environment is not there.
    """
    fit, seen, size, count, side = (24, 8, 96, 4, 64) if quick else (100, 50, 224, 12, 256)
    draw, python = np.random.default_rng(0), peers_python()
    images = np.clip(draw.normal(120, 40, (fit + seen, size // 8, size // 8, 3)), 0, 243).astype(np.uint8)
    images = images.repeat(8, 1).repeat(8, 2)
    images += draw.integers(0, 12, images.shape, dtype=np.uint8)
    maps, masks = marked(count, side, draw)
    encoder = build_encoder(EncoderConfig(arch="efficientnet-lite0", init="auto")).eval()
    patches = NearestConfig(patches=fit * 8, pool=fit * (size // 8) ** 2)
    rounds: list[tuple[dict[str, float], dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        padim = PaDiM.fit(encoder, images[:fit], PaDiMConfig())  # warm, and it draws the channels
        with torch.inference_mode():
            normal = np.concatenate([encoder.normalise(to_batch(one[None], CPU)).numpy() for one in images])
        given: dict[str, Any] = {
            "fit": normal[:fit],
            "seen": normal[fit:],
            "channels": _channels(padim),
            "maps": maps,
            "masks": masks,
        }
        np.savez(folder / "inputs.npz", **given)
        torch.save(_weights(encoder), folder / "net.pt")
        plan = {"backbone": "tf_efficientnet_lite0", "layers": LAYERS, "batch": padim.config.batch}
        plan |= {"patches": patches.patches, "threads": torch.get_num_threads()}
        (folder / "plan.json").write_text(json.dumps(plan))
        for _ in range(1 if quick else 3):
            done = subprocess.run([python, _anomalib.__file__, name], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"anomalib's side failed: {done.stderr.strip()[-500:]}")
            theirs = json.loads((folder / "result.json").read_text())
            ours = _detector(PaDiM, encoder, images, fit, padim.config)
            ours |= _detector(Nearest, encoder, images, fit, patches)
            for key, what in (("auroc", pixel_auroc), ("pro", pro)):
                ours[f"{key}_seconds"], ours[key] = _anomalib.timed(partial(what, maps, masks))
            rounds.append((ours, theirs))
        distances = np.load(folder / "padim.npy")
    mine, others = ({k: statistics.median(r[i][k] for r in rounds) for k in rounds[0][0]} for i in (0, 1))
    ratios = {k.removesuffix("_seconds"): others[k] / mine[k] for k in mine if k.endswith("_seconds")}
    return {
        "ratio": ratios["padim_fit"], "ratios": ratios,
        "padim_difference": float(np.abs(_plain(padim, images[fit:]) / distances - 1).max()),
        **{f"{key}_difference": abs(mine[key] - others[key]) for key in ("auroc", "pro")},
        "ours": mine, "anomalib": others, "threads": torch.get_num_threads(),
    }  # fmt: skip


def peers_python() -> str:
    python = os.environ.get("PMSACL_PEERS") or str(Path(__file__).resolve().parents[3] / ".peers" / "bin" / "python")
    if not Path(python).exists():
        raise ValueError(
            "the peers have an environment of their own: python -m venv .peers && "
            ".peers/bin/pip install -r requirements-bench.txt"
        )
    return python


def _detector(kind: Any, encoder: Encoder, images: np.ndarray, fit: int, config: Any) -> dict[str, float]:
    fitting, detector = _anomalib.timed(lambda: kind.fit(encoder, images[:fit], config))
    detector.predict(images[fit : fit + 2])  # warm: the first call folds the encoder's batch norms
    scoring, _ = _anomalib.timed(lambda: detector.image_score(detector.predict(images[fit:])))
    return {f"{kind.name}_fit_seconds": fitting, f"{kind.name}_score_seconds": scoring}


def _channels(detector: PaDiM) -> np.ndarray:
    """Places of the channels that it keeps, among all of its maps' channels laid side by side."""
    widths = [detector.encoder.widths[stride] for stride in detector.config.strides]
    starts = dict(zip(detector.config.strides, np.cumsum([0, *widths[:-1]]), strict=True))
    return np.concatenate([index.numpy() + starts[stride] for stride, index in detector.kept.items()])


@torch.inference_mode()
def _plain(detector: PaDiM, images: np.ndarray) -> np.ndarray:
    """Distances (N, h, w) without a blur, by the encoder as it stands."""
    return detector.distances(detector.encoder.maps(to_batch(images, CPU), detector.config.strides)).numpy()


def _weights(encoder: Encoder) -> dict[str, torch.Tensor]:
    """The backbone's weights by timm's names."""
    return {name.removeprefix("net."): value for name, value in encoder.state_dict().items() if name.startswith("net.")}


def marked(n: int, side: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Maps float32 (n, S, S) in [0, 1] and masks uint8 with one square lesion each."""
    masks = np.zeros((n, side, side), np.uint8)
    for mask in masks:
        y, x = draw.integers(0, side - side // 5, 2)
        mask[y : y + side // 5, x : x + side // 6] = 1
    return (draw.random(masks.shape, np.float32) * 0.8 + 0.2 * masks).astype(np.float32), masks
