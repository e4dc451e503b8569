"""Models leave as a folder that runs alone, come back checked, and their scores come back without the images."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from app.commands import main
from core.engine.detectors.base import FitContext
from core.engine.detectors.lesion_head.lesion_head import unrolled_component
from core.engine.exported.graphs import (
    CLOSE,
    CannotExport,
    Graph,
    exportable,
    full_precision,
    furthest,
    scores_of,
    shrunk,
    write_onnx,
)
from core.engine.registry import DETECTORS
from core.engine.rows import resized
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.ingest.studies import import_study
from core.studio.runs import exported, screen, screened
from core.studio.runs import records as runs
from core.studio.runs.readings import read_maps, read_scores
from tests.conftest import ARCH, picture, plain_folder, scored_padim, wait

TEST = "SELECT id, name, path FROM cases WHERE study = ? AND split = 'test' ORDER BY path"
SHORT = {"steps": 30, "batch": 4}  # after fewer a head says the same of every image, and its scale is rounding


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """A home with a scored fit, and the folder that it left as: (store, images, run, model)."""
    tmp = tmp_path_factory.mktemp("left")
    store = opening.open(Home.at(tmp / "home"))
    study = import_study(store, "tiny", plain_folder(tmp / "images")).study
    _, fit = scored_padim(store, study)
    exported.export_run(store, fit, tmp / "model")
    yield store, tmp / "images", fit, tmp / "model"
    store.close()


def own_scores(store, fit):
    cases = store.query(TEST, [runs.get_run(store, fit)["study"]])
    ids = np.array([case["id"] for case in cases])
    return [case["path"] for case in cases], read_scores(store, fit, ids, True), read_maps(store, fit, ids)


@pytest.mark.slow
def test_the_folder_scores_alone_what_the_studio_scores(left, tmp_path):
    """In a process of its own, from the folder alone: no studio and no torch can be imported there."""
    store, images, fit, model = left
    blocked = tmp_path / "blocked"
    for name in ("torch", "core", "app", "gradio", "sqlite_utils"):
        (blocked / name).mkdir(parents=True)
        (blocked / name / "__init__.py").write_text("raise ImportError('not here')")
    copy = shutil.copytree(model, tmp_path / "elsewhere")
    line = [sys.executable, str(copy / "screen.py"), str(images / "test"), "--out", str(tmp_path / "out")]
    done = subprocess.run(line, env={**os.environ, "PYTHONPATH": str(blocked)}, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out/scores.csv").open() as lines:
        rows = {row["file"]: row for row in csv.DictReader(lines)}
    paths, scores, maps = own_scores(store, fit)
    given = np.array([float(rows[path]["score_roi"]) for path in paths])
    assert furthest([given], [scores]) < CLOSE
    heat = cv2.imread(str(tmp_path / "out/maps/abnormal/a000.png.png"), cv2.IMREAD_UNCHANGED)
    assert heat.shape == (48, 64) and heat.max() > heat.min()
    assert sum(int(row["flagged_roi"]) for row in rows.values()) > 0
    assert all((float(r["score_roi"]) > float(r["threshold_roi"])) == (r["flagged_roi"] == "1") for r in rows.values())


@pytest.mark.slow
def test_the_card_names_the_network_that_was_built_and_not_the_one_that_it_stood_in_for(left, tmp_path):
    store, _, fit, model = left
    parent = runs.get_run(store, fit)["parent"]
    built = json.loads((model / "card.json").read_text())["encoder"]["encoder"]["arch"]
    set_arch = "UPDATE runs SET config = json_set(config, '$.encoder.arch', ?) WHERE id = ?"
    store.execute(set_arch, ["resnet18" if built != "resnet18" else "resnet50", parent])
    exported.export_run(store, fit, tmp_path / "again")
    store.execute(set_arch, [built, parent])
    assert json.loads((tmp_path / "again/card.json").read_text())["encoder"]["encoder"]["arch"] == built


@pytest.mark.slow
def test_another_home_takes_it_in_and_its_scores_without_an_image(left, tmp_path):
    store, images, fit, model = left
    other = opening.open(Home.at(tmp_path / "home"))
    import_study(other, "tiny", images)
    made = exported.import_model(other, model, "tiny", "from elsewhere")
    said = screened.screen_here(model, images / "test", tmp_path / "scores")
    assert said == {"images": 18, "failed": 0, "workers": 1}  # masks lie among them
    shutil.rmtree(images / "test")  # nothing below can read them
    assert screened.import_readings(other, made["fit"], tmp_path / "scores") == {"taken": 12, "unknown": 6, "failed": 0}
    paths, scores, maps = own_scores(store, fit)
    _, taken, its_maps = own_scores(other, made["fit"])
    assert furthest([taken], [scores]) < CLOSE and np.abs(its_maps - maps).max() < 1e-3
    column = "SELECT percentile_roi, flagged_roi, json_extract(extra, '$.outline') AS level FROM readings r "
    column += "JOIN cases c ON c.id = r.case_id WHERE run = ? AND split = 'test' ORDER BY path"
    for mine, its in zip(store.query(column, [fit]), other.query(column, [made["fit"]]), strict=True):
        assert mine["flagged_roi"] == its["flagged_roi"] and mine["level"] == pytest.approx(its["level"], abs=1e-4)
    other.close()
    plain_folder(images)


@pytest.mark.slow
def test_what_is_not_right_is_refused_in_a_sentence(left, tmp_path, capsys):
    store, images, fit, model = left
    home = ["--home", str(store.home.path)]
    bad = shutil.copytree(model, tmp_path / "bad")
    (bad / "detector/padim.safetensors").write_bytes(b"another")
    assert main(["import", str(bad), "--study", "tiny", *home]) == 2
    assert "padim.safetensors" in (said := capsys.readouterr().err) and "copy the folder again" in said
    assert main(["screen", str(bad), str(images), "--out", str(tmp_path / "o"), *home]) == 2
    assert "copy the folder again" in capsys.readouterr().err
    before = len(runs.list_runs(store, archived=None))
    other = shutil.copytree(model, tmp_path / "other")
    foreign = _foreign_onnx(other / "model.onnx")
    card = json.loads((other / "card.json").read_text())
    card["digests"]["model.onnx"] = screen.digest_of(foreign)
    (other / "card.json").write_text(json.dumps(card))
    assert main(["screen", str(other), str(images), "--out", str(tmp_path / "o"), *home]) == 2
    assert "inputs x; outputs y" in capsys.readouterr().err
    card["digests"]["detector/../outside"] = "0" * 64
    (other / "card.json").write_text(json.dumps(card))
    assert main(["import", str(other), "--study", "tiny", *home]) == 2
    assert "differs from card.json" in capsys.readouterr().err
    assert main(["export", fit, "--out", str(model), *home]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["import", str(tmp_path), "--study", "tiny", *home]) == 2
    assert "not an exported model" in capsys.readouterr().err
    assert main(["score", fit, "--from", str(images), *home]) == 2
    assert "no Parquet file" in capsys.readouterr().err
    assert len(runs.list_runs(store, archived=None)) == before


def _foreign_onnx(file: Path) -> Path:
    import onnx
    from onnx import TensorProto, helper

    takes, gives = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [takes], [gives])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(made, str(file))
    return file


@pytest.mark.slow
def test_bad_files_have_a_line_and_a_stopped_run_goes_on(left, tmp_path):
    _, images, _, model = left
    source, out = shutil.copytree(images / "test/normal", tmp_path / "in"), tmp_path / "out"
    (source / "empty.png").touch()
    (source / "text.png").write_text("no image")
    (source / "scan.png").write_bytes(bytes(128) + b"DICM")
    first = screen.screen_folder(model, source, out)
    assert (first["images"], first["failed"]) == (9, 3)
    with (out / "scores.csv").open() as lines:
        said = {Path(row["file"]).name: row["error"] for row in csv.DictReader(lines)}
    assert "empty" in said["empty.png"] and "not an image" in said["text.png"] and "DICOM" in said["scan.png"]
    assert screen.screen_folder(model, source, out)["images"] == 0
    shutil.copy(images / "test/abnormal/a000.png", source)
    watched = screen.screen_folder(model, source, out, watch=0.01, rounds=2)  # seen, then seen unchanged
    assert watched["images"] == 1
    assert len((out / "scores.csv").read_text().splitlines()) == 11


def drawn_files(folder: Path, rng: np.random.Generator) -> None:
    """One picture in forms that differ in depth, colour, transparency, turning and container."""
    grey = cv2.GaussianBlur(rng.random((60, 72)), (0, 0), 4)
    grey = (grey - grey.min()) / np.ptp(grey)
    eight, deep = (grey * 255).astype(np.uint8), (grey * 3000).astype(np.uint16)
    colour = np.stack([eight, 255 - eight, eight // 2], 2)
    turned = Image.Exif()
    turned[0x0112] = 6
    for mode in ("L", "LA", "RGB", "RGBA", "P", "1"):
        Image.fromarray(colour).convert(mode).save(folder / f"{mode}.png")
    Image.fromarray(colour).save(folder / "a.jpg", exif=turned)
    Image.fromarray(colour).save(folder / "a.webp")
    Image.fromarray(deep).save(folder / "deep.png")
    Image.fromarray(deep // 4).save(folder / "darker.png")
    Image.fromarray(deep).save(folder / "deep.tif")
    Image.fromarray(eight).save(folder / "pages.tif", save_all=True, append_images=[Image.fromarray(255 - eight)])
    dicom_of(folder / "scan.dcm", deep)
    dicom_of(folder / "window.dcm", deep, WindowCenter=900, WindowWidth=700)
    dicom_of(folder / "1.2.840.113619", deep // 2)


def dicom_of(path: Path, values: np.ndarray, **tags) -> None:
    import pydicom
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.TransferSyntaxUID, meta.MediaStorageSOPClassUID = ExplicitVRLittleEndian, SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid()
    ds = FileDataset(str(path), {}, file_meta=meta, preamble=bytes(128))
    ds.SOPClassUID, ds.SOPInstanceUID, ds.Modality = SecondaryCaptureImageStorage, generate_uid(), "CR"
    ds.Rows, ds.Columns = values.shape
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
    ds.SamplesPerPixel, ds.PhotometricInterpretation, ds.PixelData = 1, "MONOCHROME2", values.astype("<u2").tobytes()
    for name, value in tags.items():
        setattr(ds, name, value)
    pydicom.dcmwrite(path, ds, enforce_file_format=True)


@pytest.mark.long
def test_each_form_is_flagged_outside_as_in_the_studio(tmp_path, store):
    """Grey and colour, 8 and 16 bits, DICOM with and without a window, several frames; a threshold set by hand too."""
    from core.studio.runs import operating

    folder = tmp_path / "images"
    for i in range(4):
        for part in ("train/normal", "test/normal"):
            (inner := folder / part / f"patient{i}").mkdir(parents=True)
            drawn_files(inner, np.random.default_rng(10 * i + len(part)))
    study = import_study(store, "mixed", folder).study
    _, fit = scored_padim(store, study)
    query = (
        "SELECT c.path, c.frame, r.score_roi, r.percentile_roi, r.flagged_roi, r.flagged FROM readings r "
        "JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.split = 'test' ORDER BY c.path, c.frame"
    )
    held = len(runs.get_run(store, fit)["summary"]["calibration"]["roi"]["scores"])
    level = float(np.median([row["score_roi"] for row in store.query(query, [fit])]))
    for threshold in (None, level):
        if threshold is not None:
            operating.choose(store, study, fit, "dragged", threshold, "ann")
        exported.export_run(store, fit, tmp_path / f"model{threshold}")
        studio = {(row["path"], row["frame"]): row for row in store.query(query, [fit])}
        model = screen.Screen(tmp_path / f"model{threshold}")
        outside = model.files(str(folder / "test"))
        assert {(row["file"], row["frame"]) for row in outside} == set(studio) and len(outside) == len(studio) == 64
        for row in outside:
            mine = studio[row["file"], row["frame"]]
            assert abs(row["percentile_roi"] - mine["percentile_roi"]) <= 100 / held + 1e-9, row["file"]
            if abs(mine["score_roi"] - level) > 1e-3:
                assert (row["flagged"], row["flagged_roi"]) == (mine["flagged"], mine["flagged_roi"]), row["file"]
            assert abs(row["score_roi"] - mine["score_roi"]) <= CLOSE * max(1, mine["score_roi"]), row["file"]
    one, absent = model.files([outside[0]["file"], tmp_path / "absent.png"])[:: outside[0]["frames"]]
    assert one["sha256"] == outside[0]["sha256"] and absent["error"] and absent["frames"] == 1
    other = opening.open(Home.at(tmp_path / "other"))
    import_study(other, "mixed", folder)
    made = exported.import_model(other, tmp_path / f"model{level}", "mixed")
    assert operating.in_effect(other, made["fit"])[made["fit"]].threshold == level
    screened.screen_here(tmp_path / f"model{level}", folder / "test", tmp_path / "scores")
    assert screened.import_readings(other, made["fit"], tmp_path / "scores") == {"taken": 64, "unknown": 0, "failed": 0}
    taken = {(row["path"], row["frame"]): row["flagged_roi"] for row in other.query(query, [made["fit"]])}
    assert taken == {key: row["flagged_roi"] for key, row in studio.items()}
    other.close()


@pytest.mark.long
def test_the_shared_folders_are_screened_as_in_the_studio(cases, left, tmp_path, store):
    """16-bit pictures of many largest values; and a file whose name is no UTF-8, with and without heat maps."""
    cases("screening").deep(tmp_path / "deep")
    study = import_study(store, "deep", tmp_path / "deep").study
    _, fit = scored_padim(store, study)
    exported.export_run(store, fit, tmp_path / "model")
    done = screen.screen_folder(tmp_path / "model", tmp_path / "deep/test", tmp_path / "out")
    with (tmp_path / "out/scores.csv").open(encoding="utf-8") as lines:
        outside = {row["file"]: row for row in csv.DictReader(lines)}
    query = "SELECT c.path, r.* FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? AND c.split = 'test'"
    studio = {row["path"]: row for row in store.query(query, [fit])}
    held = len(runs.get_run(store, fit)["summary"]["calibration"]["roi"]["scores"])
    assert set(outside) == set(studio) and done["failed"] == 0
    for path, row in studio.items():
        assert int(outside[path]["flagged_roi"]) == row["flagged_roi"]
        assert abs(float(outside[path]["percentile_roi"]) - row["percentile_roi"]) <= 100 / held + 1e-9
    (tmp_path / "named").mkdir()
    cases("screening").bad_name(tmp_path / "named")
    for maps in (True, False):
        done = screen.screen_folder(left[3], tmp_path / "named", tmp_path / f"bad{maps}", maps=maps)
        assert (done["images"], done["failed"]) == (5, 0)
        assert screen.screen_folder(left[3], tmp_path / "named", tmp_path / f"bad{maps}")["images"] == 0
    assert "bad\\xff.png" in (tmp_path / "badTrue/scores.csv").read_text("utf-8")
    assert screened.screen_here(left[3], tmp_path / "named", tmp_path / "rows")["failed"] == 0
    assert screened.screen_here(left[3], tmp_path / "named", tmp_path / "rows")["images"] == 0


def test_largest_components_are_those_of_opencv():
    import torch

    rng = np.random.default_rng(0)
    masks = [rng.random((40, 40)) < part for part in (0, 0.1, 0.3, 0.4, 0.5, 1)]
    snake = np.zeros((40, 40), bool)
    snake[::2], snake[1::4, -1], snake[3::4, 0] = True, True, True
    masks.append(snake)
    wanted = [cv2.connectedComponentsWithStats(m.astype(np.uint8))[2][1:, 4].max(initial=0) for m in masks]
    assert unrolled_component(torch.from_numpy(np.stack(masks))).tolist() == wanted


@pytest.mark.parametrize("size, side", [(224, 128), (256, 128), (96, 32), (100, 64)])
def test_images_are_shrunk_as_opencv_shrinks_them(size, side):
    import torch

    images = np.random.default_rng(size).integers(0, 256, (2, size, size, 3)).astype(np.uint8)
    assert (shrunk(torch.from_numpy(images), side).numpy() == resized(images, side)[:]).all()


def fitted(name: str, size: int = 64):
    """A detector after two steps of whatever it trains, with a region of interest that leaves parts out."""
    from core.engine.backbones.encoder import EncoderConfig, build_encoder

    images = np.stack([cv2.resize(picture(i, blob=i % 3 == 0)[0], (size, size)) for i in range(20)])
    roi = np.ones(images.shape[:3], np.uint8)
    roi[:, : size // 5], roi[1, :, : size // 2], roi[2] = 0, 0, 0
    kind = DETECTORS.get(name)
    config = getattr(kind, "presets", {}).get("quick") or kind.Config()
    changes = {"head": {**config.head.to_dict(), **SHORT}} if hasattr(config, "head") else {}
    changes |= SHORT if name == "lesion-head" else {}
    changes |= {"epochs": 1, "max_steps": 2, "width": 4, "local_from": 64} if name == "igd" else {}
    changes |= {"side": 32} if name == "blend-head" else {}
    changes |= {"members": 2} if name == "ensemble" else {}
    config = kind.Config.from_dict({**config.to_dict(), **changes})
    encoder = build_encoder(EncoderConfig(arch=ARCH, init="random"))
    return kind.fit(encoder, images, config, FitContext(roi=roi)), images[:5], roi[:5]


ALL = ["blend", "blend-head", "combined", "ensemble", "igd", "lesion-head", "mahalanobis", "nearest", "padim"]


@pytest.mark.longest
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ALL)
def test_each_graph_says_what_its_detector_says(name, tmp_path):
    """By onnxruntime and by OpenVINO, maps and both scores; an empty region of interest among them."""
    import onnxruntime
    import openvino

    detector, images, roi = fitted(name)
    written = write_onnx(detector, images, roi, tmp_path / "model.onnx")
    assert written.difference < CLOSE
    given = onnxruntime.InferenceSession(str(tmp_path / "model.onnx")).run(None, {"image": images[:1], "roi": roi[:1]})
    wanted = scores_of(detector, images, roi)
    assert furthest([given[1], given[2]], [part[:1] for part in wanted]) < CLOSE  # one image at a time, too
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(str(tmp_path / "model.onnx"), "CPU", exact)
    by_openvino = compiled([images, roi])
    assert furthest([by_openvino[1], by_openvino[2]], wanted) < CLOSE


def test_every_detector_has_a_graph_or_says_by_name_that_it_has_none():
    assert set(ALL) <= set(exportable())
    for name in set(DETECTORS.names()) - set(exportable()):
        detector = object.__new__(DETECTORS.get(name))
        with pytest.raises(CannotExport, match=name):
            Graph(detector)


@pytest.mark.slow
def test_the_rules_of_a_lesion_head_are_summed_up_as_it_does():
    import torch

    detector, images, roi = fitted("lesion-head")
    terms = ("top 0.5%", "top 2.0%", "top 5.0%", "area", "largest component", "class", "centres")
    for name in terms:
        detector.rule = detector.rule.replace(name=name, terms=(name,), weights=(1.0,), threshold=-3.0)
        with full_precision(detector), torch.no_grad():
            _, *scores = Graph(detector)(torch.from_numpy(images), torch.from_numpy(roi))
        assert furthest([s.numpy() for s in scores], scores_of(detector, images, roi)) < CLOSE, name


@pytest.mark.longest
@pytest.mark.timeout(600)
def test_ray_goes_on_when_a_worker_is_killed(left, tmp_path):
    """Two workers of a local cluster, one of which is killed while it works: the table is that of one process."""
    import threading

    import pyarrow.parquet as parquet

    _, images, _, model = left
    source = tmp_path / "many"
    for i in range(30):
        shutil.copytree(images / "test", source / f"{i:02d}")
    alone, many = tmp_path / "alone", tmp_path / "many-out"
    screened.screen_here(model, source, alone)
    killed: list[int] = []

    def kill():
        wait(lambda: list(many.glob("part-*.parquet")))
        mine = {int(p) for p in _children(os.getpid())}
        workers = [p for p in mine if b"ray::Map" in (Path(f"/proc/{p}/cmdline").read_bytes() or b"")]
        if workers:
            os.kill(workers[0], signal.SIGKILL)
            killed.append(workers[0])

    thread = threading.Thread(target=kill)
    thread.start()
    said = screened.screen_on_ray(model, source, many, "local", workers=2)
    thread.join()
    assert killed and said["images"] == 540 and said["failed"] == 0

    def table(folder):
        columns = ["file", "score", "score_roi", "map"]
        return sorted(map(str, parquet.read_table(folder, columns=columns).to_pylist()))

    assert table(many) == table(alone)
    assert screened.screen_on_ray(model, source, many, "local")["images"] == 0  # nothing is made twice


def _children(pid: int) -> list[str]:
    """Ids of all processes below one."""
    own = [p for f in Path(f"/proc/{pid}/task").glob("*/children") for p in f.read_text().split()]
    return own + [inner for p in own if Path(f"/proc/{p}").exists() for inner in _children(int(p))]
