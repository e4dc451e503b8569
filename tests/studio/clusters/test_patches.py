"""Patch maps: places inside the region of interest, lesions where the masks say, features of the very cell."""

import numpy as np
import pytest

from core.engine.backbones import embed
from core.engine.backbones.encoder import load_encoder
from core.studio.clusters import explore, features, library
from core.studio.clusters.points import PointImages
from core.studio.ingest import cache
from core.studio.runs import records as runs


@pytest.fixture(scope="module")
def made(world):
    return library.open_map(world.store, world.embed(feature="patch", grid=4, patches=3))


def test_every_image_gives_its_places(world, made):
    whole = library.open_map(world.store, world.embed())
    assert len(made.points) == 3 * len(whole.points)
    np.testing.assert_array_equal(made.points.case_id[::3], whole.points.case_id)
    assert made.points.place.min() >= 0 and made.points.place.max() < 16
    assert made.about["epochs"][0]["numbers"].keys() == {"patches"}


def test_a_place_is_in_a_lesion_where_half_of_its_cell_is(world, made):
    arrays = cache.load_arrays(world.store, world.study, 32)
    points, seen = made.points, 0
    for i in range(len(points)):
        row, mixed = int(points.row[i]), int(points.mixed[i])
        mask = points.mixed_mask(mixed) if mixed >= 0 else np.asarray(arrays.masks[row])
        r, c = divmod(int(points.place[i]), 4)
        share = mask[8 * r : 8 * r + 8, 8 * c : 8 * c + 8].mean()
        best = max(mask[8 * y : 8 * y + 8, 8 * x : 8 * x + 8].mean() for y in range(4) for x in range(4))
        assert points.in_lesion[i] == (share > 0 and share >= min(0.5, best) - 1e-6)
        seen += points.in_lesion[i]
    assert seen >= 40  # 8 abnormal and 36 mixed images


def test_features_are_those_of_the_cell(world, made):
    arrays = cache.load_arrays(world.store, world.study, 32)
    encoder = load_encoder(runs.run_folder(world.store, world.run) / "epochs/0002")
    i = len(made.points) - 2
    image = PointImages(made.points, arrays.images)[i : i + 1]
    right = embed.patch_features(encoder, image, np.array([[made.points.place[i]]]), grid=4)[0, 0]
    np.testing.assert_allclose(explore.features(world.store, made)[i], right, atol=1e-5)


def test_a_place_shows_its_box_and_surroundings(world, made):
    said = explore.describe(world.store, made, 4)
    x0, y0, x1, y1 = said["box"]
    assert (x1 - x0, y1 - y0) == (0.25, 0.25) and (4 * y0) * 4 + 4 * x0 == made.points.place[4]
    assert explore.thumbnail(world.store, made, 4).shape == (80, 96, 3)  # 72 x 60 images


def test_an_abnormal_image_without_a_mask_is_neither(world, made):
    arrays = cache.load_arrays(world.store, world.study, 32)
    arrays.has_mask = np.zeros(len(arrays), bool)
    whole = library.open_map(world.store, world.embed()).points
    chosen = features.choose(whole, arrays, made.config)
    abnormal = np.array([g.startswith("Abnormal") for g in whole.groups])[whole.group]
    assert (chosen.lesion[abnormal] == -1).all() and (chosen.lesion[~abnormal] >= 0).all()
