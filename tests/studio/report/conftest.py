"""A detector that needs no training, registered for one test and gone after it."""

import numpy as np
import pytest

from core.engine.config import Config
from core.engine.detectors.base import Detector, Prediction
from core.engine.registry import DETECTORS


@pytest.fixture
def newcomer():
    """Name of a detector that is one class and one decorator: how bright a place is."""
    DETECTORS.names()

    @DETECTORS.register("newcomer", title="Newcomer")
    class Newcomer(Detector):
        name = "newcomer"
        Config = type("NewcomerConfig", (Config,), {"__doc__": "No settings."})

        @classmethod
        def fit(cls, encoder, images, config, context=None):
            return cls()

        def predict(self, images, *, batch=32, roi=None):
            return Prediction(images.mean(3).astype(np.float32))

        def save(self, folder):
            (folder / "newcomer.json").write_text("{}")

        @classmethod
        def load(cls, folder, device="cpu"):
            return cls()

        @classmethod
        def restored(cls, config, size, tensors, within, facts):
            return cls()

    yield "newcomer"
    DETECTORS._members.pop("newcomer")
    DETECTORS._about.pop("newcomer")
