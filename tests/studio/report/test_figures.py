"""The report's picture of the feature space: before and after, where a run has saved both."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from core.studio.report.figures import clusters_figure
from core.studio.runs import records as runs
from tests.studio.clusters.conftest import snapshots


@pytest.mark.slow
@pytest.mark.parametrize("saved", [1, 3])
def test_the_first_and_the_last_encoder_stand_side_by_side(store, tiny_study, saved):
    config = {"size": 32, "k": 3, "strong": "medmix", "medmix": {}}
    run = runs.create_run(store, tiny_study, "pretrain", "pmsacl", config)
    snapshots(runs.run_folder(store, run), saved)
    drawn = clusters_figure(store, run)
    if saved == 1:
        assert drawn is None
        return
    picture = cv2.imdecode(np.frombuffer(drawn, np.uint8), cv2.IMREAD_COLOR)
    height, width = picture.shape[:2]
    assert width > 1.2 * height  # two panels
    left, right = picture[:, : width // 2], picture[:, width // 2 :]
    assert all((np.ptp(half.astype(int), axis=2) > 60).sum() > 100 for half in (left, right))  # coloured points in each
