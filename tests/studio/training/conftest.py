"""A pre-training of a tiny study that has not begun."""

import pytest

from tests.conftest import ARCH, plain_folder


@pytest.fixture
def run(store, tmp_path):
    from core.engine.objectives.presets import PRETRAIN_PRESETS
    from core.studio.ingest import studies
    from core.studio.runs import pipeline

    plain_folder(tmp_path / "images", 8, 2, 2)
    studies.import_study(store, "tiny", tmp_path / "images")
    return pipeline.create_pretrain(
        store, "tiny", PRETRAIN_PRESETS["quick"].replace(size=32, batch=2, **{"encoder.arch": ARCH})
    )
