"""Options of a two-dimensional feature map (images, features and method), which are stored with every map."""

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
    """Maximum number of images of each kind on a map. The same `seed` draws the same images for all maps of a study."""

    train: int = option(300, "Number of normal training images.", low=0)
    holdout: int = option(300, "Number of held-out normal images.", low=0)
    mixed: int = option(300, "Number of MedMix images per class A_1 to A_k.", low=0)
    mix_of: str = option("all", "Normal images from which MedMix images are made.", choices=("holdout", "train", "all"))
    test_normal: int = option(300, low=0)
    abnormal: int = option(300, low=0)
    seed: int = 0


@dataclass(frozen=True)
class MapConfig(Config):
    """Options of a map, or of a series of maps over epochs."""

    method: str = option("tsne", choices=tuple(METHODS))
    feature: str = option("centred", choices=tuple(FEATURES))
    epochs: tuple[int, ...] = ()  # epochs of the saved encoders, in order; () for the last epoch
    seed: int = 0
    perplexity: float = option(30.0, "Perplexity of t-SNE.", low=1)
    iterations: int = option(750, "Number of iterations of t-SNE.", low=250)
    neighbours: int = option(15, "Number of neighbours in UMAP.", low=2)
    min_dist: float = option(0.1, "Minimum distance between points in UMAP.", low=0, below=1)
    align: bool = True  # whether each map starts from the previous epoch's map and is aligned with it
    points: PointsConfig = field(default_factory=PointsConfig)

    @property
    def encoded(self) -> str:
        """Kind of features that the encoder computes: `feature`, except that `centred` is derived from `projected`."""
        return "projected" if self.feature == "centred" else self.feature
