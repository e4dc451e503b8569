"""The bench of learning from corrections on a few small drawn images: figures for each number of corrected ones."""

import cv2
import pytest

from core.studio.benches import learn
from tests.studio.review.conftest import draw_folder


@pytest.mark.slow
def test_each_number_of_corrected_polyps_has_its_figures(tmp_path, monkeypatch):
    folder = draw_folder(tmp_path / "hyperkvasir", 24, 4, 12)
    for path in [p for p in folder.rglob("*.png") if p.parent.name != "mask"]:
        cv2.imwrite(str(path.with_suffix(".jpg")), cv2.imread(str(path)))
    monkeypatch.setattr(learn, "SIZE", 64)
    monkeypatch.setattr(learn, "QUICK_STEP", 1)
    found = learn.run(quick=True, data=str(tmp_path), device="cpu")
    assert [row["corrected"] for row in found["rows"]] == [0, 2, 5] and set(found["mean"]) == {0, 2, 5}
    assert (found["polyps"], found["normals"]) == (6, 4)
    none, *others = found["rows"]
    assert none["rule"]["share"] == 0 and none["dice"]["difference"] == 0, "without corrected ones it is the base"
    assert all(row["rule"]["images"] == row["corrected"] for row in others)
    assert all(row["dice"]["old"] == none["dice"]["new"] for row in others)
    assert found["ratio"] == pytest.approx(found["mean"][5]["dice"] / found["mean"][0]["dice"], abs=0.01)


def test_it_says_where_the_images_must_be(tmp_path):
    with pytest.raises(ValueError, match="hyperkvasir"):
        learn.run()
    with pytest.raises(ValueError, match="no images"):
        learn.run(data=str(tmp_path))
