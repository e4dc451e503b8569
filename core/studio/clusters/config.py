"""Options of a map: points, features and method; they are stored with every map."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.engine.config import Config, option

METHODS = {"tsne": "t-SNE", "umap": "UMAP", "pca": "PCA"}
FEATURES = {
    "centred": "Centred, f - c\u2099 normalised",
    "projected": "Projected, f (128)",
    "backbone": "Backbone, pooled",
}


@dataclass(frozen=True)
class PointsConfig(Config):
    """Limits of the numbers of images; samples depend on `seed` and are the same for all epochs and maps of a study."""

    train: int = option(300, "Normal training images.", low=0)
    holdout: int = option(300, "Held-out normals.", low=0)
    mixed: int = option(300, "MedMix versions, per class A_1 to A_k.", low=0)
    mix_of: str = option("all", "Normals of which MedMix versions are made.", choices=("holdout", "train", "all"))
    test_normal: int = option(300, low=0)
    abnormal: int = option(300, low=0)
    seed: int = 0


@dataclass(frozen=True)
class MapConfig(Config):
    """Options of a map, or of a series of maps over epochs."""

    method: str = option("tsne", choices=tuple(METHODS))
    feature: str = option("centred", choices=tuple(FEATURES))
    epochs: tuple[int, ...] = ()  # epochs of the snapshots, in order; () for the last one
    seed: int = 0
    perplexity: float = option(30.0, "Of t-SNE.", low=1)
    iterations: int = option(750, "Of t-SNE.", low=250)
    neighbours: int = option(15, "Of UMAP.", low=2)
    min_dist: float = option(0.1, "Of UMAP.", low=0, below=1)
    align: bool = True  # whether each epoch's map starts from the previous one and is aligned by Procrustes
    points: PointsConfig = field(default_factory=PointsConfig)

    @property
    def encoded(self) -> str:
        """The kind of features that the encoder computes for `feature`: centred ones are projected ones, centred."""
        return "projected" if self.feature == "centred" else self.feature
