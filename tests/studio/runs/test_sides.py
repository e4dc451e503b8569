"""Studies of few and large images are looked at more closely, by a first look and on a trained encoder."""

import pytest

from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.studio.report.arms import Arm, _at_side, _encoder_of
from core.studio.runs import look, sides
from core.studio.runs import records as runs
from core.studio.runs.pipeline import create_fit, create_pretrain
from core.studio.runs.readings import size_of


def filled(store, study, count, width, height):
    store.execute("DELETE FROM cases WHERE study = ?", [study])
    with store.write() as db:
        same = {"study": study, "split": "test", "label": "normal", "added": "", "width": width, "height": height}
        db.table("cases").insert_all({**same, "name": str(i), "path": str(i), "row": i} for i in range(count))


@pytest.mark.slow
@pytest.mark.parametrize(
    "count, width, height, side",
    [
        (500, 800, 600, 224),  # the usual: a minute of two cores
        (20_000, 800, 600, 224),
        (180, 771, 512, 352),  # few and large: 373 pixels would do, in steps of 32
        (20, 771, 512, 384),
        (20, 300, 270, 256),  # never more than there is to be seen
        (20, 100, 80, 224),
        (0, 0, 0, 224),
    ],
)
def test_few_and_large_images_are_looked_at_more_closely(store, tiny_study, count, width, height, side):
    filled(store, tiny_study, count, width, height)
    assert sides.side_for(store, tiny_study) == side
    for arch, used in ((sides.ARCH, side), ("vit_tiny_patch16_224", sides.SIZE)):
        made = look.create_look(store, tiny_study, arch)
        assert runs.get_run(store, made["encoder"])["config"]["size"] == used


@pytest.mark.slow
@pytest.mark.parametrize(
    "count, changes, side",
    [
        (180, {}, 352),
        (20_000, {}, 224),
        (180, {"fit_closer": False}, 224),
        (180, {"fit_size": 0, "fit_closer": False, "size": 96}, 96),
        (180, {"fit_size": 384}, 384),  # closer than the rule already
        (180, {"encoder.arch": "resnet18"}, 224),
    ],
)
def test_detectors_on_a_trained_encoder_look_as_closely(store, tiny_study, count, changes, side):
    filled(store, tiny_study, count, 771, 512)
    encoder = create_pretrain(store, tiny_study, PRETRAIN_PRESETS["imagenet"].replace(**changes))
    fit = create_fit(store, encoder, "padim")
    filled(store, tiny_study, 5, 2000, 2000)  # cases that come later do not change what it was fitted at
    assert size_of(store, runs.get_run(store, fit)) == side
    asked = create_fit(store, encoder, "padim", size=160)
    assert size_of(store, runs.get_run(store, asked)) == 160


def test_an_experiment_looks_closer_where_its_arm_says_so(store, tiny_study):
    """So that arms on different encoders see the same images at the same side."""
    filled(store, tiny_study, 180, 771, 512)
    arm = Arm("PaDiM", "padim", preset="imagenet", sized=False)
    assert (
        _at_side(store, tiny_study, arm) == arm
        and _at_side(store, tiny_study, arm.replace(closer=True)).fit_size == 352
    )
    _, config = _encoder_of(arm, 0, 224)
    encoder = create_pretrain(store, tiny_study, config)
    assert size_of(store, runs.get_run(store, create_fit(store, encoder, "padim"))) == 224
