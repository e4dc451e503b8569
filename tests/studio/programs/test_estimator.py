"""`AnomalyDetector`: the share of unseen normals that it flags, and scikit-learn's conventions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.utils import estimator_checks

from core.engine.phantom.frame import draw_case
from core.engine.training.model import PMSACL
from core.studio.programs.estimator import AnomalyDetector
from tests.conftest import ARCH


def drawn(count: int, first: int = 0, lesions: int = 0) -> np.ndarray:
    return np.stack([draw_case((first + i,), 32, lesions).image for i in range(count)])


def quick(detector: str = "mahalanobis", **changes) -> AnomalyDetector:
    return AnomalyDetector(detector, arch=ARCH, init="random", device="cpu", **changes)


@pytest.mark.long
@pytest.mark.parametrize("detector", ["padim", "mahalanobis", "nearest", "blend"])
def test_about_the_share_asked_for_is_flagged_of_unseen_normals(detector):
    """Of 120 unseen images about 12: by the scores of the images of the fit nearly all would be flagged."""
    fitted = quick(detector, contamination=0.1).fit(drawn(120))
    assert 0.01 < (fitted.predict(drawn(120, first=500)) < 0).mean() < 0.25
    assert np.isfinite(fitted.left_out_scores_).all()
    assert (fitted.left_out_scores_ < fitted.offset_).mean() == pytest.approx(0.1, abs=0.02)


@pytest.mark.slow
def test_images_of_one_group_are_left_out_together():
    """Four images of each of ten patients are nearly the same: only another patient says what is usual."""
    copies = np.repeat(drawn(10), 4, 0)
    shuffled = np.random.default_rng(0).permutation(40)
    owners = np.repeat(np.arange(10), 4)
    apart, together = (
        quick().fit(copies[shuffled], groups=groups).left_out_scores_.mean() for groups in (None, owners[shuffled])
    )
    assert together < apart


HELD = (  # scikit-learn's checks whose data is not a table of numbers, which images are not
    "estimator_cloneable", "estimator_repr", "estimator_tags_renamed", "estimators_unfitted", "get_params_invariance",
    "mixin_order", "no_attributes_set_in_init", "parameters_default_constructible", "set_params", "valid_tag_types",
)  # fmt: skip


@pytest.mark.parametrize("check", HELD)
def test_checks_of_scikit_learn_hold_where_they_can(check):
    getattr(estimator_checks, f"check_{check}")("AnomalyDetector", quick("padim"))


@pytest.mark.slow
def test_the_conventions_of_outlier_detectors():
    normal, odd = drawn(30), drawn(8, first=900, lesions=2)
    fitted = quick("padim", contamination="auto").fit(normal, y=np.zeros(30))  # y is ignored
    both, truth = np.concatenate([drawn(8, first=600), odd]), np.array([1] * 8 + [-1] * 8)
    assert ((fitted.decision_function(both) >= 0) == (fitted.predict(both) == 1)).all()
    assert fitted.decision_function(both) == pytest.approx(fitted.score_samples(both) - fitted.offset_)
    assert set(fitted.fit_predict(normal)) <= {-1, 1} and 0 <= fitted.score(both, truth) <= 1
    again, back = clone(fitted).fit(normal), pickle.loads(pickle.dumps(fitted))
    assert (again.score_samples(both) == fitted.score_samples(both)).all()
    assert (back.predict(both) == fitted.predict(both)).all() and back.heat_maps(both).shape == (16, 8, 8)
    alone = quick("padim", encoder=fitted.detector_.encoder)
    assert clone(alone).encoder is not alone.encoder
    folds = StratifiedKFold(2)  # each holds both kinds, which the AUROC compares
    assert np.isfinite(cross_val_score(quick(cv=2), both, truth, cv=folds)).all()
    search = GridSearchCV(quick(cv=2), {"detector": ["mahalanobis", "padim"]}, cv=folds).fit(both, truth)
    assert search.best_params_["detector"] in ("mahalanobis", "padim")


def test_whatever_the_order_of_groups_each_is_left_out_once_and_as_a_whole():
    draw = np.random.default_rng(0)
    for _ in range(200):
        groups = draw.permutation(np.arange(draw.integers(8, 40)) % draw.integers(2, 9))
        for cv in (None, 2, 3, 5):
            folds = AnomalyDetector(cv=cv)._folds(len(groups), groups, True)
            assert len(set(folds)) == min(cv or 5, len(set(groups))) and -1 not in folds, (groups, cv)
            assert all(len(set(folds[groups == group])) == 1 for group in groups)


@pytest.mark.slow
def test_a_trained_pmsacl_is_an_encoder_as_is_its_folder(tmp_path):
    normal, model = drawn(16), PMSACL(ARCH, preset="quick", size=32, **{"encoder.init": "random"})
    model.save(tmp_path / "model")
    given = AnomalyDetector("padim", encoder=model).fit(normal)
    saved = AnomalyDetector("padim", arch=ARCH, init=str(tmp_path / "model")).fit(normal)
    assert model.training and model.encoder.training
    assert given.score_samples(normal) == pytest.approx(saved.score_samples(normal))


@pytest.mark.slow
def test_a_detector_that_takes_a_training_is_fitted_once():
    fitted = quick("cutpaste", settings={"steps": 2, "batch": 4}).fit(drawn(25))
    assert np.isfinite(fitted.left_out_scores_).sum() == 5
    assert fitted.offset_ == fitted.left_out_scores_[np.isfinite(fitted.left_out_scores_)].min()
