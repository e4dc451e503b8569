"""The same seed gives the same map, in two processes; new points find their place; epochs are aligned; what leaves."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pyarrow import parquet

from core.engine.config import BadConfig
from core.studio.clusters import explore, figure, library, maps
from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.db.store import NotFound, now
from core.studio.review.exports.tables import Names
from core.studio.runs import records as runs

ROOT = Path(__file__).resolve().parents[3]
DIGEST = """
import hashlib, numpy as np
from core.studio.clusters import maps
from core.studio.clusters.config import MapConfig
x = np.random.default_rng(0).normal(size=(220, 24)).astype("f4")
for method in {methods!r}:
    print(hashlib.sha256(maps.fit_map(x, MapConfig(method=method, seed=7)).tobytes()).hexdigest())
"""


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(0).normal(size=(220, 24)).astype("f4")


@pytest.mark.longest
def test_same_seed_same_map_in_two_processes(x):
    methods = ["pca", "tsne", "umap"]
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", DIGEST.format(methods=methods)]
    there = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    here = [hashlib.sha256(maps.fit_map(x, MapConfig(method=m, seed=7)).tobytes()).hexdigest() for m in methods]
    assert here == there


@pytest.mark.slow
def test_what_a_umap_compiles_is_kept_for_the_next_process(x):
    maps.fit_map(x, MapConfig(method="umap", seed=7))
    import umap.umap_

    for function in (umap.umap_.smooth_knn_dist, umap.umap_.compute_membership_strengths):
        used = function.stats
        assert used.cache_hits or used.cache_misses, "neither read nor written"
        assert list(Path(used.cache_path).glob(f"*{function.__name__}*.nbc"))


@pytest.mark.slow
def test_maps_are_centred_at_one_scale(x):
    for method in ("pca", "tsne"):
        coords = maps.fit_map(x, MapConfig(method=method))
        assert coords.shape == (220, 2) and coords.dtype == np.float32
        np.testing.assert_allclose(coords.mean(0), 0, atol=1e-5)
        assert np.sqrt((coords**2).sum(1).mean()) == pytest.approx(1, rel=1e-5)


def test_pca_equals_the_singular_value_decomposition(x):
    centred = x - x.mean(0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    found = maps.fit_map(x, MapConfig(method="pca"))
    for axis in (0, 1):
        cosine = abs(found[:, axis] @ u[:, axis]) / np.linalg.norm(found[:, axis])
        assert cosine == pytest.approx(1, abs=1e-4)
    assert found[:, 0].std() / found[:, 1].std() == pytest.approx(s[0] / s[1], rel=1e-3)


def test_a_perplexity_too_large_for_few_points_is_lowered():
    few = np.random.default_rng(1).normal(size=(10, 5))
    assert np.isfinite(maps.fit_map(few, MapConfig(method="tsne", perplexity=50))).all()
    with pytest.raises(ValueError, match="at least four"):
        maps.fit_map(few[:3], MapConfig())


def test_new_points_find_their_place_and_the_map_stays(x):
    coords = maps.fit_map(x, MapConfig(method="pca"))
    kept = coords.copy()
    projected = maps.project(x, coords, x[:5])
    np.testing.assert_allclose(projected, coords[:5], atol=1e-4)
    np.testing.assert_array_equal(coords, kept)


def test_bad_settings_are_sentences():
    for wrong in ({"method": "isomap"}, {"feature": "pixels"}, {"perplexity": 0.0}, {"min_dist": 1.5}):
        with pytest.raises(BadConfig):
            MapConfig(**wrong)
    with pytest.raises(BadConfig, match="mixed must be at least 0, not -1"):
        PointsConfig(mixed=-1)
    config = MapConfig(epochs=(0, 3), points=PointsConfig(train=5))
    assert MapConfig.from_dict(json.loads(config.to_json())) == config


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_a_fit_reports_how_far_it_is_and_can_be_stopped_on_the_way(x, method):
    config, seen = MapConfig(method=method, iterations=300, seed=7), []
    watched = maps.fit_map(x, config, report=lambda i, n: seen.append((i, n)))
    assert len(seen) >= 2 and all(0 <= i <= n for i, n in seen) and seen == sorted(seen) and seen[-1][0] > 0
    np.testing.assert_array_equal(watched, maps.fit_map(x, config))  # watching changes nothing

    class Enough(Exception): ...

    def stop(i, n):
        raise Enough

    with pytest.raises(Enough):
        maps.fit_map(x, config, report=stop)


def test_the_lesion_heads_scores_are_offered_first(world):
    store = world.store
    case = store.one("SELECT id FROM cases WHERE study = ?", [world.study])["id"]
    other = runs.create_run(store, world.study, "pretrain", "pmsacl", {"size": 32})
    made = {}
    for name, method, parent in (("old", "lesion-head", world.run), ("elsewhere", "lesion-head", other),
                                 ("head", "lesion-head", world.run), ("igd", "igd", world.run)):  # fmt: skip
        made[name] = runs.create_run(store, world.study, "fit", method, {}, parent=parent)
        # Made within a millisecond of each other, as no one makes them.
        store.execute("UPDATE runs SET created = ? WHERE id = ?", [f"2026-01-0{len(made)}", made[name]])
        store.execute(
            "INSERT INTO readings (run, case_id, score, created) VALUES (?, ?, 1, ?)", [made[name], case, now()]
        )
    offered = explore.fits(store, SimpleNamespace(about={"study": world.study, "run": world.run}))
    assert [r["id"] for r in offered] == [made[n] for n in ("head", "old", "igd", "elsewhere")]
    for run in (*made.values(), other):
        store.execute("DELETE FROM runs WHERE id = ?", [run])


@pytest.mark.slow
@pytest.mark.parametrize(("format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_a_figure_is_the_same_each_time(made, format, start):
    one = figure.draw(made, format)
    assert one.startswith(start) and one == figure.draw(made, format)


def test_a_figure_shows_the_classes_epochs_and_numbers_asked_for(made):
    text = figure.draw(made, "svg", epochs=[2], groups=["Normal, test", "Abnormal, test"]).decode()
    assert "epoch 2" in text and "silhouette" in text and "Abnormal, test" in text
    assert "untrained" not in text and "pasted" not in text
    assert "untrained encoder" in figure.draw(made, "svg").decode()
    for wrong in ({"epochs": [1]}, {"groups": ["Cats"]}, {"format": "gif"}):
        with pytest.raises(ValueError, match="it has|must be"):
            figure.draw(made, **{"format": "svg", **wrong})


def test_the_table_holds_every_point_of_every_epoch(world, made):
    rows = list(
        csv.DictReader(
            io.StringIO(explore.write(world.store, made, "csv", Names(world.store, world.study, keep=True)).decode())
        )
    )
    assert len(rows) == 2 * len(made.points)
    last = rows[-1]
    assert float(last["x"]) == pytest.approx(float(made.coords[1, -1, 0]))
    assert int(last["case_id"]) == made.points.case_id[-1] and last["epoch"] == "2"
    again = parquet.read_table(
        io.BytesIO(explore.write(world.store, made, "parquet", Names(world.store, world.study, keep=True)))
    ).to_pydict()
    assert again["y"] == pytest.approx([float(r["y"]) for r in rows])
    assert again["case"] == [r["case"] for r in rows]


def test_tags_go_to_cases_and_come_off_again(world, made):
    points = [0, 1, len(made.points) - 1]  # the last is a MedMix version
    assert library.tag(world.store, made, points, " odd  frame ", "ada") == {
        "tag": "odd frame",
        "cases": 2,
        "left_out": 1,
    }
    assert library.tag(world.store, made, points, "odd frame", "ada")["cases"] == 0
    found = {c["name"]: c for c in explore.columns(world.store, made)}["tag"]
    assert [found["names"][c] for c in found["codes"]].count("odd frame") == 2
    assert library.tag(world.store, made, points, "odd frame", "ada", remove=True)["cases"] == 2
    for wrong in ("", "a,b", "x" * 61):
        with pytest.raises(ValueError, match="A tag has"):
            library.tag(world.store, made, points, wrong, "ada")


def test_only_test_cases_go_to_the_worklist(world, made):
    everything = list(range(len(made.points)))
    done = library.to_worklist(world.store, made, everything, "ada")
    assert done["cases"] == 16
    assert world.store.one("SELECT count(*) AS n FROM assignments WHERE reader = 'ada'")["n"] == 16
    with pytest.raises(ValueError, match="select test cases"):
        library.to_worklist(world.store, made, [len(made.points) - 1], "ada")


def test_views_are_kept_by_name(world, made):
    def front() -> list[dict]:
        return [v for v in library.list_views(world.store, world.study) if v["name"] == "front"]

    first = library.save_view(world.store, world.study, "front", "ada", {"a": 1})
    library.save_view(world.store, world.study, "front", "ada", {"a": 2})
    assert [v["state"] for v in front()] == [{"a": 2}]
    with pytest.raises(NotFound):
        library.delete_view(world.store, first + 1000)
    library.delete_view(world.store, front()[0]["id"])
    assert front() == []


def drifting(n: int = 240, d: int = 32, epochs: int = 3):
    """Features of `epochs` epochs in six clusters; 30 % of the points wander, the others stay: (list, bool (N,))."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(6, d)) * 1.2
    x = means[rng.integers(0, 6, n)] + rng.normal(size=(n, d))
    moves = rng.random(n) < 0.3
    series = [x]
    for _ in range(epochs - 1):
        x = x.copy()
        x[moves] += rng.normal(size=(moves.sum(), d)) * 0.6
        series.append(x)
    return series, moves


def series_of(series, config: MapConfig) -> np.ndarray:
    """The aligned maps of a series: float32 (E, N, 2)."""
    return np.stack([coords for _, coords in maps.fit_series(series, config)])


def unaligned(series, method: str) -> np.ndarray:
    """Fits that know nothing of each other, each with a seed of its own."""
    return np.stack([maps.fit_map(x, MapConfig(method=method, seed=e)) for e, x in enumerate(series)])


def displacement(several: np.ndarray, which: np.ndarray) -> float:
    """Mean distance that the points `which` (N,) go from one map to the next of (E, N, 2)."""
    return float(np.linalg.norm(np.diff(several.astype(np.float64), axis=0), axis=2)[:, which].mean())


@pytest.mark.long
@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_unchanged_points_move_at_most_a_quarter_of_unaligned_fits(method):
    series, moves = drifting()
    aligned = displacement(series_of(series, MapConfig(method=method)), ~moves)
    free = displacement(unaligned(series, method), ~moves)
    print(f"{method}: {aligned:.3f} aligned, {free:.3f} unaligned, {aligned / free:.2f} of it")  # shown by pytest -rP
    assert aligned <= free / 4, f"{aligned:.3f} against {free:.3f}"


@pytest.mark.long
def test_aligned_maps_are_as_faithful_as_free_ones():
    from core.engine.metrics.clusters import map_trustworthiness

    series, _ = drifting()
    aligned = series_of(series, MapConfig(method="tsne"))
    free = unaligned(series, "tsne")
    for e in range(len(series)):
        assert map_trustworthiness(series[e], aligned[e]) > map_trustworthiness(series[e], free[e]) - 0.03


def test_procrustes_undoes_a_turn_and_a_mirror_and_keeps_every_distance():
    rng = np.random.default_rng(1)
    onto = rng.normal(size=(50, 2)).astype(np.float32)
    turn = np.array([[np.cos(2.0), -np.sin(2.0)], [np.sin(2.0), np.cos(2.0)]])
    moved = (onto * [1, -1]) @ turn + 3
    np.testing.assert_allclose(maps.procrustes(moved, onto), onto, atol=1e-5)
    other = rng.normal(size=(50, 2))
    back = maps.procrustes(other, onto)
    np.testing.assert_allclose(
        np.linalg.norm(back[0] - back[1:], axis=1), np.linalg.norm(other[0] - other[1:], axis=1), rtol=1e-5
    )


@pytest.mark.slow
def test_without_align_each_epoch_is_a_fit_of_its_own():
    series, _ = drifting(60)
    config = MapConfig(method="tsne", align=False)
    found = series_of(series, config)
    np.testing.assert_array_equal(found[1], maps.fit_map(series[1], config))
