"""What every registered objective must do: train and validate through the loop that all share."""

from __future__ import annotations

import pytest

from core.engine.registry import OBJECTIVES
from core.engine.training.pretrain import pretrain
from tests.engine._images import normals
from tests.engine.training.tiny import TINY


def test_the_papers_pre_trainings_are_registered():
    assert {"pmsacl", "pmsacl-local", "simclr", "rotnet", "csi", "droc", "supcon", "ccd"} <= set(OBJECTIVES.names())


@pytest.mark.parametrize("name", sorted(set(OBJECTIVES.names()) - {"pmsacl", "pmsacl-local"}))
def test_it_trains_and_validates(name, tmp_path):
    config = TINY.replace(objective=name, patch=16, batch=2, epochs=1, lr=1e-3)
    done = pretrain(normals(2), config, tmp_path, held_out=normals(2, seed=9))
    assert done.history[-1]["loss"] is not None and "val_loss" in done.history[-1]
    assert (done.centres is None) == (not OBJECTIVES.get(name).uses_centres)
