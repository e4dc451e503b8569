"""A tiny training under torchrun: torchrun ... tests/engine/distributed/_train.py FOLDER [STEP].

With STEP the second process is killed before it does that step. A checkpoint is written after each.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from core.engine import processes
from core.engine.training.pretrain import pretrain
from core.engine.training.pretraining import Pretraining
from tests.engine._images import normals
from tests.engine.distributed.work import config_of

STEPS = 6
CONFIG = config_of("pmsacl").replace(epochs=3, snapshot_every=3)

if __name__ == "__main__":
    processes.join()
    if len(sys.argv) > 2 and processes.rank() == 1:
        advance = Pretraining.advance

        def until(training):
            if training.step == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            return advance(training)

        Pretraining.advance = until
    pretrain(normals(8), CONFIG, sys.argv[1], checkpoint_seconds=0.0)
    processes.leave()
