"""A study as anomalib's folders: paired as its readers pair, read back by our own import; what leaves is streamed."""

import tracemalloc
import zipfile
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from app.commands import main
from core.studio.ingest import studies
from core.studio.ingest.originals import image_of
from core.studio.review import decisions, masks
from core.studio.review.exports import dicom_reports
from core.studio.review.exports.formats import SUFFIXES, write_form
from core.studio.review.exports.pictures import Masks
from tests.studio.review.conftest import add_readings, asks, decide, save_mask
from tests.studio.review.exports.test_dicom_seg import ct


def paired(folder: Path) -> list[tuple[Path, Path]]:
    """Images beside masks as anomalib pairs them: both in the order of their names. AssertionError where it refuses."""
    images = sorted(f for f in folder.glob("test/*/*.png") if f.parent.name != "good")
    drawn = sorted(folder.glob("ground_truth/*/*.png"))
    assert len(images) == len(drawn) and all(i.stem in m.stem for i, m in zip(images, drawn, strict=True))
    assert not [
        f
        for f in folder.rglob("*.png")
        if f.relative_to(folder).parts[0] not in ("train", "validation", "test", "ground_truth")
    ]
    return list(zip(images, drawn, strict=True))


@pytest.mark.parametrize("keep", [True, False])
def test_out_and_in_again_gives_the_same_cases_and_masks(room, tmp_path, keep):
    store, _ = room
    normal, unknown, other = store.query("SELECT * FROM cases WHERE split = 'test' AND label = 'normal' LIMIT 3")
    mask = np.zeros((60, 72), np.uint8)
    mask[5:12, 8:20] = 1
    for case, label in ((normal, "good"), (unknown, "flat polyp")):
        saved = save_mask(store, case["id"], mask, "ann")
        decisions.add_finding(asks(store, case_id=case["id"]), label, mask_version=saved["version"])
        decide(store, case["id"], "ann", "abnormal")
    store.execute("UPDATE cases SET label = 'unknown' WHERE id IN (?, ?)", [unknown["id"], other["id"]])
    store.execute("UPDATE cases SET label = 'abnormal' WHERE id = ?", [normal["id"]])
    done = write_form(store, "room", "anomalib", tmp_path / "out.zip", "root", keep)
    assert done["left_out"] == {"nobody decided on it": 1}
    with zipfile.ZipFile(tmp_path / "out.zip") as packed:
        packed.extractall(tmp_path / "out")
        names = " ".join(packed.namelist())
    assert (
        (normal["name"].split(".")[0] in names) is keep and "test/good abnormal/" in names and "/flat polyp/" in names
    )
    pairs = paired(tmp_path / "out")
    came = studies.import_study(store, "again", tmp_path / "out")
    assert came.layout == "loco" and not came.rejected and came.accepted == done["files"]
    assert came.masks == sum(done["masks"].values()) == len(pairs)

    def pixels(study: str) -> dict[bytes, tuple[str, str, bytes]]:
        """Image -> which part, label and mask it has; images held out for thresholds train as far as a folder says."""
        drawn = {row["id"]: masks.decode_mask(row["png"]).tobytes() for row in Masks(store, study)}
        return {
            image_of(case).tobytes(): (
                "test" if case["split"] == "test" else "train", case["label"], drawn.get(case["id"], b"")
            )
            for case in store.query("SELECT * FROM cases WHERE study = ? AND label != 'unknown'", [study])
        }  # fmt: skip

    before = pixels("room")
    sick = store.first("SELECT * FROM cases WHERE id = ?", [unknown["id"]])
    before[image_of(sick).tobytes()] = ("test", "abnormal", mask.tobytes())
    assert pixels("again") == before
    tags = "SELECT tags FROM cases WHERE study = 'again' AND label = 'abnormal' AND name LIKE ?"
    assert store.first(tags, [f"{unknown['id']:09d}%"])["tags"] == '["flat polyp"]'


def test_without_a_mask_only_where_nobody_has_one(room, tmp_path):
    store, _ = room
    sick = store.query("SELECT id FROM cases WHERE label = 'abnormal'")
    store.execute("DELETE FROM lesion_masks WHERE case_id = ?", [sick[0]["id"]])
    assert write_form(store, "room", "anomalib", tmp_path / "some", "root")["left_out"] == {
        "abnormal and without a mask": 1
    }
    assert len(paired(tmp_path / "some")) == len(sick) - 1
    store.execute("DELETE FROM lesion_masks")
    done = write_form(store, "room", "anomalib", tmp_path / "none", "root")
    assert (
        done["left_out"] == {}
        and done["masks"] == {}
        and len(list((tmp_path / "none/test/abnormal").iterdir())) == len(sick)
    )
    store.execute("UPDATE cases SET split = 'test'")
    with pytest.raises(ValueError, match="no normal image"):
        write_form(store, "room", "anomalib", tmp_path / "no.zip", "root")
    assert not (tmp_path / "no.zip").exists()


@pytest.mark.slow
def test_the_verb_knows_every_form(room, tmp_path, capsys):
    store, _ = room
    order, home = ["study", "export", "room"], ["--home", str(store.home.path)]
    for form in sorted({*SUFFIXES} - {"dicom-seg", "dicom-labelmap", "dicom-map", "dicom-sr"}):
        assert main([*order, form, "--out", str(tmp_path / f"{form}.{SUFFIXES[form]}"), *home]) == 0, form
    assert main([*order, "anomalib", "--out", str(tmp_path / "folder"), *home]) == 0
    assert len(paired(tmp_path / "folder")) > 1
    assert main([*order, "coco", "--out", str(tmp_path / "coco.json"), *home]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main([*order, "dicom-seg", "--out", str(tmp_path / "seg.zip"), *home]) == 2
    assert "nothing to export" in capsys.readouterr().err and not (tmp_path / "seg.zip").exists()
    assert main([*order, "excel", "--out", str(tmp_path / "x.xls"), *home]) == 2
    assert "one of csv" in capsys.readouterr().err


@pytest.mark.long
def test_maps_and_masks_go_out_one_at_a_time(bare, tmp_path, monkeypatch):
    """A map is unpacked when the one before has been made into its file; of 32 masks of 1 MiB few lie in memory."""
    (folder := tmp_path / "ct").mkdir()
    for i in range(16):
        ds = ct(folder / f"{i}.dcm")
        ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = f"2.25.{i + 1}"
        ds.save_as(folder / f"{i}.dcm", enforce_file_format=True)
    study = studies.import_study(bare, "ct", folder).study
    bare.execute("UPDATE cases SET split = 'test'")
    run, side = add_readings(bare, study, "padim"), 512
    heat = np.random.default_rng(0).integers(0, 65536, (side, side)).astype("<u2").tobytes()
    bare.execute("UPDATE readings SET map = ?, map_h = ?, map_w = ?", [zlib.compress(heat, 0), side, side])
    order: list[str] = []
    for module, name in ((dicom_reports, "unpack_map"), (dicom_reports, "_parametric_map")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, real=real, name=name: (order.append(name), real(*a))[1])
    write_form(bare, study, "dicom-map", tmp_path / "first.zip", "root", run=run)  # what is imported on the way
    order.clear()
    tracemalloc.start()
    write_form(bare, study, "dicom-map", tmp_path / "maps.zip", "root", run=run)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 4 * side * side  # half of the maps as float32
    assert order == ["unpack_map", "_parametric_map"] * 16
    assert len(zipfile.ZipFile(tmp_path / "maps.zip").namelist()) == 16
    noise = np.random.default_rng(1).integers(0, 256, (200, 200)).astype(np.uint8)
    blob = cv2.imencode(".png", noise)[1].tobytes()
    for case in bare.query("SELECT id FROM cases"):
        for version in (1, 2):
            masks.add_mask(bare, case["id"], blob + bytes(2**20) + bytes([version]), "hand", "ann")
    tracemalloc.start()
    newest = [row["png"][-1] for row in Masks(bare, study)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert newest == [2] * 16 and peak < 5 * 2**20
