"""The job step "embed", which computes and caches the images, features, coordinates and metrics of a feature map."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from core.engine import files
from core.engine.metrics import clusters as cluster_metrics
from core.engine.progress import Stopped
from core.engine.rows import Rows
from core.engine.tensors import pick_device
from core.studio.clusters import library
from core.studio.clusters.config import METHODS, MapConfig
from core.studio.clusters.maps import fit_series, project
from core.studio.clusters.points import (
    PointSet,
    centres_of,
    features_key,
    features_of,
    kept_features,
    made_points,
    make_points,
)
from core.studio.ingest import cache
from core.studio.jobs.steps import Work

SAMPLE = 2000  # number of points that are compared in pairs for the metrics


def embed(work: Work) -> str:
    """Makes a map as a job step with args {"config": MapConfig as a dictionary, "device"}; returns the map's key.

    An existing map is kept.
    """
    map_plan = library.plan(work.store, work.run, MapConfig.from_dict(work.args.get("config", {})))
    folder = library.map_folder(work.store, map_plan.key)
    library.enter(work.store, map_plan, **({} if work.job is None else {"job": work.job}))
    with files.replacing(folder) as own:
        if not (folder / "map.json").exists():
            _Maker(work, map_plan).make(own, time.monotonic())
    return map_plan.key


class _Maker:
    """Maker of a map. The progress of each epoch has three parts: features, map, metrics."""

    def __init__(self, work: Work, map_plan: library.Plan):
        self.work, self.made, self.config = work, map_plan, map_plan.config
        self.device = pick_device(work.device)
        self.total = 3 * len(map_plan.snapshots) + 1

    def make(self, folder, started: float) -> None:
        map_plan, store = self.made, self.work.store
        self._report(0, "Preparing the images")
        arrays = cache.load_arrays(store, map_plan.study["id"], map_plan.size)
        points = self._points(arrays)
        maps, epochs = [], []
        series = fit_series(self._features(points, arrays.images), self.config, self._fitting)
        for e, (features, coords) in enumerate(series):
            maps.append(coords)
            self._report(3 + 3 * e, f"Metrics of {self._epoch(e)}")
            epochs.append(self._about(map_plan.snapshots[e], points, features, coords))
        folder.mkdir()
        np.save(folder / "coords.npy", np.stack(maps))
        facts = {
            "config": self.config.to_dict(),
            "run": map_plan.run["id"],
            "run_name": map_plan.run["name"],
            "study": map_plan.study["id"],
            "points_key": map_plan.points_key,
            "groups": points.groups,
            "size": map_plan.size,
            "epochs": epochs,
            "seconds": round(time.monotonic() - started, 2),
        }
        (folder / "map.json").write_text(json.dumps(facts))
        epoch_numbers = json.dumps([s.epoch for s in map_plan.snapshots])
        library.enter(store, map_plan, points=len(points), epochs=epoch_numbers, seconds=facts["seconds"])

    def _report(self, done: float, message: str) -> None:
        if self.work.should_stop():
            raise Stopped
        self.work.report({"step": round(1000 * done / self.total), "steps": 1000, "message": message})

    def _epoch(self, e: int) -> str:
        return f"epoch {self.made.snapshots[e].epoch}"

    def _features(self, points: PointSet, images: Rows) -> Iterator[np.ndarray]:
        """Yields the features (N, D) of each epoch, computed on demand."""
        for e, snapshot in enumerate(self.made.snapshots):

            def on_progress(i: int, n: int, e: int = e) -> None:
                self._report(1 + 3 * e + i / n, f"Features of {self._epoch(e)}: image {i} of {n}")

            values = features_of(
                self.work.store,
                snapshot,
                points,
                images,
                self.config,
                device=self.device,
                report=on_progress,
                should_stop=self.work.should_stop,
            )
            self._report(2 + 3 * e, f"{METHODS[self.config.method]} of {self._epoch(e)}, {len(values)} points")
            yield values

    def _fitting(self, e: int, i: int, n: int) -> None:
        message = f"{METHODS[self.config.method]} of {self._epoch(e)}: iteration {i} of {n}"
        self._report(2 + 3 * e + i / n, message)

    def _points(self, arrays) -> PointSet:
        def make(folder: Path) -> None:
            make_points(folder, map_plan.study, map_plan.size, self._mix(), map_plan.k, self.config.points, arrays)

        map_plan = self.made
        return made_points(self.work.store.home, map_plan.points_key, make)

    def _mix(self):
        import torch

        from core.engine.registry import STRONG
        from core.engine.tensors import to_batch
        from core.studio.ingest.donors import pool_at

        kind = STRONG.get(self.made.strong)
        config = kind.Config.from_dict(self.made.options)
        donors: tuple[torch.Tensor, ...] = ()
        if getattr(config, "pooled", ""):
            pool, roi = pool_at(self.work.store, config, self.made.size)
            donors = (to_batch(pool, torch.device("cpu")), torch.from_numpy(roi))
        return kind(config, *donors)

    def _about(self, snapshot, points, features: np.ndarray, coords: np.ndarray) -> dict:
        """Returns the metrics of an epoch for pre-training classes and real lesions, class radii and frozen centres."""
        facts: dict = {
            "epoch": snapshot.epoch,
            "snapshot": str(snapshot.folder.relative_to(self.work.store.home.path)),
            "features_key": features_key(snapshot, points, self.config),
            "numbers": {},
        }
        trustworthiness = cluster_metrics.map_trustworthiness(features, coords, sample=SAMPLE)
        kinds = {"classes": points.classes(), "lesions": points.truth()}
        for name, labels in kinds.items():
            keep = labels >= 0
            if len(np.unique(labels[keep])) > 1:
                plain = None
                if self.config.feature == "centred" and name == "classes":
                    stored = kept_features(self.work.store.home, features_key(snapshot, points, self.config))
                    plain = None if stored is None else stored[keep]
                facts["numbers"][name] = cluster_metrics.map_quality(
                    features[keep],
                    coords[keep],
                    labels[keep],
                    plain=plain,
                    sample=SAMPLE,
                    trustworthiness=trustworthiness,
                )
        if "lesions" in facts["numbers"]:
            facts["numbers"]["lesions"] |= cluster_metrics.lesion_side(features, kinds["classes"], kinds["lesions"])
        facts["trustworthiness"] = trustworthiness
        facts["radii"] = [cluster_metrics.radius(features[points.group == g]) for g in range(len(points.groups))]
        facts["centres"] = None
        centres = centres_of(snapshot)
        if centres is not None and self.config.feature in ("projected", "centred"):
            # In the centred space, f - c_n, every class centre is at the origin.
            spots = centres if self.config.feature == "projected" else np.zeros((1, features.shape[1]), np.float32)
            facts["centres"] = project(features, coords, spots).round(5).tolist()
        return facts
