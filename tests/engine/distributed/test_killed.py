"""Under torchrun a killed process ends the training in an error, and the next call goes on from the last checkpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.engine.training import checkpoint
from tests.engine.distributed._train import STEPS

SCRIPT = Path(__file__).with_name("_train.py")
BOUND = 280  # seconds for start, steps and end on a loaded machine; a hang would last TIMEOUT, ten minutes


def torchrun(*words):
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPT), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(line, env=environment, timeout=BOUND, capture_output=True, text=True)


@pytest.mark.long
def test_it_ends_and_is_gone_on_with(tmp_path):
    folder = tmp_path / "joint"
    assert torchrun(str(folder), "3").returncode != 0
    assert json.loads((folder / checkpoint.NAME).read_text())["step"] == 3
    assert not (folder / "encoder.json").exists()

    done = torchrun(str(folder))
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in checkpoint.history(folder)] == list(range(1, STEPS + 1))

    undisturbed = tmp_path / "undisturbed"
    assert torchrun(str(undisturbed)).returncode == 0
    losses = [[line["loss"] for line in checkpoint.history(of)] for of in (folder, undisturbed)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
