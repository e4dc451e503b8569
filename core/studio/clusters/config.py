"""What a map is made of: which points, which features, which method. Stored with every map."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.engine.config import BadConfig, Config

METHODS = {"tsne": "t-SNE", "umap": "UMAP", "pca": "PCA"}
FEATURES = {
    "centred": "Centred, f - c\u2099 normalised",
    "projected": "Projected, f (128)",
    "backbone": "Backbone, pooled",
}


@dataclass(frozen=True)
class PointsConfig(Config):
    """At most how many images of each kind; drawn from `seed`, the same for every epoch and every map of a study."""

    train: int = 300  # normal training images
    holdout: int = 300  # normals kept out of training
    mixed: int = 300  # MedMix versions, per class A_1 .. A_k
    mix_of: str = "all"  # whose MedMix versions: "holdout", "train" or "all" normals of the two
    test_normal: int = 300
    abnormal: int = 300
    seed: int = 0

    def __post_init__(self):
        for name in ("train", "holdout", "mixed", "test_normal", "abnormal"):
            if getattr(self, name) < 0:
                raise BadConfig(f"points.{name} counts images: it cannot be {getattr(self, name)}")
        if self.mix_of not in ("holdout", "train", "all"):
            raise BadConfig(f"points.mix_of is holdout, train or all, not {self.mix_of!r}")


@dataclass(frozen=True)
class MapConfig(Config):
    """One map, or one series of maps over epochs."""

    method: str = "tsne"
    feature: str = "centred"
    epochs: tuple[int, ...] = ()  # snapshots to show, in order; none means the last one
    seed: int = 0
    perplexity: float = 30.0  # t-SNE
    iterations: int = 750  # t-SNE
    neighbours: int = 15  # UMAP
    min_dist: float = 0.1  # UMAP
    align: bool = True  # start each epoch's map from the one before, then Procrustes
    points: PointsConfig = field(default_factory=PointsConfig)

    def __post_init__(self):
        if self.method not in METHODS:
            raise BadConfig(f"method is one of {', '.join(METHODS)}, not {self.method!r}")
        if self.feature not in FEATURES:
            raise BadConfig(f"feature is one of {', '.join(FEATURES)}, not {self.feature!r}")
        if self.perplexity < 1 or self.neighbours < 2:
            raise BadConfig("perplexity is at least 1 and neighbours at least 2")
        if not 0 <= self.min_dist < 1:
            raise BadConfig(f"min_dist lies in 0 .. 1, not {self.min_dist}")
        if self.iterations < 250:
            raise BadConfig("t-SNE takes at least 250 iterations")
