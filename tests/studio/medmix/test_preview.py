"""The MedMix tab's picture, its figure and its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from app.commands import main
from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.augment.matching import energy_distance
from core.engine.progress import Stopped
from core.studio.ingest import studies
from core.studio.medmix import presets, probe
from core.studio.medmix import preview as medmix_view
from core.studio.medmix.preview import Samples
from core.studio.medmix.probe import OUT_OF_SUPPORT, words
from tests.conftest import plain_folder, write


@pytest.fixture
def samples(store, tmp_path):
    plain_folder(tmp_path / "images", 24, 2, 10)
    studies.import_study(store, "tiny", tmp_path / "images")
    return Samples(store)


def scene(**changes) -> medmix_view.Scene:
    return medmix_view.Scene.from_dict({"study": "tiny", "size": 64, "samples": 3, **changes})


def peak_of(act) -> int:
    """How many bytes more than before are resident at the worst moment of `act`."""
    Path("/proc/self/clear_refs").write_text("5")

    def kilobytes(name: str) -> int:
        return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(name))

    before = kilobytes("VmRSS")
    act()
    return 1024 * (kilobytes("VmHWM") - before)


@pytest.mark.long
@pytest.mark.parametrize("weak", [False, True])
def test_the_largest_grid_has_a_fixed_peak(samples, weak):
    """1.1 GB as one stack of float32; a class at a time it is the mosaic, its JPEG and one class."""
    largest = scene(config={"k": 7}, samples=12, size=512, weak=weak)
    medmix_view.draw_grid(samples, largest)  # libraries, and the images that are kept
    assert peak_of(lambda: medmix_view.draw_grid(samples, largest).pack()) < 400 * 2**20


def test_whoever_leaves_leaves_no_work_behind(samples, store):
    for work in (
        lambda left: medmix_view.draw_grid(samples, scene(config={"k": 7}), should_stop=left),
        lambda left: probe.probe(store, scene(config={"k": 7}), should_stop=left),
    ):
        asked = iter([False, False, True])
        with pytest.raises(Stopped):
            work(lambda asked=asked: next(asked))
        assert next(asked, None) is None, "asked before each class, and stopped at the first yes"


def test_same_seed_same_draws_another_setting_leaves_the_rest(samples):
    soft = MEDMIX_PRESETS["soft"].to_dict()
    a, b = (medmix_view.draw_grid(samples, scene(config=soft)) for _ in range(2))
    assert np.array_equal(a.images, b.images) and a.outlines == b.outlines
    c = medmix_view.draw_grid(samples, scene(config={**soft, "size": (0.3, 0.5)}))
    assert np.array_equal(a.images[0], c.images[0]) and not np.array_equal(a.images[1], c.images[1])
    assert a.names == c.names
    assert medmix_view.draw_grid(samples, scene(config=soft, seed=5)).names != a.names


def test_dropped_files_take_the_place_of_the_studys_images(samples, tmp_path):
    write(tmp_path / "drop/mine.png", np.full((40, 40, 3), (0, 0, 250), np.uint8))
    assert [s["name"] for s in medmix_view.cases_of(samples, scene(), tmp_path / "drop")] == ["mine.png"] * 3
    assert (medmix_view.draw_grid(samples, scene(), tmp_path / "drop").images[0] == (0, 0, 250)).all()


def test_outlines_hold_what_changed(samples):
    grid = medmix_view.draw_grid(samples, scene(config={"size": (0.2, 0.4)}))
    for n in range(1, 4):
        for m in range(3):
            changed = (grid.images[n, m] != grid.images[0, m]).any(2)
            inside = np.zeros((64, 64), np.uint8)
            for line in grid.outlines[n][m]:
                cv2.fillPoly(inside, [(np.array(line) * 64 - 0.5).round().astype(np.int32)], 1)
            assert changed.any()
            assert (changed & (cv2.dilate(inside, np.ones((5, 5))) == 0)).sum() == 0
    assert grid.outlines[0] == [[], [], []]


def test_sources_lie_within_their_donors(samples):
    grid = medmix_view.draw_grid(samples, scene())
    assert {(s["n"], s["m"]) for s in grid.sources} == {(n, m) for n in (1, 2, 3) for m in range(3)}
    for s in grid.sources:
        x0, y0, x1, y1 = s["box"]
        assert 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1 and s["donor"] != s["m"]


def test_packed_bytes_hold_the_same_pixels_to_the_eye(samples):
    grid = medmix_view.draw_grid(samples, scene())
    packed = grid.pack()
    length = int.from_bytes(packed[:4], "little")
    about = json.loads(packed[4 : 4 + length])
    mosaic = cv2.cvtColor(cv2.imdecode(np.frombuffer(packed[4 + length :], np.uint8), 1), cv2.COLOR_BGR2RGB)
    assert mosaic.shape == (about["rows"] * 64, about["cols"] * 64, 3)
    off = np.abs(mosaic[64:128, :64].astype(int) - grid.images[1, 0])
    assert off.mean() < 2.5 and off.max() <= 24, "levels of 256, in noise"


def test_the_images_proportions_are_known_or_said_to_differ(samples, tmp_path, store):
    case = samples.normals("tiny", 0, 1)[0]
    paths = []
    for width, height in ((60, 40), (90, 60), (40, 40)):
        paths.append(tmp_path / f"{width}.png")
        cv2.imwrite(str(paths[-1]), np.full((height, width, 3), 90, np.uint8))
    cases = [{**case, "path": str(path)} for path in paths]
    assert samples.aspect(cases[:2], 64) == 1.5 and samples.aspect(cases, 64) is None
    assert medmix_view.draw_grid(samples, scene()).aspect == samples.aspect([case], 64)


@pytest.mark.slow
@pytest.mark.parametrize("kind", medmix_view.TYPES)
def test_figures(samples, kind):
    made = medmix_view.figure(medmix_view.draw_grid(samples, scene()), kind)
    assert made.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind])


def test_wrong_scenes_are_sentences(samples):
    with pytest.raises(ValueError, match="size must be one of"):
        scene(size=100)
    with pytest.raises(ValueError, match="no normal training images"):
        medmix_view.draw_grid(samples, scene(study="other"))


@pytest.mark.slow
def test_probe_separates_absurdly_easy_from_default(store, samples):
    easy = {"size": (0.3, 0.35), "p_jitter": 1.0, "jitter": (1.0, 1.0, 1.0, 0.5), "p_noise": 1.0, "noise": (0.4, 0.4)}
    gentle = {"crop": (0.9, 1.0), "p_jitter": 0.0, "p_grey": 0.0, "p_blur": 0.0}
    a = probe.probe(store, scene(config=easy, weak_config=gentle))
    b = probe.probe(store, scene(config={"size": (0.03, 0.05)}, weak_config=gentle))
    assert a["accuracy"] > b["accuracy"] + 0.2
    assert np.sum(a["confusion"]) == 4 * a["images"]
    assert a["near"]["real"] >= 8 and a["study"] == "tiny"


@pytest.mark.slow
def test_what_is_glaring_is_not_called_near_real_lesions(store, samples):
    """Opaque blocks lie beyond the line between real lesions and normal patches, and far from either."""
    blocks = probe.probe(store, scene(config=MEDMIX_PRESETS["easy"].to_dict()))
    plain = probe.probe(store, scene())
    assert blocks["near"]["distance"] > max(OUT_OF_SUPPORT, 3 * plain["near"]["distance"])
    assert any(w["kind"] == "warn" and "Nothing like a lesion" in w["text"] for w in blocks["words"])


def test_energy_distance_is_zero_for_one_source_and_grows_with_the_shift():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((300, 8)), rng.standard_normal((200, 8))
    near, far = energy_distance(a, b), energy_distance(a, b + 2)
    assert abs(near) < 0.05 < 1 < far < energy_distance(a, b + 4)


@pytest.mark.slow
def test_probe_sees_lesions_cut_away(store, samples):
    kept = probe.probe(store, scene(weak_config={"crop": (1.0, 1.0), "ratio": (1.0, 1.0)}))
    lost = probe.probe(store, scene(weak_config={"crop": (0.05, 0.1)}))
    assert kept["survival"] > 0.99 and kept["lost"] == 0
    assert lost["survival"] < 0.3 and lost["lost"] > 0.6
    assert any("lose most of a lesion" in w["text"] for w in lost["words"])


# The verb `probe`: several presets on one study, before any training.


@pytest.mark.slow
def test_presets_side_by_side(store, tiny_study, capsys):
    presets.save_preset(store, "mine", "medmix", {"size": (0.1, 0.2)})
    line = ["probe", tiny_study, "--preset", "quick", "--preset", "easy", "--preset", "mine", "--home"]
    assert main([*line, str(store.home.path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    found = {row["preset"]: row for row in answer["rows"]}
    assert set(found) == {"quick", "easy", "mine"} and answer["study"] == tiny_study
    assert found["easy"]["accuracy"] > found["quick"]["accuracy"] + 0.05
    for row in found.values():
        assert row["chance"] == 0.25 and len(row["confusion"]) == 4 and row["encoder"] == "untrained"
        assert sum(map(sum, row["confusion"])) == 4 * row["images"]


@pytest.mark.parametrize(("line", "words"), [(["--preset", "nobody"], "quick"), (["--weak", "strong"], "gentle")])
def test_mistakes_are_sentences(store, tiny_study, capsys, line, words):
    assert main(["probe", tiny_study, *line, "--home", str(store.home.path)]) == 2
    assert words in capsys.readouterr().err


def test_too_easy_is_said():
    found = {"accuracy": 0.95, "chance": 0.25, "lost": None, "near": None}
    assert "Too easy: even a linear probe" in words(found)[0]["text"]
    absurd = {**found, "accuracy": 0.55, "lesion_accuracy": 0.87}
    assert "Too easy: an untrained encoder" in words({**absurd, "encoder": "untrained"})[0]["text"]
    chance = {**found, "accuracy": 0.26, "lesion_accuracy": 0.5, "near": {"distance": 1, "closeness": 0.1}}
    (said,) = words({**chance, "encoder": "untrained"})
    assert said["text"].startswith("No conclusion: this encoder is untrained"), "of chance nothing is hard"
    assert words({**chance, "encoder": "a run"})[0]["text"].startswith("Hard:")
    assert "can be learnt" in words({**absurd, "encoder": "a run"})[0]["text"], "it was taught to"
