"""New images on a finished map: the map stays byte for byte, each image lies among its nearest points."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from core.engine.config import BadConfig
from core.studio.clusters import explore, figure, library, maps, projected
from core.studio.clusters.config import MapConfig
from core.studio.db.store import NotFound
from core.studio.ingest import studies
from core.studio.jobs.steps import Work, load_step
from core.studio.review.exports.tables import Names
from tests.studio.clusters.conftest import frames


@pytest.fixture(scope="module")
def put(world, monkeypatch_module):
    """put(map, **ProjectionConfig): places images here and now, as the worker would."""

    def now(m, **config):
        asked = projected.request(world.store, m.key, projected.ProjectionConfig(**config))
        if not asked["ready"]:
            args = {"map": m.key, "placed": asked["key"], "config": projected.ProjectionConfig(**config).to_dict()}
            load_step("project")(Work(world.store, world.run, {**args, "device": "cpu"}))
        return projected.open_projected(world.store, m.key, asked["key"])

    return now


@pytest.fixture(scope="module")
def monkeypatch_module():
    """No worker is woken: the step is called by hand."""
    from core.studio.jobs import queue as jobs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "ensure_worker", lambda store: None)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six new frames, a mask folder that is no image, and a file that cannot be read."""
    root = tmp_path_factory.mktemp("new") / "ward 3"
    frames(root / "a", 4, False, 50)
    frames(root / "b", 2, True, 51)
    (root / "broken.png").write_bytes(b"not an image")
    return root


def test_the_map_stays_and_new_images_lie_between_their_nearest(world, made, put, folder):
    before = (library.map_folder(world.store, made.key) / "coords.npy").read_bytes()
    new = put(made, folder=str(folder))
    assert (library.map_folder(world.store, made.key) / "coords.npy").read_bytes() == before
    assert new.about["title"] == "ward 3" and len(new) == 6 and new.coords.shape == (2, 6, 2)
    assert all("mask" not in name for name in new.about["names"])
    assert [name for name, _ in new.about["left_out"]] == ["broken.png"]
    for e in (0, 1):
        near = np.asarray(made.coords[e])[new.near[e]]
        low, high = near.min(1) - 1e-5, near.max(1) + 1e-5
        assert ((new.coords[e] >= low) & (new.coords[e] <= high)).all()


def test_an_image_of_the_map_comes_to_its_own_place(world, made, put, tmp_path):
    """Its own file again, by folder: the same features, so the distance is nothing and the place its own."""
    case = int(made.points.case_id[0])
    path = world.store.one("SELECT path FROM cases WHERE id = ?", [case])["path"]
    (tmp_path / "again.png").write_bytes(Path(path).read_bytes())
    new = put(made, folder=str(tmp_path))
    for e in (0, 1):
        assert new.near[e, 0, 0] == 0 and new.distance[e, 0, 0] < 1e-3 and not new.out_of_support[e, 0]
        np.testing.assert_allclose(new.coords[e, 0], made.coords[e, 0], atol=0.02)


def test_neighbours_of_a_new_image_equal_brute_force_in_the_maps_own_features(world, made, put, folder):
    from core.engine.backbones import embed
    from core.engine.backbones.encoder import load_encoder
    from core.engine.losses.centred import centred
    from core.studio.clusters.points import centres_of
    from core.studio.runs import records as runs
    from core.studio.runs.weights import Snapshot

    new = put(made, folder=str(folder))
    at = runs.run_folder(world.store, world.run) / "epochs/0002"
    f = embed.encode(load_encoder(at), np.asarray(new.images), "projected")
    f = centred(f, np.zeros(len(f), int), centres_of(Snapshot(2, at)))
    known = np.asarray(explore.features(world.store, made, 1), np.float64)
    distance, index = NearestNeighbors(n_neighbors=10, algorithm="brute").fit(known).kneighbors(f)
    said = projected.describe(new, 3, 1)
    assert [n["point"] for n in said["neighbours"]] == index[3].tolist()
    np.testing.assert_allclose([n["distance"] for n in said["neighbours"]], distance[3], rtol=1e-3)
    assert said["name"] == new.about["names"][3]


def test_what_is_like_nothing_on_the_map_is_marked(world, made, put, tmp_path):
    import cv2

    cv2.imwrite(str(tmp_path / "noise.png"), np.random.default_rng(0).integers(0, 256, (60, 72, 3), np.uint8))
    cv2.imwrite(str(tmp_path / "white.png"), np.full((60, 72, 3), 255, np.uint8))
    plain = library.open_map(world.store, world.embed(feature="backbone"))
    assert put(plain, folder=str(tmp_path)).out_of_support.any()


def test_another_study_and_the_rest_of_the_same(world, made, put, tmp_path):
    frames(tmp_path / "other/train/normal", 5, False, 60)
    studies.import_study(world.store, "other ward", tmp_path / "other")
    new = put(made, study="other-ward")
    assert len(new) == 5 and min(new.about["cases"]) > 0
    with pytest.raises(ValueError, match="already on this map"):
        put(made, study=world.study)
    few = library.open_map(
        world.store, world.embed(epochs=(2,), points=MapConfig().points.replace(train=5, mixed=5, abnormal=3))
    )
    rest = put(few, study=world.study)
    assert not set(rest.about["cases"]) & set(few.points.case_id.tolist())
    assert len(rest) + len(set(few.points.case_id.tolist())) == 40


def test_placed_again_is_not_placed_twice_and_can_be_taken_off(world, made, put, folder):
    one = put(made, folder=str(folder))
    assert projected.request(world.store, made.key, projected.ProjectionConfig(folder=str(folder)))["ready"]
    assert one.key in [p["key"] for p in projected.list_projected(world.store, made.key) if p["ready"]]
    projected.forget(world.store, made.key, one.key)
    assert one.key not in [p["key"] for p in projected.list_projected(world.store, made.key)]
    with pytest.raises(NotFound, match="project them again"):
        projected.open_projected(world.store, made.key, one.key)


def test_figure_and_table_hold_the_new_images(world, made, put, folder):
    new = put(made, folder=str(folder))
    assert "placed: ward 3 (6)" in figure.draw(made, "svg", projected=[new]).decode()
    rows = (
        explore.write(world.store, made, "csv", Names(world.store, world.study, keep=True), projected=[new])
        .decode()
        .splitlines()
    )
    assert len(rows) == 1 + 2 * len(made.points) + 2 * 6
    assert rows[0].endswith("placed,far") and "ward 3" in rows[-1]


def test_mistakes_are_sentences(world, made, tmp_path):
    ask = lambda **c: projected.request(world.store, made.key, projected.ProjectionConfig(**c))  # noqa: E731
    with pytest.raises(BadConfig, match="either a folder or a study"):
        projected.ProjectionConfig()
    with pytest.raises(BadConfig, match="neighbours"):
        projected.ProjectionConfig(folder="x", neighbours=0)
    with pytest.raises(ValueError, match="the folder .* does not exist"):
        ask(folder=str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="no image in the folder"):
        ask(folder=str(tmp_path))
    with pytest.raises(NotFound):
        ask(study="nobody")


@pytest.mark.slow
def test_new_points_of_a_cluster_come_to_that_cluster_of_a_umap():
    """Three clusters, a fifth of the points kept back: placed, each lands nearest to the mean of its own cluster."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 250)
    x = (rng.normal(size=(3, 16)) * 3)[label] + rng.normal(size=(250, 16))
    known, new = x[:200], x[200:]
    coords = maps.fit_map(known, MapConfig(method="umap"))
    kept = coords.copy()
    put = maps.project(known.astype(np.float32), coords, new)
    np.testing.assert_array_equal(coords, kept)
    means = np.stack([coords[label[:200] == c].mean(0) for c in range(3)])
    nearest = np.linalg.norm(put[:, None] - means, axis=2).argmin(1)
    assert (nearest == label[200:]).mean() >= 0.95
