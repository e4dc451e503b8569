"""A tiny training in a process of its own, to be killed: python -m tests.engine._train FOLDER SECONDS_PER_STEP.

It waits so long after each step, and writes a checkpoint at each.
"""

import sys
import time

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.training.pretrain import pretrain
from tests.conftest import ARCH
from tests.engine._images import normals

CONFIG = PRETRAIN_PRESETS["as-printed"].replace(
    size=32, batch=3, epochs=3, k=1, snapshot_every=3, **{"encoder.arch": ARCH}
)
STEPS = 12

if __name__ == "__main__":
    pause = float(sys.argv[2])
    pretrain(normals(12), CONFIG, sys.argv[1], checkpoint_seconds=0.0, report=lambda line: time.sleep(pause))
