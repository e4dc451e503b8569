"""Benchmarks of our detectors and metrics against anomalib's and AnomaVision's, on the same images, weights and maps.

The peers live in an environment of their own: python -m venv .peers && .peers/bin/pip install -r requirements-bench.txt
&& .peers/bin/pip install --no-deps anomavision==3.6.2 (or PMSACL_PEERS, the path of its Python). Images and maps are
drawn: speed and agreement do not depend on what they show.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchvision.models import resnet18

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.calibration.percentiles import PixelScale
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.metrics.localisation import Pixels, pixel_auroc, pro
from core.engine.metrics.localised import MOST, at_once, by_blocks
from core.engine.tensors import most_memory, to_batch
from tests.benches import ROOT, Aim, _anomalib, _anomavision, bench

LAYERS = ["blocks.1", "blocks.2", "blocks.4"]  # of EfficientNet-lite in timm: strides 4, 8 and 16
CPU = torch.device("cpu")


@bench("peers")
def peers(quick: bool = False) -> dict[str, Any]:
    """PaDiM, nearest patches and metrics against anomalib's, with the same weights on the same images.

    100 images of 224 px fitted and 50 scored, EfficientNet-lite0; figures of 12 maps of 256 px; medians of three
    rounds, in turns (quick: 24 and 8 of 96 px, 4 maps of 64 px, one round).

    "ratio": seconds of anomalib's fit of PaDiM, backbone included, over ours. "ratios": the same of each part.
    "padim_difference": the largest relative difference of PaDiM's distances, before either's blur; "auroc_difference"
    and "pro_difference": of the figures. "ours", "anomalib": seconds. "anomavision": seconds and ratios of PaDiM as
    AnomaVision fits it: ResNet-18, 50 channels of strides 4 and 8.

    Raises ValueError if the peers' environment is not there.
    """
    fit, test, size, count, side = (24, 8, 96, 4, 64) if quick else (100, 50, 224, 12, 256)
    draw, python = np.random.default_rng(0), peers_python()
    images = np.clip(draw.normal(120, 40, (fit + test, size // 8, size // 8, 3)), 0, 243).astype(np.uint8)
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
            normal = np.concatenate([encoder.normalise(to_batch(image[None], CPU)).numpy() for image in images])
        given: dict[str, Any] = {
            "fit": normal[:fit],
            "seen": normal[fit:],
            "channels": _channels(padim),
            "maps": maps,
            "masks": masks,
        }
        np.savez(folder / "inputs.npz", **given)
        torch.save(_weights(encoder), folder / "net.pt")
        resnet = build_encoder(EncoderConfig(arch="resnet18", init="random")).eval()
        weights = resnet18().state_dict()  # with a last layer, which no map needs
        torch.save(weights | {k: v for k, v in _weights(resnet).items() if k in weights}, folder / "resnet18.pt")
        small = PaDiMConfig(strides=(4, 8), channels=50)
        beside: list[dict[str, float]] = []
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
            line = [python, _anomavision.__file__, name, str(torch.get_num_threads())]
            vision, same = _process(line), _detector(PaDiM, resnet, images, fit, small)
            beside.append({f"ours_{part}": same[f"padim_{part}_seconds"] for part in ("fit", "score")} | vision)
        distances = np.load(folder / "padim.npy")
    mine, others = ({k: statistics.median(r[i][k] for r in rounds) for k in rounds[0][0]} for i in (0, 1))
    ratios = {k.removesuffix("_seconds"): others[k] / mine[k] for k in mine if k.endswith("_seconds")}
    return {
        "ratio": ratios["padim_fit"], "ratios": ratios,
        "padim_difference": float(np.abs(_plain(padim, images[fit:]) / distances - 1).max()),
        **{f"{key}_difference": abs(mine[key] - others[key]) for key in ("auroc", "pro")},
        "ours": mine, "anomalib": others, "threads": torch.get_num_threads(),
        "anomavision": {
            **(vision := {k: statistics.median(one[k] for one in beside) for k in beside[0]}),
            **{f"ratio_{part}": vision[f"{part}_seconds"] / vision[f"ours_{part}"] for part in ("fit", "score")},
        },
    }  # fmt: skip


def peers_python() -> str:
    python = os.environ.get("PMSACL_PEERS") or str(ROOT / ".peers" / "bin" / "python")
    if not Path(python).exists():
        raise ValueError(
            "the peers have an environment of their own: python -m venv .peers && "
            ".peers/bin/pip install -r requirements-bench.txt && "
            ".peers/bin/pip install --no-deps anomavision==3.6.2"
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
    maps = detector.encoder.maps(to_batch(images, CPU), detector.config.strides)
    return detector.gaussian.distance([maps[s].index_select(1, index) for s, index in detector.kept.items()]).numpy()


def _weights(encoder: Encoder) -> dict[str, torch.Tensor]:
    """The backbone's weights by timm's names."""
    return {name.removeprefix("net."): value for name, value in encoder.state_dict().items() if name.startswith("net.")}


def marked(n: int, side: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws maps float32 (n, S, S) in [0, 1] and masks uint8 (n, S, S) with one rectangular lesion each."""
    masks = np.zeros((n, side, side), np.uint8)
    for mask in masks:
        y, x = draw.integers(0, side - side // 5, 2)
        mask[y : y + side // 5, x : x + side // 6] = 1
    return (draw.random(masks.shape, np.float32) * 0.8 + 0.2 * masks).astype(np.float32), masks


WAYS = {"exact": at_once, "blocks": by_blocks}
LEVEL = PixelScale(0.0, 1.0, 0.6)  # pixels above it count as marked for Dice


@bench("metrics", Aim(5, at_least=True))
def metrics(quick: bool = False) -> dict[str, Any]:
    """Pixel AUROC, exact PRO and Dice of many heat maps, at once and by blocks, against anomalib's AUROC and AUPRO.

    Each is measured in a process of its own, on one thread; without anomalib only our two ways are compared.

    500 maps of 256 px (quick: 12 of 64 px), each with one lesion, read from files.

    "exact", "blocks", "anomalib": the processor's seconds, the process's peak memory in MiB (libraries counted, files
    not) and the figures. "ratio": anomalib's seconds over those of the way that an evaluation takes for so many maps,
    which counts Dice as well; "ratios": over each way's. Both are None without anomalib, and "missing" says how to
    install it. "difference": the largest between exact and blocks; "anomalib_difference": exact and anomalib.
    """
    count, side = (12, 64) if quick else (500, 256)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, rows in zip(("maps", "masks"), marked(count, side, np.random.default_rng(0)), strict=True):
            np.save(folder / f"{kind}.npy", rows)
        ours = "import sys; from tests.benches import peers; peers.show(*sys.argv[1:])"
        values = {way: _process([sys.executable, "-c", ours, name, way]) for way in WAYS}
        result: dict[str, Any] = {"ratio": None, "ratios": None, "maps": count, "side": side, **values}
        result["difference"] = _difference(values["exact"], values["blocks"])
        try:
            python = peers_python()
        except ValueError as error:
            return result | {"missing": str(error)}
        theirs = _process([python, _anomalib.__file__, name, "figures"])
    ratios = {way: theirs["cpu_seconds"] / values[way]["cpu_seconds"] for way in WAYS}
    return result | {
        "ratio": ratios["exact" if count * side**2 <= MOST else "blocks"],
        "ratios": ratios,
        "anomalib": theirs,
        "anomalib_difference": _difference(values["exact"], theirs),
    }


def show(folder: str, way: str) -> None:
    """Prints the result of `measure` as JSON, for the process that waits for it."""
    print(json.dumps(measure(folder, way)))


def measure(folder: str, way: str) -> dict[str, Any]:
    """Computes our figures of the maps in a folder, with this process's seconds for them and its peak memory in MiB."""
    maps, masks = (_Stored(Path(folder) / f"{name}.npy") for name in ("maps", "masks"))
    pixels = Pixels(maps, masks, np.ones(len(maps), int))
    used = np.arange(len(maps))
    WAYS[way](pixels, used[:2], np.ones(2, bool), LEVEL)  # warm
    before = time.process_time()
    result = WAYS[way](pixels, used, np.ones(len(used), bool), LEVEL)
    seconds, peak = time.process_time() - before, most_memory(torch.device("cpu"))
    figures = {"auroc": result.pixel_auroc, "pro": result.pro, "dice": float(result.dice.mean())}
    return {**figures, "cpu_seconds": seconds, "peak_mib": peak / 2**20}


class _Stored:
    """Rows of a .npy file, read without a memory map: its pages would count as the process's memory."""

    def __init__(self, file: Path) -> None:
        mapped = np.lib.format.open_memmap(file, mode="r")
        self.shape, self._dtype, self._first, self._file = mapped.shape, mapped.dtype, mapped.offset, file

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any, /) -> np.ndarray:
        rows = np.arange(len(self))[index]
        size = int(np.prod(self.shape[1:]))
        out = np.empty((len(rows), size), self._dtype)
        for row, target in zip(rows, out, strict=True):
            offset = self._first + int(row) * size * self._dtype.itemsize
            target[:] = np.fromfile(self._file, self._dtype, size, offset=offset)
        return out.reshape(len(rows), *self.shape[1:])


def _process(line: list[str]) -> dict[str, float]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line[-2:])} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _difference(exact: dict[str, float], other: dict[str, float]) -> float:
    return max(abs(exact[name] - other[name]) for name in ("auroc", "pro", "dice") if name in other)
