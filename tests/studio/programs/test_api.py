"""`import pmsacl_studio`: a home as one object, a detector as scikit-learn has it, MedMix and the loss."""

import inspect
import pydoc

import cv2
import numpy as np
import pmsacl_studio
import pytest
from pmsacl_studio import AnomalyDetector, MedMix, PMSACLLoss, Studio, pmsacl_loss

from core.studio.programs.looks import Looks
from tests.conftest import ARCH, picture, plain_folder


def images(count: int, size: int = 32, blob: bool = False, first: int = 0) -> np.ndarray:
    return np.stack([cv2.resize(picture(first + i, (64, 64), blob)[0], (size, size)) for i in range(count)])


def test_what_is_public_says_what_it_is_and_is_nowhere_else():
    for name in pmsacl_studio.__all__:
        thing = getattr(pmsacl_studio, name)
        assert inspect.getdoc(thing) and thing.__module__.startswith("core."), name
        for member, function in inspect.getmembers(thing, inspect.isfunction):
            if not member.startswith("_") and function.__module__.startswith("core."):
                assert inspect.getdoc(function), f"{name}.{member}"
        assert pydoc.render_doc(thing) != "Any"


@pytest.mark.slow
def test_from_a_folder_to_decisions(tmp_path):
    with Studio(tmp_path / "home", "cpu") as studio:
        study = studio.import_folder("tiny", plain_folder(tmp_path / "images"))
        encoder = studio.pretrained(study, ARCH, 32, init="random")
        run = studio.fit(encoder, "padim", channels=20)
        arrays = [picture(2000 + i, blob=True)[0] for i in range(3)]
        assert list(studio.score(run, arrays).columns) == ["score"]  # no thresholds yet
        readings = studio.score(run)
        assert len(readings) == 18 and set(readings["split"]) == {"holdout", "test"}
        again = studio.score(run, arrays)
        named = readings.set_index("name")["score"]
        assert again["score"].to_numpy() == pytest.approx([named[f"a{i:03d}.png"] for i in range(3)])
        assert (readings["flagged"] == (readings["score"] > readings["threshold"])).all()
        files = studio.score(run, tmp_path / "images/test/abnormal")
        assert list(files.columns) == ["file", "score", "threshold", "percentile", "flagged"] and len(files) == 6
        assert studio.score(run, arrays[0]).equals(again[:1]) and studio.heat_maps(run, arrays[0]).shape == (1, 8, 8)
        studio.flag_above(run, float(again["score"].min()) - 1)  # whatever the percentile
        moved = studio.score(run, arrays)
        assert moved["flagged"].all() and studio.operating_point(run)["threshold"] == moved["threshold"][0]
        assert Looks(studio.store).at(run, arrays[1])[0] == moved.to_dict("records")[1]  # as the route and MCP have it
        studio.flag_above(run, None)
        assert studio.score(run, arrays).equals(again)
        assert again["flagged"].dtype == bool and studio.heat_maps(run, arrays).shape == (3, 8, 8)
        assert studio.evaluate(run, bootstrap=10)["auroc"] > 0.5
        listed = studio.worklist(study, run)
        assert len(listed) == 12 and studio.decisions(study).empty and listed["percentile"].is_monotonic_decreasing
        assert set(studio.worklist(study, run, flagged=True)["case"]) == set(listed["case"][listed["flagged"]])
        assert studio.worklist(study).equals(listed), "without a run it is that of the page"
        first = listed["case"][0]  # of NumPy's type
        studio.decide(first, "abnormal", "Ada", "a polyp", run)
        [said] = studio.decisions(study).to_dict("records")
        assert (said["case"], said["reader"], said["decision"], said["comment"]) == (
            first,
            "Ada",
            "abnormal",
            "a polyp",
        )
        assert list(studio.studies()["id"]) == [study] and len(studio.runs(study)) == 2


@pytest.mark.slow
def test_arrays_become_a_study_and_train(tmp_path):
    with Studio(tmp_path / "home", "cpu") as studio:
        masks = [cv2.resize(picture(50 + i, (64, 64), blob=True)[1], (32, 32)) for i in range(4)]
        test = [*images(4, blob=True, first=50), *images(4, first=90)]
        study = studio.import_arrays("arrays", images(24), test, np.arange(8) < 4, [*masks, *[None] * 4])
        row = studio.studies().iloc[0]
        assert (row["cases"], row["masks"]) == (32, 4)
        masked = studio.import_arrays("masked", images(24), test, masks=[*masks, np.zeros((32, 32)), *[None] * 3])
        assert len(studio.worklist(masked, label="abnormal")) == 4 == len(studio.worklist(masked, label="unknown"))
        settings = {"size": 32, "epochs": 1, "steps": 0, "batch": 6, "centre_images": 6, "encoder.arch": ARCH}
        run = studio.pretrain(study, "quick", **settings)
        assert studio.runs(study).set_index("id")["status"][run] in ("done", "collapsed")


@pytest.mark.slow
def test_a_detector_has_scikit_learns_manners():
    from sklearn.base import clone
    from sklearn.metrics import roc_auc_score

    normal, odd = images(24), images(6, blob=True, first=200)
    made = AnomalyDetector("padim", arch=ARCH, init="random", settings={"channels": 20}, device="cpu")
    fitted = clone(made).set_params(contamination=0.1).fit(normal)
    both = np.concatenate([images(6, first=300), odd])
    assert roc_auc_score([0] * 6 + [1] * 6, -fitted.score_samples(both)) > 0.8
    assert (fitted.predict(both) == np.where(fitted.decision_function(both) < 0, -1, 1)).all()
    assert fitted.decision_function(normal) == pytest.approx(fitted.score_samples(normal) - fitted.offset_)
    assert fitted.heat_maps(both).shape == (12, 8, 8)


def test_medmix_is_one_call_and_repeats_by_its_seed():
    import torch

    x = torch.from_numpy(images(6)).permute(0, 3, 1, 2).float() / 255
    mixed, masks, counts = MedMix(k=3, seed=1)(x)
    again = MedMix(k=3, seed=1)(x)
    assert torch.equal(mixed, again[0]) and torch.equal(masks, again[1])
    assert mixed.shape == x.shape and masks.shape == (6, 32, 32) and counts.max() <= 3
    assert torch.equal(mixed[counts == 0], x[counts == 0]) and not masks[counts == 0].any()
    outside = ~masks[:, None].expand_as(x)
    assert torch.equal(mixed[outside], x[outside])


def test_the_loss_as_a_module_is_the_function():
    import torch

    draw = torch.Generator().manual_seed(0)
    z, centres = torch.randn(8, 16, generator=draw), torch.randn(4, 16, generator=draw)
    labels, partners = torch.arange(8) % 4, torch.arange(8).roll(4)
    module = PMSACLLoss(centres, tau=0.3)
    assert torch.equal(module(z, labels, partners), pmsacl_loss(z, labels, partners, centres, 0.3))
    assert "centres" in module.state_dict() and not list(module.parameters())
