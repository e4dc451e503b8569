"""From a run's snapshots to maps with their numbers: points, cache, and what the browser asks for."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from core.engine.progress import Stopped
from core.studio.clusters import explore, library
from core.studio.clusters.config import MapConfig
from core.studio.db.store import NotFound
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import Work, load_step
from tests.studio.clusters.conftest import POINTS


@pytest.fixture(scope="module")
def made(world):
    return library.open_map(world.store, world.embed(epochs=(0, 1, 2)))


def test_points_are_the_cases_they_say(world, made):
    points = made.points
    assert made.coords.shape == (3, len(points), 2)
    cases = {c["id"]: c for c in world.store.query("SELECT * FROM cases")}
    for i in range(len(points)):
        case, group = cases[int(points.case_id[i])], made.about["groups"][points.group[i]]
        if points.lesions[i] == 0:
            assert (
                group
                == {
                    ("train", "normal"): "Normal, training",
                    ("holdout", "normal"): "Normal, held out",
                    ("test", "normal"): "Normal, test",
                    ("test", "abnormal"): "Abnormal, test",
                }[case["split"], case["label"]]
            )
        else:
            assert case["label"] == "normal" and case["split"] != "test" and "pasted" in group
    assert [int((points.lesions == n).sum()) for n in (1, 2, 3)] == [12, 12, 12]


def test_mixed_images_differ_from_their_source_inside_the_mask_alone(world, made):
    points, arrays = made.points, explore._arrays(world.store, made)
    changed = 0
    for i in np.flatnonzero(points.lesions > 0):
        mask = points.mixed_mask(int(points.mixed[i])).astype(bool)
        difference = (points.mixed_images()[points.mixed[i]] != arrays[points.row[i]]).any(2)
        assert not (difference & ~mask).any()
        changed += difference.any()
    assert changed > 30


def test_classes_and_truth_leave_out_what_they_do_not_speak_of(made):
    groups = np.array(made.about["groups"])[made.points.group]
    classes, truth = made.points.classes(), made.points.truth()
    assert set(groups[classes == 0]) == {"Normal, training", "Normal, held out"}
    assert set(groups[classes == -1]) == {"Normal, test", "Abnormal, test"}
    assert set(groups[truth == 1]) == {"Abnormal, test"} and set(groups[truth == 0]) == {"Normal, test"}


def test_every_epoch_has_its_numbers(made):
    assert [e["epoch"] for e in made.about["epochs"]] == [0, 1, 2]
    for epoch in made.about["epochs"]:
        assert 0 < epoch["trustworthiness"] <= 1
        for kind in ("classes", "lesions"):
            assert {"silhouette", "davies_bouldin", "knn_purity", "between_within"} <= set(epoch["numbers"][kind])
        assert {0 <= epoch["numbers"]["lesions"][key] <= 1 for key in ("lesion_side", "lesion_side_normal")} == {True}
        assert len(epoch["radii"]) == len(made.about["groups"])
        assert len(epoch["centres"]) == 1  # centred features: every centre lies at the origin


def test_the_same_map_is_not_made_twice_and_another_seed_is_another(world, made):
    before = (library.map_folder(world.store, made.key) / "map.json").stat().st_mtime_ns
    assert world.embed(epochs=(0, 1, 2)) == made.key
    assert (library.map_folder(world.store, made.key) / "map.json").stat().st_mtime_ns == before
    one, two = (library.plan(world.store, world.run, MapConfig(points=POINTS, seed=s)).key for s in (0, 1))
    assert one != two
    asked = library.request(world.store, world.run, MapConfig(method="pca", epochs=(0, 1, 2), points=POINTS))
    assert asked == {"key": made.key, "ready": True, "job": None}


def test_no_epochs_means_the_last(world, made):
    key = world.embed()
    assert [e["epoch"] for e in library.open_map(world.store, key).about["epochs"]] == [2]
    assert key == world.embed(epochs=(2,))


@pytest.mark.parametrize("feature", ["centred", "projected", "backbone"])
def test_neighbours_equal_brute_force_in_the_maps_own_features(world, feature):
    m = library.open_map(world.store, world.embed(feature=feature))
    x = np.asarray(explore.features(world.store, m), np.float64)
    assert x.shape == (len(m.points), 96 if feature == "backbone" else 128)
    distance, index = NearestNeighbors(n_neighbors=6, algorithm="brute").fit(x).kneighbors()
    for i in (0, len(x) // 2, len(x) - 1):
        found = explore.neighbours(world.store, m, i, k=6)
        assert [n["point"] for n in found] == index[i].tolist()
        np.testing.assert_allclose([n["distance"] for n in found], distance[i], rtol=1e-5)


def test_a_point_gives_its_case_and_picture(world, made):
    i = int(np.flatnonzero(np.array(made.about["groups"])[made.points.group] == "Abnormal, test")[0])
    said = explore.describe(world.store, made, i)
    assert said["case_id"] == made.points.case_id[i] and said["case"]["label"] == "abnormal"
    assert said["outline"] and all(0 <= v <= 1 for ring in said["outline"] for p in ring for v in p)
    assert explore.picture(world.store, made, i).shape == (60, 72, 3)
    assert explore.thumbnail(world.store, made, i).shape == (80, 96, 3), "in its own proportions"
    with pytest.raises(ValueError, match="not 5000"):
        explore.describe(world.store, made, 5000)


def test_columns_cover_every_point(world, made):
    found = {c["name"]: c for c in explore.columns(world.store, made)}
    assert {"class", "split", "label", "decision"} <= set(found)
    for column in found.values():
        assert len(column.get("codes", column.get("values"))) == len(made.points)
    labels = [found["label"]["names"][c] for c in found["label"]["codes"]]
    assert labels.count("synthetic") == 36 and labels.count("abnormal") == 8


def test_a_number_of_many_values_is_a_scale_and_not_a_legend(world, made):
    """Image widths: two of them are classes, twenty are a ramp."""
    before = {c["id"]: c["width"] for c in world.store.query("SELECT id, width FROM cases")}
    try:
        for kinds, part in ((2, "codes"), (20, "values")):
            for case in before:
                world.store.execute("UPDATE cases SET width = ? WHERE id = ?", [100 + case % kinds, case])
            found = {c["name"]: c for c in explore.columns(world.store, made)}["width"]
            assert part in found and len(found[part]) == len(made.points)
    finally:
        for case, width in before.items():
            world.store.execute("UPDATE cases SET width = ? WHERE id = ?", [width, case])


def test_pseudo_classes_are_those_that_pre_training_separates(world, made):
    found = {c["name"]: c for c in explore.columns(world.store, made)}["pseudo"]
    assert found["names"] == ["A\u2080, normal", *(g for g in made.about["groups"] if "pasted" in g), explore.NONE]
    counts = [found["codes"].count(c) for c in range(5)]
    assert counts == [24, 12, 12, 12, 16]  # training and hold-out; A_1 .. A_3; test images


def test_mistakes_are_sentences(world):
    with pytest.raises(NotFound, match="no saved encoder of epoch 9; choose from: 0, 1, 2"):
        world.embed(epochs=(9,))
    with pytest.raises(NotFound, match="draw it again"):
        library.open_map(world.store, "nothing")


def test_a_stopped_step_leaves_no_half_map(world):
    config = MapConfig(method="pca", seed=99, points=POINTS)
    with pytest.raises(Stopped):
        load_step("embed")(Work(world.store, world.run, {"config": config.to_dict()}, should_stop=lambda: True))
    key = library.plan(world.store, world.run, config).key
    with pytest.raises(NotFound):
        library.open_map(world.store, key)
    row = next(m for m in library.list_maps(world.store, world.study) if m["key"] == key)
    assert not row["ready"]


def test_a_map_that_is_being_made_can_be_stopped_and_no_longer_job_with_it(world, monkeypatch):
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: [])
    asked = library.request(world.store, world.run, MapConfig(method="pca", seed=77, points=POINTS))
    assert library.stop(world.store, asked["key"]) == "cancelled"
    with pytest.raises(ValueError, match="not being drawn"):
        library.stop(world.store, asked["key"])
    steps = [{"step": "score", "run": world.run}, {"step": "embed", "run": world.run}]
    longer = jobs.submit(world.store, steps, start=False)
    world.store.execute("UPDATE cluster_maps SET job = ? WHERE key = ?", [longer, asked["key"]])
    with pytest.raises(ValueError, match="part of a longer job"):
        library.stop(world.store, asked["key"])
    jobs.cancel(world.store, longer)
    library.forget(world.store, asked["key"])
