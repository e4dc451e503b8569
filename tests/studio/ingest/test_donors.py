"""Lesions cut from another study: in the picture, in the numbers, and in the training that is handed the setting."""

from __future__ import annotations

import numpy as np
import pytest

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder, save_encoder
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.clusters.library import open_map
from core.studio.ingest import donors as donor_pool
from core.studio.ingest import studies
from core.studio.jobs.steps import Work, load_step
from core.studio.medmix import preview as medmix_view
from core.studio.medmix.preview import Samples
from core.studio.runs import records as runs
from core.studio.runs.pipeline import pretrain_run
from core.studio.training import requests as training
from tests.conftest import ARCH, plain_folder, write

BLUE = {"donor": "foreign", "donor_study": "blue", "p_jitter": 0.0, "p_noise": 0.0, "blend": "paste",
        "match": (0.0, 0.0)}  # fmt: skip


@pytest.fixture
def two(store, tmp_path):
    """The study `tiny`, and one whose images are blue throughout."""
    plain_folder(tmp_path / "images", 8, 2, 2)
    studies.import_study(store, "tiny", tmp_path / "images")
    for i in range(6):
        image = np.zeros((40, 40, 3), np.uint8)
        image[..., 2] = 240 + i
        write(tmp_path / "blue" / f"{i}.png", image)
    studies.import_study(store, "blue", tmp_path / "blue")
    return store


def is_blue(images: np.ndarray) -> np.ndarray:
    return (images[..., 2] >= 235) & (images[..., :2] <= 8).all(-1)


def test_the_picture_shows_them(two):
    scene = medmix_view.Scene(study="tiny", samples=2, size=64, config=BLUE)
    grid = medmix_view.draw_grid(Samples(two), scene)
    assert not is_blue(grid.images[0]).any() and is_blue(grid.images[1:]).any(axis=(1, 2, 3)).all()
    assert all(s["donor"] >= 2 for s in grid.sources), "no column of the picture is said to be their origin"


@pytest.mark.long
def test_a_run_trains_with_them(two, monkeypatch):
    config = PRETRAIN_PRESETS["quick"].to_dict() | {"size": 32, "batch": 2, "epochs": 1}
    config["medmix"] |= BLUE
    made = training.start(two, "tiny", config, "blue lesions", {}, wake=False)
    assert runs.get_run(two, made["run"])["config"]["medmix"]["donor_study"] == "blue"
    seen = []
    from core.engine.training.pretraining import Pretraining

    views = Pretraining.views

    def look(self):
        found = views(self)
        seen.append(found)
        return found

    monkeypatch.setattr(Pretraining, "views", look)
    assert pretrain_run(two, made["run"], "cpu")["status"] == "done"
    pixels = np.concatenate([(v.images[v.labels > 0] * 255).permute(0, 2, 3, 1).numpy() for v in seen])
    # weak views shift colours a little: far more blue than red, as no other image here is
    assert (pixels[..., 2] - pixels[..., :2].max(-1) > 150).any()


def test_a_study_that_is_not_here_is_named_before_the_training(two):
    config = PRETRAIN_PRESETS["quick"].to_dict()
    config["medmix"] |= BLUE | {"donor_study": "gone"}
    with pytest.raises(ValueError, match="unknown study 'gone'; choose another"):
        training.checked(config, two)
    config["medmix"] |= {"donor": "other"}
    assert training.checked(config, two).medmix.pooled == ""
    assert [s["id"] for s in donor_pool.donor_studies(two)] == ["tiny", "blue"]


def test_an_experiments_training_older_than_the_setting_is_found_again(two):
    import json

    from core.studio.report.arms import Arm, existing_runs
    from core.studio.runs.pipeline import create_pretrain

    config = PRETRAIN_PRESETS["quick"].replace(size=32)
    run = create_pretrain(two, "tiny", config, "experiment pmsacl 00000000 seed 0")
    old = config.to_dict()
    del old["medmix"]["donor_study"]
    two.execute("UPDATE runs SET config = ? WHERE id = ?", [json.dumps(old), run])
    encoder, fit = existing_runs(two, "tiny", Arm("PaDiM", "padim"), 0, size=32)
    assert encoder["id"] == run and fit is None
    assert existing_runs(two, "tiny", Arm("PaDiM", "padim", pretrain={"lr": 0.5}), 0, size=32) == (None, None)


def test_a_map_shows_them(two):
    config = PRETRAIN_PRESETS["quick"].to_dict() | {"size": 32}
    config["medmix"] |= BLUE
    run = runs.create_run(two, "tiny", "pretrain", "pmsacl", config)
    save_encoder(build_encoder(EncoderConfig(arch=ARCH)), runs.run_folder(two, run))
    asked = MapConfig(method="pca", feature="projected", points=PointsConfig(mixed=4)).to_dict()
    key = load_step("embed")(Work(two, run, {"config": asked, "device": "cpu"}))
    mixed = np.asarray(open_map(two, key).points.mixed_images())
    assert len(mixed) == 3 * 4 and is_blue(mixed).any(axis=(1, 2)).all()
    studies.delete_study(two, "blue")
    with pytest.raises(ValueError, match="unknown study 'blue'"):
        load_step("embed")(Work(two, run, {"config": {**asked, "seed": 1}, "device": "cpu"}))
