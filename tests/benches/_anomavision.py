"""AnomaVision's side of `bench peers`: run by the Python of the peers' environment, on the files that both sides share.

python _anomavision.py FOLDER THREADS: inputs.npz (fit and seen float32 (N, 3, S, S), normalised) and resnet18.pt
(weights by torchvision's names). Prints the seconds of PaDiM's fit and of its scores as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

BATCH = 32


def main(folder: Path, threads: int) -> None:
    from anomavision.algorithm.common import feature_extraction
    from anomavision.algorithm.padim import Padim

    torch.set_num_threads(threads)
    network, _ = feature_extraction.BACKBONES["resnet18"]
    feature_extraction.BACKBONES["resnet18"] = network, None  # nothing is downloaded: the weights come from the file
    data = np.load(folder / "inputs.npz")
    fit, seen = (torch.from_numpy(data[name]) for name in ("fit", "seen"))
    with torch.inference_mode():
        model = Padim("resnet18")
        model.embeddings_extractor.backbone.load_state_dict(torch.load(folder / "resnet18.pt", weights_only=True))
        began = time.perf_counter()
        model.fit(DataLoader([(image,) for image in fit], BATCH))
        fitted = time.perf_counter()
        model.predict(seen[:2])  # warm
        warm = time.perf_counter()
        for batch in seen.split(BATCH):
            model.predict(batch)
    print(json.dumps({"fit_seconds": fitted - began, "score_seconds": time.perf_counter() - warm}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
