"""The bench of recipes: what is learnt is measured on held-out images, what chooses is apart from what is tested."""

import pytest

from tests.benches import recipes
from tests.conftest import picture, write


@pytest.fixture
def folder(tmp_path):
    for part, count, sick in (("train/normal", 40, False), ("test/normal", 4, False), ("test/abnormal", 4, True)):
        for i in range(count):
            image, mask = picture(len(part) * 100 + i, blob=sick)
            write(tmp_path / part / f"{i}.png", image)
            if sick:
                write(tmp_path / "test/mask" / f"{i}.png", mask * 255)
    return tmp_path


@pytest.mark.long
def test_recipes_measures_classes_and_detectors(folder):
    plain, trained = recipes.recipes(quick=True, device="cpu", data=str(folder), only=("none", "sphere"))["rows"]
    assert "val_accuracy" not in plain and 0 <= trained["val_accuracy"] <= 1 and 0 <= trained["knn_purity"] <= 1
    assert set(plain["mahalanobis"]) == set(trained["mahalanobis"])
    assert {"pasted_auroc", "test_auroc", "test_pro"} <= set(plain["mahalanobis"])


def test_recipes_wants_images():
    with pytest.raises(ValueError, match="give --data"):
        recipes.recipes()


def test_recipes_names_those_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"unknown recipe 'spheer'; choose from: none, imagenet"):
        recipes.recipes(data=str(tmp_path), only=("spheer",))
