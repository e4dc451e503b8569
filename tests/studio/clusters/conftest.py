"""A small study of drawn frames and an encoder run with three snapshots, made once for all tests of the folder."""

from dataclasses import dataclass

import cv2
import numpy as np
import pytest
import torch

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder, save_encoder
from core.studio.clusters import library
from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.db import opening
from core.studio.db.store import Store
from core.studio.ingest import studies
from core.studio.jobs.steps import Work, load_step
from core.studio.runs import records as runs
from tests.conftest import ARCH

POINTS = PointsConfig(train=20, holdout=20, mixed=12, test_normal=20, abnormal=20)


def frames(folder, count: int, lesion: bool, seed: int):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for i in range(count):
        image = cv2.resize(rng.integers(60, 200, (6, 6, 3), np.uint8), (72, 60), interpolation=cv2.INTER_CUBIC)
        if lesion:
            mask = np.zeros((60, 72), np.uint8)
            cv2.circle(mask, (int(rng.integers(20, 50)), int(rng.integers(20, 40))), 9, 255, -1)
            image[mask > 0] = (30, 40, 190)
            (folder.parent / "mask").mkdir(exist_ok=True)
            cv2.imwrite(str(folder.parent / "mask" / f"{folder.name}{i:03}.png"), mask)
        cv2.imwrite(str(folder / f"{folder.name}{i:03}.png"), image)


def snapshots(folder, epochs: int, seed: int = 0):
    """An encoder that drifts from epoch to epoch, as training would have it."""
    for e in range(epochs):
        encoder = build_encoder(EncoderConfig(arch=ARCH, seed=seed))
        draw = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for p in encoder.parameters():
                if p.ndim > 1:
                    p.add_(torch.randn(p.shape, generator=draw) * p.std() * 0.3 * e)
        centres = torch.randn(4, 128, generator=torch.Generator().manual_seed(2)) * 0.01
        save_encoder(encoder, folder / "epochs" / f"{e:04}", centres=centres)


@dataclass
class World:
    store: Store
    study: str
    run: str

    def embed(self, **config) -> str:
        """The key of a map, made here and now."""
        asked = MapConfig(**{"method": "pca", "points": POINTS, **config})
        return load_step("embed")(Work(self.store, self.run, {"config": asked.to_dict(), "device": "cpu"}))


@pytest.fixture(scope="package")
def world(tmp_path_factory) -> World:
    root = tmp_path_factory.mktemp("clusters")
    frames(root / "folder/train/normal", 24, False, 0)
    frames(root / "folder/test/normal", 8, False, 1)
    frames(root / "folder/test/abnormal", 8, True, 2)
    store = opening.open(str(root / "home"))
    studies.import_study(store, "drawn", root / "folder")
    run = runs.create_run(store, "drawn", "pretrain", "pmsacl", {"size": 32, "k": 3, "strong": "medmix", "medmix": {}})
    snapshots(runs.run_folder(store, run), 3)
    return World(store, "drawn", run)


@pytest.fixture(scope="package")
def made(world) -> library.Map:
    """A finished map of the first and the last epoch."""
    return library.open_map(world.store, world.embed(epochs=(0, 2)))
