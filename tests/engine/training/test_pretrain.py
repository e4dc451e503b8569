"""Pre-training: what it keeps and reports, its centres and batches, and what it refuses."""

import json
import math

import numpy as np
import pytest
import torch

from core.engine.backbones.encoder import build_encoder, load_centres, load_encoder
from core.engine.config import BadConfig
from core.engine.losses.pmsacl import pmsacl_loss
from core.engine.objectives import pmsacl as objective
from core.engine.objectives.config import PretrainConfig
from core.engine.objectives.presets import PRETRAIN_DEFAULT, PRETRAIN_PRESETS
from core.engine.registry import OBJECTIVES
from core.engine.training import checkpoint
from core.engine.training.base import Diverged
from core.engine.training.pretrain import pretrain
from core.engine.training.pretraining import Data, Pretraining
from tests.conftest import ARCH
from tests.engine._images import normals
from tests.engine.training.tiny import IMAGES, TINY, same, weights_of


@pytest.mark.slow
def test_what_is_said_and_kept(tmp_path):
    threads, seen = torch.get_num_threads(), []
    random = torch.get_rng_state()
    result = pretrain(IMAGES, TINY, tmp_path, held_out=normals(4, seed=9), report=seen.append)
    assert torch.get_num_threads() == threads and torch.equal(random, torch.get_rng_state())
    assert seen == result.history and len(seen) == 6
    for key in (
        "loss",
        "l_ctr",
        "l_con",
        "l_aug",
        "aug_accuracy",
        "spread",
        "class_distance",
        "lr",
        "images_per_second",
    ):
        assert isinstance(seen[0][key], float), key
    assert len(seen[0]["centre_distance"]) == 2 and np.sum(seen[0]["aug_confusion"]) == 6
    assert {"val_loss", "val_l_aug", "val_accuracy", "val_auroc"} <= set(seen[2]) and "val_loss" not in seen[1]
    assert (seen[2]["epoch"], seen[3]["epoch"], seen[0]["steps"], seen[0]["epochs"]) == (1, 2, 6, 2)
    assert [p.name for p in sorted((tmp_path / "epochs").iterdir())] == ["0000", "0001", "0002"]
    assert torch.equal(load_centres(tmp_path / "epochs" / "0001"), result.centres)
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(load_encoder(tmp_path)(x), result.encoder(x)) and not result.encoder.training
    again = pretrain(IMAGES, TINY, tmp_path, held_out=normals(4, seed=9), report=seen.append)
    assert len(seen) == 6 and again.history == result.history  # finished: nothing is done twice


def test_l_pmsacl_is_computed_once_a_step(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(objective, "pmsacl_loss", lambda *a, **k: calls.append(len(a[0])) or pmsacl_loss(*a, **k))
    result = pretrain(IMAGES, TINY, tmp_path)
    assert len(calls) == len(result.history) == 6


@pytest.mark.slow
def test_validation_does_not_touch_the_training(tmp_path):
    pretrain(IMAGES, TINY, tmp_path / "a")
    pretrain(IMAGES, TINY, tmp_path / "b", held_out=normals(4, seed=9))
    assert same(weights_of(tmp_path / "a"), weights_of(tmp_path / "b"))


@pytest.mark.slow
def test_the_best_epoch_is_the_one_with_the_lowest_held_out_l_aug(tmp_path):
    config = TINY.replace(epochs=4, select="best", snapshot_every=1, optimiser="adamw", lr=1e-3)
    result = pretrain(IMAGES, config, tmp_path, held_out=normals(6, seed=9))
    found = [line["val_l_aug"] for line in result.history if "val_l_aug" in line]
    best = 1 + int(np.argmin(found))
    kept, snapshot = weights_of(tmp_path), weights_of(tmp_path / "epochs" / f"{best:04d}")
    assert all(torch.equal(kept[n].half(), v) for n, v in snapshot.items() if v.dtype == torch.float16)


def test_frozen_centres_are_the_untrained_encoders_means_and_leave_it_alone():
    trainer = Pretraining(TINY.replace(centre_images=0, channels_last=False), Data(IMAGES, None), torch.device("cpu"))
    before = {n: v.clone() for n, v in trainer.encoder.state_dict().items()}
    trainer.prepare()
    assert all(torch.equal(v, before[n]) for n, v in trainer.encoder.state_dict().items())
    centres = trainer.centres.clone()
    assert centres.shape == (2, 128) and not centres.requires_grad
    spread = [trainer.advance()["centre_distance"] for _ in range(1)][0]
    assert max(spread) < 2 * float(centres.norm(dim=1).max())
    trainer.prepare()
    assert torch.equal(trainer.centres, centres)


@pytest.mark.slow
def test_re_estimated_centres_move_when_they_are_due_and_frozen_ones_never():
    for kind, moved in (("re-estimated", True), ("frozen", False)):
        config = TINY.replace(centres=kind, reestimate_every=1, lr=1e-3)
        trainer = Pretraining(config, Data(IMAGES, None), torch.device("cpu"))
        seen = []
        for _ in range(4):
            trainer.prepare()
            seen.append(trainer.centres.clone())
            trainer.advance()
        assert torch.equal(seen[0], seen[2])
        assert torch.equal(seen[2], seen[3]) is not moved


@pytest.mark.parametrize("kind", ["random", "equidistant"])
def test_given_centres_come_from_the_seed(kind):
    found = []
    for seed in (0, 0, 1):
        trainer = Pretraining(TINY.replace(centres=kind, seed=seed), Data(IMAGES, None), torch.device("cpu"))
        trainer.prepare()
        found.append(trainer.centres)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_each_epoch_sees_each_image_at_most_once_in_an_order_of_its_own():
    trainer = Pretraining(TINY, Data(IMAGES, None), torch.device("cpu"))
    epochs = [np.concatenate([trainer.rows(3 * e + i) for i in range(3)]) for e in range(2)]
    assert all(len(set(e)) == 9 for e in epochs) and list(epochs[0]) != list(epochs[1])


def test_images_per_step_counts_views():
    config = TINY.replace(k=1, images_per_step=9)
    assert config.sources == 2
    trainer = Pretraining(config, Data(IMAGES, None), torch.device("cpu"))
    assert len(trainer.views().labels) == 8 and trainer.per_epoch == 5


@pytest.mark.slow
def test_local_training_runs_and_reports_l_pos(tmp_path):
    config = TINY.replace(objective="pmsacl-local", size=64, epochs=1, lr=1e-3)
    result = pretrain(Data(normals(6, 64), np.ones((6, 64, 64), np.uint8)), config, tmp_path, normals(3, 64, 9))
    assert all(line["l_pos"] > 0 for line in result.history) and "val_l_pos" in result.history[-1]


def test_a_loss_that_is_no_number_ends_the_run_in_words(tmp_path):
    config, seen = TINY.replace(lr=1e6, epochs=5), []
    with pytest.raises(Diverged, match="broke down at step .*learning rate below") as first:
        pretrain(IMAGES, config, tmp_path, report=seen.append)
    assert len(seen) < 15 and seen[-1]["loss"] is None and "no longer numbers" in seen[-1]["alarm"]
    assert checkpoint.history(tmp_path) == seen and not (tmp_path / "encoder.json").exists()
    with pytest.raises(Diverged) as again:
        pretrain(IMAGES, config, tmp_path, report=seen.append)
    assert str(again.value) == str(first.value) and seen[-1]["loss"] is None


def test_mistakes_are_named_in_words(tmp_path):
    pretrain(IMAGES, TINY, tmp_path, max_steps=1)
    for says, images, config, more in (
        ("another epochs", IMAGES, TINY.replace(epochs=3), {}),
        ("donors' images are 16 x 16", Data(IMAGES, pool=IMAGES[:, :16, :16]), TINY, {}),
        ("the configuration's size is 64", IMAGES, TINY.replace(size=64), {}),
        ("at least 2 images", IMAGES[:1], TINY, {}),
        ("must be uint8", IMAGES.astype(np.float32), TINY, {}),
        ("but must be", Data(IMAGES, np.ones((10, 8, 8), np.uint8)), TINY, {}),
        ("device 'tpu'", IMAGES, TINY, {"device": "tpu"}),
    ):
        with pytest.raises(ValueError, match=says):
            pretrain(images, config, tmp_path, **more)


def test_configuration_round_trips_and_is_checked():
    for config in PRETRAIN_PRESETS.values():
        assert PretrainConfig.from_dict(json.loads(config.to_json())) == config
    for paper in (PRETRAIN_PRESETS["paper"], PRETRAIN_PRESETS["as-printed"]):  # Sec. Implementation details
        assert (paper.optimiser, paper.lr, paper.batch, paper.k, paper.encoder.dim) == ("sgd", 0.01, 32, 3, 128)
        assert (paper.w_ctr, paper.w_con, paper.w_aug, paper.w_pos, paper.centres) == (1, 1, 1, 1, "frozen")
    with pytest.raises(BadConfig, match="images_per_step must be at least 8"):
        paper.replace(images_per_step=3)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["pmsacl", "pmsacl-local", "ccd", "supcon", "simclr"])
def test_all_losses_see_features_on_the_unit_sphere(tmp_path, monkeypatch, objective):
    """Centres come from unit features, losses get unit features, and the saved encoder gives unit features."""
    lengths = []
    config = TINY.replace(objective=objective, size=64, epochs=1, **{"encoder.unit": True})
    kind = type(OBJECTIVES.get(objective)(config, build_encoder(config.encoder)))
    loss = kind.loss
    monkeypatch.setattr(
        kind, "loss", lambda self, h, z, *rest: (lengths.append(z.norm(dim=1)), loss(self, h, z, *rest))[1]
    )
    result = pretrain(normals(6, 64), config, tmp_path)
    assert len(lengths) == 2 and all(torch.allclose(each, torch.ones_like(each), atol=1e-5) for each in lengths)
    with torch.inference_mode():
        z = result.encoder(torch.rand(3, 3, 64, 64))
    assert torch.allclose(z.norm(dim=1), torch.ones(3), atol=1e-5)
    assert result.centres is None or bool((result.centres.norm(dim=1) < 1).all())


def test_a_substitute_for_the_backbone_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    said = []
    config = TINY.replace(epochs=1, batch=10, **{"encoder.arch": "resnet18", "encoder.init": "auto"})
    result = pretrain(IMAGES, config, tmp_path / "run", report=said.append)
    for message in (result.message, said[0]["message"]):
        assert "efficientnet-lite0 replaces resnet18" in message


def test_random_layers_are_not_frozen(tmp_path):
    config = PRETRAIN_PRESETS["quick"].replace(size=32, batch=2, epochs=1, frozen=8)
    with pytest.raises(ValueError, match="would stay random"):
        pretrain(normals(8), config, tmp_path)


@pytest.mark.slow
def test_the_encoder_is_compiled_where_that_is_asked_for(tmp_path, monkeypatch):
    """What the compiler makes of it stands in for it in each step, and nothing of it is kept."""
    asked = []
    monkeypatch.setattr(torch, "compile", lambda backbone: lambda x: (asked.append(len(x)), backbone(x))[1])
    plain, compiled = (pretrain(IMAGES, TINY.replace(compiled=c), tmp_path / str(c)) for c in (False, True))
    assert len(asked) == 6 and compiled.history[-1]["loss"] == plain.history[-1]["loss"]
    assert same(weights_of(tmp_path / "False"), weights_of(tmp_path / "True"))


@pytest.mark.longest
def test_compiled_it_learns_the_same(tmp_path):
    config = TINY.replace(epochs=1, autocast=False)
    plain, compiled = (pretrain(IMAGES, config.replace(compiled=c), tmp_path / str(c)) for c in (False, True))
    losses = [[row["loss"] for row in result.history] for result in (plain, compiled)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    assert load_encoder(tmp_path / "True")(torch.rand(1, 3, 32, 32)).isfinite().all()


@pytest.mark.parametrize("images", [60, 240, 5000])
def test_length_of_the_default_is_its_steps(images):
    assert PRETRAIN_PRESETS[PRETRAIN_DEFAULT].length(images)[0] == 420


@pytest.mark.parametrize("images", (1, 2, 5, 12, 100, 999))
@pytest.mark.parametrize("epochs", (1, 4, 30))
@pytest.mark.parametrize("steps", (0, 1, 7, 60, 10_000))
def test_length_epochs_or_steps_whichever_comes_first(images, epochs, steps):
    config = TINY.replace(epochs=epochs, steps=steps, batch=4)
    total, per_epoch = config.length(images)
    assert per_epoch == images // min(4, images)
    assert total == min(epochs * per_epoch, steps or math.inf)


@pytest.mark.slow
def test_steps_that_end_within_an_epoch(tmp_path):
    full, _ = TINY.replace(epochs=3).length(len(IMAGES))
    result = pretrain(IMAGES, TINY.replace(epochs=3, steps=full - 1), tmp_path, held_out=normals(4, seed=9))
    assert f"Trained {full - 1} of {full - 1} steps" in result.message
    assert "val_loss" in result.history[-1], "the encoder that is kept was validated"
    assert len(list((tmp_path / "epochs").iterdir())) == 4


# A training that cuts its lesions from another study's images.


PLAIN = {"match": (0.0, 0.0), "least_contrast": 0.0, "p_jitter": 0.0, "p_noise": 0.0, "p_fisheye": 0.0, "p_wave": 0.0}
CONFIG = PRETRAIN_PRESETS["quick"].replace(
    size=32, batch=3, epochs=1, k=1, **{f"medmix.{k}": v for k, v in PLAIN.items()}
)
CONFIG = CONFIG.replace(
    **{"encoder.arch": ARCH, "medmix.donor": "foreign", "medmix.donor_study": "blue", "medmix.size": (0.4, 0.5)}
)
PLAINLY = {"weak.p_jitter": 0.0, "weak.p_grey": 0.0, "weak.p_blur": 0.0}
BLUE = np.zeros((5, 32, 32, 3), np.uint8)
BLUE[..., 2] = 255


@pytest.mark.parametrize("objective", ["pmsacl", "pmsacl-local"])
def test_the_batch_holds_the_other_studys_pixels(objective):
    config = CONFIG.replace(objective=objective, patch=16, **PLAINLY)
    for pool, expected in ((BLUE, True), (None, False)):
        trainer = Pretraining(config, Data(normals(6), None, pool, None), torch.device("cpu"))
        views = trainer.views()
        images = views.images[: len(views.labels)]
        blue = (images[:, 2] > 0.98) & (images[:, :2] < 0.02).all(1)
        assert bool(blue[views.labels == 1].any()) == expected
        assert not blue[views.labels == 0].any()
