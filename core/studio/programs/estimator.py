"""A detector with scikit-learn's conventions: `fit`, `score_samples`, `decision_function`, `predict`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.detectors.base import FitContext
from core.engine.registry import DETECTORS
from core.engine.tensors import pick_device


class AnomalyDetector(OutlierMixin, BaseEstimator):
    """Any detector of the studio on any backbone, for images uint8 (N, S, S, 3).

    Larger `score_samples` are more normal, as scikit-learn has it. Clones, grid searches and pipelines work;
    `check_estimator` does not hold, for it gives tables (N, D) where images are asked for.

    Args:
        detector: `padim`, `nearest`, `mahalanobis`, `blend`, `blend-head`, ...
        arch: `efficientnet-lite0`, `resnet18` or any network of timm.
        init: `auto` for weights that are installed, `imagenet`, `random` or a file.
        encoder: a trained encoder in place of arch and init.
        contamination: share of the images of the fit that lie beyond `offset_`.
        settings: of the detector's configuration.
        device: `auto`, `cpu` or `cuda:0`.

    Example:
        scores = AnomalyDetector("padim").fit(normal).score_samples(images)
    """

    def __init__(
        self,
        detector: str = "padim",
        arch: str = "efficientnet-lite0",
        init: str = "auto",
        encoder: Encoder | None = None,
        contamination: float = 0.05,
        settings: dict[str, Any] | None = None,
        device: str = "auto",
    ) -> None:
        self.detector, self.arch, self.init, self.encoder = detector, arch, init, encoder
        self.contamination, self.settings, self.device = contamination, settings, device

    def fit(self, X: np.ndarray, y: None = None) -> AnomalyDetector:
        """Learn what normal images look like. Raises ValueError for what is no array of images."""
        X = self._images(X)
        if not 0 < self.contamination < 1:
            raise ValueError("contamination lies between 0 and 1")
        kind, device = DETECTORS.get(self.detector), pick_device(self.device)
        config = kind.preset().replace(**self.settings or {})
        encoder = self.encoder or build_encoder(EncoderConfig(arch=self.arch, init=self.init))
        self.detector_ = kind.fit(encoder.to(device), X, config, FitContext(device=device))
        self.n_features_in_ = int(np.prod(X.shape[1:]))
        self.offset_ = float(np.quantile(self.score_samples(X), self.contamination))
        return self

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        """Score images: (N,) float64, larger is more normal, the detector's scores with the sign turned."""
        check_is_fitted(self, "detector_")
        return -self.detector_.image_score(self.detector_.predict(self._images(X))).astype(np.float64)

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Score images beside `offset_`: (N,) float64, below 0 for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Tell normal images from outliers: (N,), 1 for normal, -1 for outliers."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def heat_maps(self, X: np.ndarray) -> np.ndarray:
        """Compute heat maps of images: float32 (N, h, w), larger is more abnormal."""
        check_is_fitted(self, "detector_")
        return self.detector_.predict(self._images(X)).maps

    @staticmethod
    def _images(X: np.ndarray) -> np.ndarray:
        X = np.asarray(X)
        if X.dtype != np.uint8 or X.ndim != 4 or X.shape[3] != 3 or X.shape[1] != X.shape[2]:
            raise ValueError(f"X is images uint8 (N, S, S, 3), not {X.dtype} {X.shape}")
        return X
