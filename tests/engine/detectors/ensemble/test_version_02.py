"""Files of version 0.2, written as its four detectors did, are read as the one ensemble and score the same."""

import json

import numpy as np
import pytest

from core.engine.detectors.base import FitContext
from core.engine.detectors.ensemble.ensemble import Blend, BlendHead, Combined, Ensemble, Heads
from core.engine.detectors.ensemble.named import BlendHeadConfig, HeadsConfig
from core.engine.registry import DETECTORS
from tests.engine._images import normals
from tests.engine.detectors.ensemble.test_blend import SMALL
from tests.engine.detectors.ensemble.test_combined import CONFIG as COMBINED
from tests.engine.detectors.lesion_head.test_lesion_head import FAST, encoder

ROI = np.zeros((24, 64, 64), np.uint8)
ROI[:, 6:60, 10:] = 1
HEAD = FAST.replace(mode="frozen", distances=True)
CONFIGS = {
    "blend": (Blend, SMALL),
    "blend-head": (BlendHead, BlendHeadConfig(blend=SMALL, head=HEAD, side=48, weight=0.5)),
    "combined": (Combined, COMBINED.replace(learn=True)),
    "ensemble": (Heads, HeadsConfig(head=FAST, members=2)),
}


def both(score, maps):
    """Version 0.2 kept the scale of a member's score and that of its map side by side."""
    score, maps = score or maps, maps or score
    return {"score_mean": score.mean, "score_sd": score.sd, "map_mean": maps.mean, "map_sd": maps.sd}


def write(ensemble: Ensemble, config, folder):
    """`Blend.save`, `BlendHead.save`, `Combined.save` and `Ensemble.save` of version 0.2, in that order."""
    folder.mkdir(parents=True, exist_ok=True)
    maps, readings = ensemble.map_scales, ensemble.reading_scales
    about = {"config": config.to_dict()}
    for name, member in ensemble.members.items():
        if isinstance(member, Ensemble):
            write(member, config.blend, folder / name)
        else:
            member.save(folder / name)
    if ensemble.name == "blend":
        about |= {"kept": ensemble.kept.tolist(), "known": ensemble.known.astype(int).tolist()}
        about["colours"] = {name: colour.to_dict() for name, colour in ensemble.colours.items()}
        about |= {"scales": {n: both(None, s) for n, s in maps.items()}}
        about |= {"readings": {n: both(s, None) for n, s in readings.items()}}
    elif ensemble.name == "blend-head":
        heads = {name: both(readings[name], maps["head"]) for name in ("head", "head_roi")}
        about["scales"] = {"blend": both(None, maps["blend"]), **heads}
    else:
        about["scales"] = {name: both(readings[name], maps[name]) for name in maps}
    if ensemble.name == "combined":
        about["weights"] = {"score": ensemble.reading_weights["padim"], "map": ensemble.map_weights["padim"]}
    (folder / f"{ensemble.name}.json").write_text(json.dumps(about))


@pytest.fixture(scope="module", params=CONFIGS)
def fitted(request):
    kind, config = CONFIGS[request.param]
    return kind.fit(encoder(), normals(24, 64), config, FitContext(roi=ROI)), config


@pytest.mark.slow
def test_a_stored_detector_scores_as_it_did(fitted, tmp_path):
    detector, config = fitted
    write(detector, config, tmp_path)
    assert not list(tmp_path.rglob("members.json"))
    again = DETECTORS.get(detector.name).load(tmp_path)
    images, roi = normals(4, 64, 9), ROI[:4]
    before, after = (d.predict(images, roi=roi) for d in (detector, again))
    np.testing.assert_allclose(after.maps, before.maps, atol=1e-5)
    for region in (None, roi):
        want = detector.image_score(before, region)
        np.testing.assert_allclose(again.image_score(after, region), want, atol=1e-4)
    assert again.config == detector.config and again.map_weights == detector.map_weights


def test_one_that_was_saved_before_it_saw_colours_and_places_scores_without_them(tmp_path):
    config = SMALL.replace(colour=False, seen=0.0)
    detector = Blend.fit(encoder(), normals(24, 64), config)
    detector.known = np.ones((8, 8), bool)
    write(detector, config, tmp_path)
    about = json.loads((tmp_path / "blend.json").read_text())
    del about["colours"], about["config"]["colour"], about["config"]["seen"], about["kept"], about["known"]
    (tmp_path / "blend.json").write_text(json.dumps(about))
    again, images = Blend.load(tmp_path), normals(3, 64, 9)
    assert again.kept is None and again.known is None
    want = detector.image_score(detector.predict(images))
    np.testing.assert_allclose(again.image_score(again.predict(images)), want, atol=1e-4)


@pytest.mark.slow
def test_a_blend_and_head_that_kept_the_known_places_itself_still_knows_them(tmp_path):
    kind, config = CONFIGS["blend-head"]
    detector = kind.fit(encoder(), normals(24, 64), config, FitContext(roi=ROI))
    write(detector, config, tmp_path)
    about = json.loads((tmp_path / "blend-head.json").read_text())
    about["config"]["seen"], about["known"] = 0.05, np.eye(8, dtype=int).tolist()
    (tmp_path / "blend-head.json").write_text(json.dumps(about))
    again = BlendHead.load(tmp_path)
    assert (again.predict(normals(2, 64)).maps[:, ~np.eye(8, dtype=bool)] == 0).all()


def test_a_folder_without_any_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no fitted ensemble"):
        Blend.load(tmp_path)
