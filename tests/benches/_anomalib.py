"""anomalib's side of `bench peers`: run by the Python of an environment of its own, on the files that both sides share.

python _anomalib.py FOLDER: inputs.npz (fit and seen float32 (N, 3, S, S), normalised; channels; maps, masks), net.pt
(weights by timm's names), plan.json. Writes padim.npy, the distances (N, h, w) before any blur, and result.json.

python _anomalib.py FOLDER figures, for `bench metrics`: maps.npy, masks.npy (N, S, S). Prints what they took and gave.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch


def timed(what: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    value = what()
    return time.perf_counter() - start, value


def filled(model: Any, weights: dict[str, torch.Tensor]) -> Any:
    """Loads our weights into the backbone of anomalib's model, which has no layers after the last map it reads."""
    net = model.feature_extractor.feature_extractor
    names = set(net.state_dict())
    net.load_state_dict({name: value for name, value in weights.items() if name in names})
    return model


@torch.inference_mode()
def padim(plan: dict[str, Any], weights: dict[str, torch.Tensor], data: Any, folder: Path) -> dict[str, float]:
    from anomalib.models.image.padim.torch_model import PadimModel

    channels = torch.from_numpy(data["channels"])
    model = PadimModel(plan["backbone"], plan["layers"], pre_trained=False, n_features=len(channels))
    model = filled(model, weights)
    model.idx.copy_(channels)
    fit, test = (torch.from_numpy(data[name]).split(plan["batch"]) for name in ("fit", "seen"))
    model.train()
    model.feature_extractor.eval()
    embedding, _ = timed(lambda: [model(batch) for batch in fit])
    gaussian, _ = timed(model.fit)
    model.eval()
    model(test[0][:2])  # warm
    score, _ = timed(lambda: [model(batch) for batch in test])
    distances = [
        model.anomaly_map_generator.compute_distance(
            model.generate_embedding(model.feature_extractor(batch)),
            [model.gaussian.mean, model.gaussian.inv_covariance],
        )
        for batch in test
    ]
    np.save(folder / "padim.npy", torch.cat(distances)[:, 0].numpy())
    return {"padim_fit_seconds": embedding + gaussian, "padim_score_seconds": score}


@torch.inference_mode()
def patchcore(plan: dict[str, Any], weights: dict[str, torch.Tensor], data: Any) -> dict[str, float]:
    from anomalib.models.image.patchcore.torch_model import PatchcoreModel

    model = filled(PatchcoreModel(plan["layers"][1:], plan["backbone"], pre_trained=False), weights)
    fit, test = (torch.from_numpy(data[name]).split(plan["batch"]) for name in ("fit", "seen"))
    model.train()
    model.feature_extractor.eval()
    embedding, embeddings = timed(lambda: [model(batch) for batch in fit])
    count = sum(len(maps) for maps in embeddings)
    coreset, _ = timed(lambda: model.subsample_embedding(plan["patches"] / count))
    model.eval()
    model(test[0][:2])
    score, _ = timed(lambda: [model(batch) for batch in test])
    return {"nearest_fit_seconds": embedding + coreset, "nearest_score_seconds": score}


def metrics(data: Any) -> dict[str, float]:
    """Computes AUROC of all pixels, and AUPRO, whose exact form takes a ROC curve of all of them for each region."""
    from anomalib.metrics.aupro import _AUPRO
    from anomalib.metrics.auroc import _AUROC

    maps, masks = torch.from_numpy(data["maps"]), torch.from_numpy(data["masks"]).int()
    values = {}
    for name, metric, given in (
        ("auroc", _AUROC(), (maps.flatten(), masks.flatten())),
        ("pro", _AUPRO(), (maps, masks)),
    ):
        metric.update(*given)
        values[f"{name}_seconds"], value = timed(metric.compute)
        values[name] = float(value)
    return values


def main(folder: Path) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    torch.set_num_threads(plan["threads"])
    data = np.load(folder / "inputs.npz")
    weights = torch.load(folder / "net.pt", weights_only=True)
    result = padim(plan, weights, data, folder) | patchcore(plan, weights, data) | metrics(data)
    (folder / "result.json").write_text(json.dumps(result))


def figures(folder: Path) -> None:
    """Prints AUROC and AUPRO, on one thread, with the processor's seconds for both and the process's peak memory."""
    torch.set_num_threads(1)
    data = {name: np.load(folder / f"{name}.npy") for name in ("maps", "masks")}
    metrics({name: values[:2] for name, values in data.items()})  # warm
    before = time.process_time()
    measured = metrics(data)
    seconds, peak = time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mib = peak / 1024 ** (2 if sys.platform == "darwin" else 1)
    print(json.dumps({"auroc": measured["auroc"], "pro": measured["pro"], "cpu_seconds": seconds, "peak_mib": mib}))


if __name__ == "__main__":
    figures(Path(sys.argv[1])) if sys.argv[2:] == ["figures"] else main(Path(sys.argv[1]))
