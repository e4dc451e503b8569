"""A tiny training in a process of its own, to be killed: python -m tests.engine._train FOLDER [SECONDS_PER_STEP].

With SECONDS_PER_STEP it waits so long after each step, and writes a checkpoint at each.
"""

from __future__ import annotations

import sys
import time

from core.engine.training.pretrain import PRETRAIN_PRESETS, pretrain
from tests.engine._images import normals

CONFIG = PRETRAIN_PRESETS["paper"].replace(size=32, batch=3, epochs=3, k=1, snapshot_every=3)
STEPS = 12

if __name__ == "__main__":
    pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    seconds = 0.0 if pause else 30.0
    pretrain(normals(12), CONFIG, sys.argv[1], checkpoint_seconds=seconds, report=lambda line: time.sleep(pause))
