"""Options of a map: points, features and method; they are stored with every map."""

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
    """Limits of the numbers of images; samples depend on `seed` and are the same for all epochs and maps of a study."""

    train: int = 300  # normal training images
    holdout: int = 300  # held-out normals
    mixed: int = 300  # MedMix versions, per class A_1 to A_k
    mix_of: str = "all"  # normals of which MedMix versions are made: "holdout", "train" or "all" of both
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
    """Options of a map, or of a series of maps over epochs."""

    method: str = "tsne"
    feature: str = "centred"
    epochs: tuple[int, ...] = ()  # epochs of the snapshots, in order; () for the last one
    seed: int = 0
    perplexity: float = 30.0  # t-SNE
    iterations: int = 750  # t-SNE
    neighbours: int = 15  # UMAP
    min_dist: float = 0.1  # UMAP
    align: bool = True  # whether each epoch's map starts from the previous one and is aligned by Procrustes
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
