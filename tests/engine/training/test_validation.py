"""Validation on held-out normals: a plain sum of what it says, the same each time, and no trace in the network."""

import pytest
import torch
from sklearn.metrics import roc_auc_score

from core.engine.losses.reference import l_pmsacl
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.tensors import to_batch
from core.engine.training.base import VALIDATION, generator
from core.engine.training.pretrain import better, validate
from core.engine.training.pretraining import Data, Pretraining
from tests.conftest import ARCH
from tests.engine._images import normals


@pytest.fixture(scope="module")
def trainer():
    config = PRETRAIN_PRESETS["quick"].replace(size=32, batch=4, k=2, autocast=False, **{"encoder.arch": ARCH})
    trainer = Pretraining(config, Data(normals(8), None), torch.device("cpu"))
    trainer.prepare()
    trainer.advance()
    return trainer


def test_numbers_are_those_of_the_held_out_views(trainer):
    held = normals(4, seed=9)  # one batch, so that its losses are the whole's
    found = validate(trainer, Data(held))
    trainer.encoder.eval()
    views = trainer.objective.views(to_batch(held, torch.device("cpu")), generator(0, VALIDATION, 0))
    with torch.no_grad():
        h, z = trainer.features(views.images)
        outcome = trainer.objective.loss(h, z, views, trainer.centres)
    trainer.encoder.train()
    assert found["val_loss"] == pytest.approx(float(outcome.loss), rel=1e-5) and found["val_images"] == 4
    assert found["val_l_con"] == pytest.approx(float(outcome.terms["l_con"]), rel=1e-5)
    said = outcome.logits.softmax(1)
    assert found["val_accuracy"] == pytest.approx(float((said.argmax(1) == views.labels).float().mean()))
    assert found["val_auroc"] == pytest.approx(roc_auc_score(views.labels > 0, 1 - said[:, 0]), abs=0.02)


def test_it_repeats_and_leaves_no_trace(trainer):
    held = normals(10, seed=9)
    before = {n: v.clone() for n, v in trainer.encoder.state_dict().items()}
    assert validate(trainer, Data(held)) == validate(trainer, Data(held))
    assert all(torch.equal(v, before[n]) for n, v in trainer.encoder.state_dict().items())
    assert trainer.encoder.training and trainer.objective.training


def test_better_is_a_lower_l_aug():
    assert better({"val_l_aug": 1.0, "val_loss": 9.0}, {"val_l_aug": 1.1, "val_loss": 2.0})
    assert not better({"val_l_aug": 1.2}, {"val_l_aug": 1.1})
    assert better({"val_loss": 1.0}, None) and not better({}, None) and not better({"val_loss": float("nan")}, None)


def test_the_loss_of_one_constant_feature_stands_beside_the_loss(trainer):
    """What l_PMSACL falls to when no image differs from another: 8 views of one z, each centred by its own class."""
    views = trainer.views()
    with torch.no_grad():
        h, z = trainer.features(views.images)
        outcome = trainer.objective.loss(h, z, views, trainer.centres)
    constant = outcome.z.mean(0).expand_as(outcome.z)
    expected = l_pmsacl(constant, views.labels, views.partners, trainer.centres, tau=0.2, alpha=2.0)
    assert trainer._numbers(outcome, views)["l_con_constant"] == pytest.approx(expected, rel=1e-4)
