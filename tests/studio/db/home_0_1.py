"""A small home as version 0.1.0 (commit b531385) leaves it, built without any code of the present version.

The database comes from home_0_1.sql, a dump of one that 0.1.0 wrote; the files are written here in 0.1.0's formats.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import cv2
import numpy as np
import torch
import torchvision
from safetensors.torch import save_file

ENCODER, FIT, MAP, POINTS = "untrained-543981bf", "padim-fcc3f516", "494c1e6a5d7a054c8354", "daf474f476389756c7e2"
SIDE, CELLS, CHANNELS = 32, ((2, 2), (4, 4), (8, 8)), {"layer1": 4, "layer2": 6, "layer3": 10}
GROUPS = [
    "Normal, training", "Normal, held out", "Normal, test", "Abnormal, test",
    *(f"A{chr(0x2080 + n)}, {n} pasted lesion{'s' if n > 1 else ''}" for n in (1, 2, 3)),
]  # fmt: skip


def build(home: Path) -> dict[str, torch.Tensor]:
    """Write the home; returns the encoder's weights by the names that 0.1.0 gave them."""
    for folder in ("runs", "cache", "files"):
        (home / folder).mkdir(parents=True)
    database(home)
    pictures(home)
    weights = encoder_weights()
    encoder(home / "runs" / ENCODER, weights, {"epochs": 0})
    encoder(home / "runs" / FIT / "encoder", weights, {})
    padim(home / "runs" / FIT)
    cluster_map(home / "cache" / "clusters")
    return weights


def database(home: Path) -> None:
    text = (Path(__file__).parent / "home_0_1.sql").read_text(encoding="utf-8")
    db = sqlite3.connect(home / "studio.sqlite")
    db.executescript(text.replace("{home}", str(home)))
    db.close()


def pictures(home: Path) -> None:
    """The study's twelve images, uint8 (48, 64, 3), at the paths that its cases name."""
    rng = np.random.default_rng(0)
    db = sqlite3.connect(home / "studio.sqlite")
    for (path,) in db.execute("SELECT path FROM cases ORDER BY id").fetchall():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(60, 190, (6, 8, 3)).astype(np.uint8)
        assert cv2.imwrite(path, cv2.resize(coarse, (64, 48), interpolation=cv2.INTER_CUBIC))
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()  # libraries of another version compress otherwise
        db.execute("UPDATE cases SET sha256 = ? WHERE path = ?", [digest, path])
    db.commit()
    db.close()


def encoder_weights() -> dict[str, torch.Tensor]:
    """ResNet-18 without its classifier as `net.*`, and the projection 512 -> 512 -> 128 as `head.0` and `head.2`."""
    torch.manual_seed(0)
    net = torchvision.models.resnet18(weights=None).state_dict()
    weights = {f"net.{name}": value for name, value in net.items() if not name.startswith("fc.")}
    for layer, (into, out) in {"head.0": (512, 512), "head.2": (512, 128)}.items():
        linear = torch.nn.Linear(into, out)
        weights |= {f"{layer}.weight": linear.weight.detach(), f"{layer}.bias": linear.bias.detach()}
    return weights


def encoder(folder: Path, weights: dict[str, torch.Tensor], extra: dict) -> None:
    folder.mkdir(parents=True)
    save_file({name: value.contiguous() for name, value in weights.items()}, folder / "encoder.safetensors")
    config = {"arch": "resnet18", "dim": 128, "hidden": 512, "init": "random", "seed": 0}
    (folder / "encoder.json").write_text(json.dumps({"encoder": config, "extra": extra}, indent=1, sort_keys=True))


def padim(folder: Path) -> None:
    """Gaussians over 20 channels of three layers: unit covariance, no correlation between layers."""
    tensors: dict[str, torch.Tensor] = {}
    coarser = 0  # channels of the layer before, coarsest first
    for level, ((name, count), (height, width)) in enumerate(zip(reversed(CHANNELS.items()), CELLS, strict=True)):
        cells = height * width
        tensors[f"channels.{name}"] = torch.arange(count)
        tensors[f"mean.{level}"] = torch.zeros(cells, count)
        tensors[f"own.{level}"] = torch.eye(count).repeat(cells, 1, 1)
        tensors[f"cross.{level}"] = torch.zeros(cells, count, coarser)
        coarser += count
    save_file(tensors, folder / "padim.safetensors")
    config = {"batch": 32, "channels": 20, "epsilon": 0.01, "layers": list(CHANNELS), "seed": 0, "sigma": 4.0}
    about = {"config": config, "grids": [list(grid) for grid in CELLS], "size": SIDE}
    (folder / "padim.json").write_text(json.dumps(about, indent=1, sort_keys=True))


def cluster_map(folder: Path) -> None:
    """A t-SNE of 16 points at epoch 0: ten images and six with pasted lesions."""
    points, made = folder / "points" / POINTS, folder / "maps" / MAP
    points.mkdir(parents=True)
    made.mkdir(parents=True)
    rng = np.random.default_rng(0)
    case = [2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 5, 7, 5, 7, 5, 7]
    columns = {
        "case_id": case,
        "row": [c - 1 for c in case],
        "lesions": [0] * 10 + [1, 1, 2, 2, 3, 3],
        "group": [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6],
        "mixed": [-1] * 10 + list(range(6)),
    }
    np.savez(points / "points.npz", **{name: np.array(values, np.int64) for name, values in columns.items()})
    np.save(points / "mixed.npy", rng.integers(0, 256, (6, SIDE, SIDE, 3), np.uint8))
    np.save(points / "mixed_masks.npy", np.zeros((6, SIDE * SIDE // 8), np.uint8))
    (points / "about.json").write_text(json.dumps({"study": "old", "size": SIDE, "groups": GROUPS}))
    np.save(made / "coords.npy", rng.normal(size=(1, 16, 2)).astype(np.float32))
    config = {
        "method": "tsne", "feature": "projected", "epochs": [0], "seed": 0, "perplexity": 3.0, "iterations": 750,
        "neighbours": 15, "min_dist": 0.1, "align": True, "grid": 8, "patches": 4,
        "points": {"train": 4, "holdout": 2, "mixed": 2, "mix_of": "all", "test_normal": 2, "abnormal": 2, "seed": 0},
    }  # fmt: skip
    numbers = {
        "silhouette": -0.18, "davies_bouldin": 3.45, "knn_purity": 0.183, "knn_chance": 0.182, "between_within": 0.69,
        "points": 12, "trustworthiness": 0.859, "map_silhouette": -0.14, "map_knn_purity": 0.175, "warnings": [],
    }  # fmt: skip
    epoch = {
        "epoch": 0, "snapshot": f"runs/{ENCODER}", "features_key": "da3079f5ab01218842d028a5",
        "numbers": {"classes": numbers, "lesions": {**numbers, "points": 4}}, "trustworthiness": 0.859,
        "radii": [0.19, 0.2, 0.15, 0.17, 0.22, 0.19, 0.2], "centres": None,
    }  # fmt: skip
    about = {
        "config": config, "run": ENCODER, "run_name": "untrained 1", "study": "old", "points_key": POINTS,
        "groups": GROUPS, "size": SIDE, "epochs": [epoch], "seconds": 0.85,
    }  # fmt: skip
    (made / "map.json").write_text(json.dumps(about))
