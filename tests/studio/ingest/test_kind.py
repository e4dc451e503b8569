"""The kind of image, guessed by plain statistics."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.detectors.lesion_head.config import LESION_TITLES
from core.engine.phantom.frame import draw_case
from core.studio.ingest import kind, studies
from core.studio.review import decisions
from tests.conftest import plain_folder


def noisy(image: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, 6, image.shape[:2])[..., None]
    return np.clip(image + noise, 0, 255).astype(np.uint8)


def disc(colour: tuple[int, int, int], radius: float = 0.48) -> np.ndarray:
    """A lit disc on black, as a camera behind a pupil, or a scanner, shows."""
    image = np.zeros((300, 400, 3), np.uint8)
    cv2.ellipse(image, (200, 150), (int(400 * radius), int(300 * radius)), 0, 0, 360, colour, -1)
    return noisy(image)


@pytest.mark.parametrize("case", range(4))
def test_a_frame_of_the_phantom_is_endoscopy(case):
    assert kind.kind_of_image(draw_case((0, 0, case), 96).image) == "endoscopy"


@pytest.mark.parametrize(
    ("image", "wanted"),
    [
        (disc((210, 110, 30)), "fundus"),
        (disc((150, 75, 18)), "fundus"),  # underexposed
        (noisy(np.full((200, 160, 3), 120, np.uint8)), "xray"),
        (disc((130, 130, 130), 0.33), "ultrasound"),
        (disc((150, 90, 160), 0.3), "ultrasound"),  # a false-coloured scan on black
        (noisy(np.full((120, 160, 3), (60, 140, 70), np.uint8)), "other"),
        (np.zeros((40, 40, 3), np.uint8), "other"),
    ],
)
def test_made_up_pictures(image, wanted):
    assert kind.kind_of_image(image) == wanted


def test_a_study_is_guessed_by_most_of_it_and_confirmed_by_a_person(store, tmp_path):
    plain_folder(tmp_path / "images", 6, 2, 2)
    for i, path in enumerate(sorted((tmp_path / "images").rglob("*.png"))):
        if "mask" not in path.parts:
            cv2.imwrite(str(path), disc((210 - i, 110, 30))[..., ::-1])
    studies.import_study(store, "eyes", tmp_path / "images")
    assert kind.guess(store, "eyes") == "fundus" and kind.kept(store, "eyes") is None
    kind.keep(store, "eyes", "fundus")
    assert kind.kept(store, "eyes") == "fundus"
    with pytest.raises(ValueError, match="one of endoscopy"):
        kind.keep(store, "eyes", "teeth")


def test_a_kind_has_lesions_of_its_own_and_only_endoscopy_those_of_endoscopy(store, tiny_study):
    assert kind.lesions(store, tiny_study) == ("varied", "varied"), "nobody has confirmed a kind"
    offered = {}
    for name in kind.KINDS:
        kind.keep(store, tiny_study, name)
        offered[name] = kind.lesions(store, tiny_study)
    assert offered["endoscopy"] == ("endoscopy", "quick") and offered["other"] == ("varied", "varied")
    assert len(set(offered.values())) == len(kind.KINDS)
    assert all(medmix in MEDMIX_PRESETS and head in LESION_TITLES for medmix, head in offered.values())


def test_labels_fit_the_kind_unless_the_study_has_its_own(store, tiny_study):
    assert decisions.fit_labels(store, tiny_study, "fundus", "ann")[0] == "microaneurysm"
    assert decisions.fit_labels(store, tiny_study, "xray", "ann")[0] == "opacity", "confirmed anew"
    decisions.set_labels(store, tiny_study, ["cobblestones"], "ann")
    assert decisions.fit_labels(store, tiny_study, "fundus", "ann") == ["cobblestones"]
