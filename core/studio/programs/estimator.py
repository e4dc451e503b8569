"""Anomaly detector with scikit-learn's methods: `fit`, `score_samples`, `decision_function`, `predict` and `score`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import remembering
from core.engine.backbones.encoder import Encoder, build_encoder
from core.engine.calibration.conformal import by_patients
from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.ensemble import Blend
from core.engine.detectors.map_detector import MapDetector
from core.engine.registry import DETECTORS
from core.engine.tensors import pick_device
from core.engine.training.model import PMSACL

USUAL = 0.05  # value of `contamination="auto"`
PARTS = 5  # default number of folds; detectors that are trained for minutes hold out one of them


class AnomalyDetector(OutlierMixin, BaseEstimator):
    """Anomaly detector for images that follows the interface of scikit-learn's outlier detectors.

    The detector is fitted on normal images only. It predicts 1 for normal images and -1 for outliers; images that look
    more normal get larger scores. The threshold is set by cross-validation: each fold is scored by a detector that was
    fitted on the other folds, and the threshold is chosen so that about the fraction `contamination` of unseen normal
    images is predicted as outliers. `detector_` is the last of the fitted detectors. Neighbouring images, which often
    belong together, are mostly in the same fold. Use `groups` to keep other images together, such as all images of one
    patient.

    Args:
        detector: Name of the detector. `padim`, `nearest`, `mahalanobis` and `blend` are fitted in seconds. `igd`,
            `lesion-head`, `blend-head`, `combined`, `ensemble`, `panda`, `cutpaste`, `ms-ssim-ae`, `dae`, `f-anogan`,
            `ocgan` and `adgan` are trained for minutes or longer; some of them need more than 16 images to train on.
        arch: Network that computes the features: `efficientnet-lite0`, `resnet18`, or another model name of timm.
        init: Weights of the network: `auto` (installed ImageNet weights; a network without installed weights is
            replaced by efficientnet-lite0, with a warning), `imagenet` (downloaded unless installed), `random`, a file
            of weights, or a folder that `PMSACL.save` wrote (then `arch` must be the network that was saved).
        encoder: Trained `PMSACL` or encoder to use instead of `arch` and `init`. The detector works on a copy.
        contamination: Fraction of unseen normal images that may be flagged, above 0 and up to 0.5. `auto` is 0.05.
        settings: Settings that differ from the detector's defaults, such as {"channels": 50} for `padim`. The error
            message for an unknown name lists all names.
        device: Device to compute on: `auto` (CUDA if available, else the CPU), `cpu`, or a CUDA device such as
            `cuda:0`.
        cv: Number of folds, 2 or more. Defaults to 5 folds; detectors that take minutes to train are then fitted only
            once, with one of the 5 folds held out.
        random_state: Seed of the detector's random numbers: an integer, a RandomState, or None for a random seed.

    Attributes:
        detector_: The fitted detector, a torch module.
        offset_: Value of `score_samples` below which an image is predicted as an outlier.
        left_out_scores_: float64 `(N,)`, score of each training image by the detector that was fitted without it, or
            NaN for an image that was never held out.
        n_features_in_: Number of values in an image, `S * S * 3`.

    Example:
        >>> import numpy as np
        >>> from pmsacl_studio import AnomalyDetector, draw_case
        >>> normal = np.stack([draw_case((seed,), 32).image for seed in range(24)])
        >>> found = AnomalyDetector("padim", arch="resnet18", init="random").fit(normal)
        >>> found.predict(normal).shape, found.offset_ < 0
        ((24,), True)
    """

    def __init__(
        self,
        detector: str = "padim",
        arch: str = "efficientnet-lite0",
        init: str = "auto",
        encoder: PMSACL | Encoder | None = None,
        contamination: float | str = USUAL,
        settings: dict[str, Any] | None = None,
        device: str = "auto",
        cv: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.detector, self.arch, self.init, self.encoder = detector, arch, init, encoder
        self.contamination, self.settings, self.device = contamination, settings, device
        self.cv, self.random_state = cv, random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.no_validation = False, True
        return tags

    def fit(self, X: np.ndarray, y: object = None, groups: np.ndarray | None = None) -> Self:
        """Fits the detector to normal images and sets the threshold by cross-validation.

        Args:
            X: Normal images, uint8 `(N, S, S, 3)`.
            y: Ignored. Accepted for compatibility with scikit-learn.
            groups: Number or name of the group of each image, `(N,)`, such as its patient. Images of one group are held
                out together. By default, each image is its own group.

        Returns:
            The fitted detector itself.

        Raises:
            ValueError: If X has another shape or type, if X holds too few images or groups for cross-validation, or if
                an argument is invalid.
        """
        X = self._images(X)
        share = USUAL if isinstance(self.contamination, str) and self.contamination == "auto" else self.contamination
        if isinstance(share, (str, bool)) or not 0 < share <= 0.5:
            raise ValueError(f"contamination must be above 0 and at most 0.5, or 'auto', not {self.contamination!r}")
        kind, device = DETECTORS.get(self.detector), pick_device(self.device)
        folds = self._folds(len(X), groups, issubclass(kind, (MapDetector, Blend)))
        config = kind.preset().replace(**{**self._seed(kind.preset()), **(self.settings or {})})
        if self.encoder is None:
            encoder = build_encoder(EncoderConfig(arch=self.arch, init=self.init))
        elif isinstance(self.encoder, (PMSACL, Encoder)):
            encoder = copy.deepcopy(self.encoder.encoder if isinstance(self.encoder, PMSACL) else self.encoder)
        else:
            raise ValueError(f"encoder must be a trained PMSACL, an Encoder or None, not {type(self.encoder).__name__}")
        encoder.to(device)
        scores = np.full(len(X), np.nan)
        with remembering():
            for fold in sorted(set(folds) - {-1}):
                left_out = folds == fold
                fitted = kind.fit(encoder, X[~left_out], config, FitContext(device=device))
                scores[left_out] = self._scores(fitted, X[left_out])
        self.detector_, self.left_out_scores_ = fitted, scores
        self.n_features_in_ = int(np.prod(X.shape[1:]))
        scored = np.isfinite(scores)
        # A new image scores below the j-th lowest of n held-out scores with probability j / (n + 1).
        self.offset_ = float(np.quantile(scores[scored], share, method="weibull"))
        if groups is not None:
            limit = by_patients(-scores[scored], np.asarray(groups)[scored], share).threshold
            self.offset_ = -limit if np.isfinite(limit) else float(scores[scored].min())
        return self

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        """Returns the normality score, float64 `(N,)`, of images uint8 `(N, S, S, 3)`; larger is more normal."""
        check_is_fitted(self, "detector_")
        return self._scores(self.detector_, self._images(X))

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Returns `score_samples(X) - offset_`, float64 `(N,)`: 0 or more for normal images, below 0 for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Classifies images uint8 `(N, S, S, 3)`; returns int `(N,)`, 1 for normal images and -1 for outliers."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def score(self, X: np.ndarray, y: np.ndarray) -> float:
        """Returns the AUROC, 0 to 1, of the scores for separating normal images from outliers.

        Args:
            X: Images, uint8 `(N, S, S, 3)`.
            y: Labels, `(N,)`: 1 for normal images and -1 for outliers. Both values must occur.

        Raises:
            ValueError: If y has another shape, contains other values, or contains only one class.
        """
        truth = np.asarray(y)
        if truth.shape != np.shape(X)[:1] or not np.isin(truth, (-1, 1)).all():
            raise ValueError(f"y must hold 1 (normal) or -1 (outlier) for each of {len(X)} images, not {_words(truth)}")
        if len(np.unique(truth)) < 2:
            raise ValueError("y must contain normal images (1) and outliers (-1), because the AUROC compares both")
        return float(roc_auc_score(truth, self.score_samples(X)))

    def heat_maps(self, X: np.ndarray) -> np.ndarray:
        """Computes heat maps of images uint8 `(N, S, S, 3)`; larger values are more abnormal.

        Returns float32 `(N, h, w)`. The maps have a lower resolution than the images: resize a map to the size of its
        image before you overlay it.
        """
        check_is_fitted(self, "detector_")
        maps: np.ndarray = self.detector_.predict(self._images(X)).maps
        return maps

    def _seed(self, config: Any) -> dict[str, int]:
        if not hasattr(config, "seed"):
            return {}
        if isinstance(self.random_state, (int, np.integer)):
            return {"seed": int(self.random_state)}
        return {"seed": int(check_random_state(self.random_state).randint(2**31 - 1))}

    def _folds(self, count: int, groups: np.ndarray | None, quick: bool) -> np.ndarray:
        """Returns the number of the fold in which each image is held out, (N,), or -1 if it is never held out."""
        group_of = np.arange(count)  # groups are numbered in the order of their first image
        if groups is not None:
            if np.shape(groups) != (count,):
                raise ValueError(f"groups must hold one group for each of the {count} images, not {_words(groups)}")
            _, first, group_of = np.unique(np.asarray(groups), return_index=True, return_inverse=True)
            group_of = np.argsort(np.argsort(first))[group_of]
        several = int(group_of.max()) + 1
        if self.cv is not None and (isinstance(self.cv, bool) or not isinstance(self.cv, (int, np.integer))):
            raise ValueError(f"cv must be a whole number of folds or None, not {self.cv!r}")
        cv = PARTS if self.cv is None else self.cv
        fold_of = group_of * min(several, cv * cv) // several % max(cv, 1)  # blocks of neighbours, in turn
        if self.cv is None and not quick:
            fold_of = np.where(fold_of == PARTS - 1, 0, -1)
        if len(np.unique(fold_of)) < 2:
            raise ValueError(
                f"cross-validation needs at least two folds and two groups: cv is {self.cv} and X has {several} groups "
                "(images, if no groups are given)"
            )
        return fold_of

    @staticmethod
    def _scores(detector: Any, images: np.ndarray) -> np.ndarray:
        return -np.asarray(detector.image_score(detector.predict(images)), np.float64)

    @staticmethod
    def _images(X: np.ndarray) -> np.ndarray:
        X = np.asarray(X)
        if X.dtype != np.uint8 or X.ndim != 4 or X.shape[3] != 3 or X.shape[1] != X.shape[2] or not len(X):
            raise ValueError(f"X must be images uint8 (N, S, S, 3), not {_words(X)}")
        return X


def _words(values: Any) -> str:
    """Describes an array by its type, its shape and, for a one-dimensional array, some of its values."""
    array = np.asarray(values)
    short = array.ndim == 1 and array.dtype.kind in "biufU"
    return f"{array.dtype} {array.shape}" + f" with {', '.join(map(str, np.unique(array)[:4]))}" * short
