from __future__ import annotations

import errno
import hashlib
import io
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from core.engine.files import MAKING
from core.studio.db import seals
from core.studio.db.store import NotFound
from core.studio.ingest import cache, reader, studies
from core.studio.ingest.decode import read_image
from core.studio.ingest.masks import add_mask, decode_mask, encode_mask, get_mask, reference_masks
from core.studio.ingest.originals import Replaced, check, image_of
from core.studio.ingest.resize import mask_at
from core.studio.ingest.studies import load_arrays
from core.studio.runs import records as runs
from tests.conftest import picture, plain_folder, write
from tests.studio.ingest.dicoms import write_dicom
from tests.studio.ingest.test_decode import huge_png, jpeg


def digests(folder: Path) -> dict:
    return {p: hashlib.sha256(p.read_bytes()).digest() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_folder_of_good_and_bad_files(store, tmp_path):
    folder = plain_folder(tmp_path / "mixed", 20, 3, 3)
    train, test = folder / "train/normal", folder / "test/abnormal"
    (train / "cut.jpg").write_bytes(jpeg()[:900])
    (train / "text.png").write_text("hello")
    (train / "noise.png").write_bytes(bytes(range(256)) * 4)
    (train / "zero.png").write_bytes(b"")
    (train / "huge.png").write_bytes(huge_png())
    write_dicom(train / "empty.dcm", None)
    Image.fromarray(picture(70)[0]).convert("CMYK").save(train / "cmyk.jpg")
    cv2.imwrite(str(train / "deep.tiff"), picture(71)[0][..., 0].astype(np.uint16) * 257)
    write(train / "plain.png", picture(72)[0]).rename(train / "new\nline.png")
    write_dicom(train / "good.dcm", picture(73)[0][..., 0].astype(np.uint16) * 16)
    write(test / "odd.png", picture(74, blob=True)[0])
    write(folder / "test/mask/odd.png", np.full((7, 9), 255, np.uint8))
    before = digests(folder)

    report = studies.import_study(store, "mixed", folder)

    assert report.accepted == 20 + 3 + 3 + 5
    reasons = {Path(r["path"]).name: r["reason"] for r in report.rejected}
    assert set(reasons) == {"cut.jpg", "text.png", "noise.png", "zero.png", "huge.png", "empty.dcm", "odd.png"}
    assert "cut short" in reasons["cut.jpg"] and "text" in reasons["text.png"] and "0 bytes" in reasons["zero.png"]
    assert reasons["noise.png"].startswith("not an image")
    assert "60000" in reasons["huge.png"] or "too large" in reasons["huge.png"]
    assert "without pixels" in reasons["empty.dcm"]
    assert "9 x 7" in reasons["odd.png"] and "64 x 48" in reasons["odd.png"]
    assert str(folder / "test/mask/odd.png") in [row["path"] for row in report.rejected]
    names = [r["name"] for r in store.query("SELECT name FROM cases")]
    assert {"cmyk.jpg", "deep.tiff", "new line.png", "good.dcm", "odd.png"} <= set(names)
    assert report.masks == 3
    assert digests(folder) == before


def test_a_file_that_breaks_its_decoder_is_left_out(store, tiny_folder, monkeypatch):
    monkeypatch.setattr(reader, "read_image", lambda p, f=0: 1 / 0 if p.name == "n003.png" else read_image(p, f))
    report = studies.import_study(store, "tiny", tiny_folder)
    assert [Path(r["path"]).name for r in report.rejected] == ["n003.png"]
    assert report.accepted == 35


@pytest.mark.parametrize("count, held", [(8, 2), (24, 6), (60, 20), (100, 25)])
def test_held_out_normals_are_a_steady_quarter_of_at_least_twenty(store, tmp_path, count, held):
    folder = plain_folder(tmp_path / "a", count, 1, 1)
    assert studies.import_study(store, "a", folder).counts["holdout normal"] == held
    studies.import_study(store, "b", folder)
    chosen = [
        {r["name"] for r in store.query("SELECT name FROM cases WHERE study = ? AND split = 'holdout'", [s])}
        for s in "ab"
    ]
    assert chosen[0] == chosen[1]


def test_duplicates_between_train_and_test_are_named(store, tmp_path):
    folder = plain_folder(tmp_path / "d", 12, 4, 0)
    (folder / "test/normal/same.png").write_bytes((folder / "train/normal/n004.png").read_bytes())
    detailed = np.random.default_rng(7).integers(0, 256, (24, 32, 3)).astype(np.uint8)
    write(folder / "train/normal/n007.png", cv2.resize(detailed, (320, 240), interpolation=cv2.INTER_CUBIC))
    image = Image.open(folder / "train/normal/n007.png")
    image.resize((230, 172)).save(folder / "test/normal/near.jpg", quality=70)
    found = studies.import_study(store, "d", folder).duplicates
    assert {(d["kind"], d["train"], d["test"]) for d in found} == {
        ("exact", "n004.png", "same.png"),
        ("near", "n007.png", "near.jpg"),
    }


@pytest.mark.long
def test_real_sets_have_no_duplicates_and_all_masks(store, real):
    report = studies.import_study(store, "hyperkvasir", real("hyperkvasir"))
    assert (report.accepted, report.masks, report.rejected, report.duplicates) == (761, 250, [], [])
    assert report.counts == {"holdout normal": 80, "test abnormal": 250, "test normal": 190, "train normal": 241}
    assert studies.import_study(store, "idrid", real("idrid")).duplicates == []
    assert studies.import_study(store, "cxr", real("cxr")).duplicates == []


def test_copying_makes_the_study_independent_of_its_folder(store, tiny_folder):
    import shutil

    studies.import_study(store, "tiny", tiny_folder, copy=True)
    shutil.rmtree(tiny_folder)
    assert len(studies.load_arrays(store, "tiny", 32)) == 36


def test_a_reference_that_is_gone_is_said(store, tiny_study, tiny_folder):
    (tiny_folder / "train/normal/n001.png").unlink()
    with pytest.raises(ValueError, match="n001.png.*can no longer be read"):
        studies.load_arrays(store, tiny_study, 32)


def test_names(store, tiny_study, tiny_folder):
    with pytest.raises(ValueError, match="already a study 'tiny'"):
        studies.import_study(store, "Tiny", tiny_folder)
    with pytest.raises(ValueError, match="needs a letter"):
        studies.import_study(store, "///", tiny_folder)
    with pytest.raises(NotFound, match="the studies are: tiny"):
        studies.show_study(store, "other")
    assert studies.slug("Köln: Côlon 2") == "koln-colon-2"


def test_nothing_readable_is_a_mistake_and_leaves_no_study(store, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x/a.png").write_text("no")
    with pytest.raises(ValueError, match="none of the 1 files"):
        studies.import_study(store, "x", tmp_path / "x")
    assert studies.list_studies(store) == []


def test_arrays(store, tiny_study):
    arrays = studies.load_arrays(store, tiny_study, 32)
    assert arrays.images.shape == (36, 32, 32, 3) and arrays.images.dtype == np.uint8
    assert arrays.roi.shape == arrays.masks.shape == (36, 32, 32)
    assert set(np.unique(arrays.roi)) <= {0, 1} and arrays.roi.mean() > 0.5
    assert arrays.has_mask.sum() == 6 == len(arrays.index("test", label="abnormal"))
    assert arrays.masks[~arrays.has_mask].sum() == 0
    assert all(arrays.masks[i].any() for i in np.flatnonzero(arrays.has_mask))
    for part in ("train", "holdout", "test"):
        index = arrays.index(part)
        assert (np.diff(index) == 1).all(), "a split is one slice of the file"
    row = store.one("SELECT path FROM cases WHERE id = ?", [int(arrays.case_ids[3])])
    expected = cv2.resize(read_image(row["path"]), (32, 32), interpolation=cv2.INTER_AREA)
    assert (arrays.images[3] == expected).all()


def test_arrays_are_built_once(store, tiny_study, monkeypatch):
    first = studies.load_arrays(store, tiny_study, 32)
    monkeypatch.setattr("core.studio.ingest.cache.image_of", lambda *a: pytest.fail("decoded again"))
    again = studies.load_arrays(store, tiny_study, 32)
    assert (first.images == again.images).all() and not again.images.flags.writeable


def test_a_reader_s_mask_does_not_replace_the_imported_one_in_the_arrays(store, tiny_study):
    arrays = studies.load_arrays(store, tiny_study, 32)
    i = int(arrays.index("test", label="abnormal")[0])
    case = int(arrays.case_ids[i])
    mask = np.zeros((48, 64), np.uint8)
    mask[:24] = 1
    assert add_mask(store, case, mask, "hand", reader="ann") == 2
    assert add_mask(store, case, 1 - mask, "run", run="x", threshold=0.5) == 3
    changed = studies.load_arrays(store, tiny_study, 32)
    assert (changed.masks[i] == arrays.masks[i]).all()
    assert store.one("SELECT count(*) AS n FROM lesion_masks WHERE case_id = ?", [case])["n"] == 3
    assert not (get_mask(store, reference_masks(store, tiny_study)[case]) == mask).all()


def test_masks_are_lossless():
    mask = (np.random.default_rng(0).random((37, 53)) > 0.5).astype(np.uint8)
    assert (decode_mask(encode_mask(mask)) == mask).all()
    assert Image.open(io.BytesIO(encode_mask(mask))).mode == "1"


def test_a_tiny_lesion_does_not_vanish_at_training_size():
    mask = np.zeros((512, 512), np.uint8)
    mask[100, 200] = 1
    small = mask_at(mask, 64)
    assert small.sum() == 1 and small[12, 25] == 1


def test_adding_cases(store, tiny_study, tmp_path):
    studies.load_arrays(store, tiny_study, 32)
    new = write(tmp_path / "late.png", picture(99)[0])
    report = studies.add_cases(store, tiny_study, [new, tmp_path / "nothing.png"])
    assert (report.accepted, len(report.rejected)) == (1, 1)
    assert studies.add_cases(store, tiny_study, [new]).accepted == 0
    arrays = studies.load_arrays(store, tiny_study, 32)
    assert len(arrays) == 37 and (arrays.split[-1], arrays.label[-1]) == ("test", "unknown")


def test_a_deleted_study_leaves_nothing(store, tiny_study):
    run = runs.create_run(store, tiny_study, "pretrain", "untrained", {})
    runs.create_run(store, tiny_study, "fit", "padim", {}, run)
    studies.load_arrays(store, tiny_study, 32)
    for name in ("blind", "kind", "labels"):
        store.set_setting(f"{name}:{tiny_study}", True)
    studies.delete_study(store, tiny_study)
    assert studies.list_studies(store) == [] and runs.list_runs(store) == []
    assert store.query("SELECT key FROM settings WHERE key LIKE ?", [f"%:{tiny_study}"]) == []
    assert not (store.home.runs / run).exists() and not (store.home.cache / tiny_study).exists()


def test_a_study_with_a_finding_or_a_drawn_mask_is_kept(store, tiny_study):
    case = store.one("SELECT id FROM cases")["id"]
    said = {"case_id": case, "reader": "ann", "created": "2026-01-01"}
    store.db["lesion_masks"].insert({**said, "version": 99, "source": "hand", "png": b"", "note": ""})
    with pytest.raises(ValueError, match="contains 1 drawn masks and cannot be deleted"):
        studies.delete_study(store, tiny_study)
    store.db["findings"].insert({**said, "label": "polyp"})
    with pytest.raises(ValueError, match="contains 1 findings and 1 drawn masks and cannot be deleted"):
        studies.delete_study(store, tiny_study)
    assert len(studies.list_studies(store)) == 1


def test_a_study_with_reviews_is_not_deleted(store, tiny_study):
    case = store.one("SELECT id FROM cases")["id"]
    store.execute(
        "INSERT INTO reviews (case_id, reader, decision, created) VALUES (?, 'ann', 'normal', '2026-01-01')", [case]
    )
    with pytest.raises(ValueError, match="1 reviews"):
        studies.delete_study(store, tiny_study)
    assert len(studies.list_studies(store)) == 1


def prepared(store, name: str):
    return next(store.home.cache.glob(f"*/32-*/{name}"))


def content(store, study: str) -> list[bytes]:
    arrays = load_arrays(store, study, 32)
    return [np.array(a).tobytes() for a in (arrays.images, arrays.roi, arrays.masks)]


@pytest.mark.parametrize("name", ["images.npy", "roi.npy", "masks-*.npy"])
@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "unsealed"])
def test_damaged_arrays_are_made_again(store, tiny_study, name, damage):
    whole = content(store, tiny_study)
    file = prepared(store, name)
    if damage == "changed":
        data = bytearray(file.read_bytes())
        data[-400:] = bytes(b ^ 255 for b in data[-400:])
        file.write_bytes(data)
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    elif damage == "gone":
        file.unlink()
    else:
        seals.seal_of(file).unlink()
    assert content(store, tiny_study) == whole
    assert cache.is_sound(prepared(store, "images.npy").parent, full=True)
    assert not list(store.home.cache.rglob(f"{MAKING}*"))


def test_a_replaced_image_is_named(store, tiny_study, tiny_folder):
    case = store.one("SELECT * FROM cases WHERE study = ? LIMIT 1", [tiny_study])
    assert image_of(case).shape == (48, 64, 3)
    write(tiny_folder / "train/normal" / case["name"], picture(999)[0])
    with pytest.raises(Replaced, match="has changed since"):
        image_of(case)
    with pytest.raises(ValueError, match="the file has changed since the import"):
        load_arrays(store, tiny_study, 32)
    check(case["path"], None)  # a case without a hash is not checked


COPY = shutil.copy2


@pytest.fixture
def fills_up(monkeypatch):
    """fills_up(after): the disk is full in the middle of the copy that follows so many."""

    def after(count: int):
        done = []

        def copy2(source, target):
            if len(done) == count:
                target.write_bytes(b"half")
                raise OSError(errno.ENOSPC, "No space left on device", str(target))
            done.append(COPY(source, target))

        monkeypatch.setattr(shutil, "copy2", copy2)

    return after


def files(store):
    return sorted(p for p in store.home.files.rglob("*"))


@pytest.mark.parametrize("count", [0, 7])
def test_an_import_leaves_nothing(store, tiny_folder, fills_up, count):
    fills_up(count)
    with pytest.raises(OSError, match="No space left"):
        studies.import_study(store, "tiny", tiny_folder, copy=True)
    assert files(store) == [] and store.query("SELECT id FROM studies") == []
    fills_up(1000)
    assert studies.import_study(store, "tiny", tiny_folder, copy=True).accepted == 36


def test_rows_that_cannot_be_written_take_their_copies_with_them(store, tiny_folder, monkeypatch):
    monkeypatch.setattr(studies, "_insert", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        studies.import_study(store, "tiny", tiny_folder, copy=True)
    assert files(store) == []


def test_what_is_added_goes_alone(store, tiny_folder, fills_up, tmp_path):
    studies.import_study(store, "tiny", tiny_folder, copy=True)
    before, cases = files(store), store.query("SELECT * FROM cases")
    new = [write(tmp_path / "more" / f"{i}.png", picture(500 + i)[0]) for i in range(4)]
    fills_up(2)
    with pytest.raises(OSError, match="No space left"):
        studies.add_cases(store, "tiny", new, copy=True)
    assert files(store) == before and store.query("SELECT * FROM cases") == cases
