"""Masks as PNG and COCO are read back by Pillow and pycocotools."""

import json

import cv2
import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as rle
from pycocotools.coco import COCO

from core.studio.db import audit
from core.studio.ingest import burned_in, studies
from core.studio.review import decisions
from core.studio.review.exports.pictures import export_coco, export_png
from tests.studio.ingest.dicoms import write_dicom
from tests.studio.review.conftest import asks, save_mask


@pytest.mark.slow
@pytest.mark.parametrize("shape, block", [((288, 384), 8), ((1024, 1024), 16), ((2848, 4288), 32)])
def test_a_mask_is_the_same_in_png_and_coco(bare, tmp_path, shape, block):
    folder = tmp_path / "flat"
    folder.mkdir()
    Image.fromarray(np.full((*shape, 3), 90, np.uint8)).save(folder / "a.png", compress_level=1)
    study = studies.import_study(bare, "flat", folder).study
    bare.execute("UPDATE cases SET split = 'test'")
    case = bare.one("SELECT id FROM cases")["id"]
    rng = np.random.default_rng(0)
    blocks = rng.random((shape[0] // block, shape[1] // block)) > 0.7
    mask = np.kron(blocks, np.ones((block, block), bool)).astype(np.uint8)
    mask[0, 0] = mask[-1, -1] = mask[3, 5] = 1
    save_mask(bare, case, mask, "ann")
    export_png(bare, study, tmp_path / "png", "root")
    written = np.asarray(Image.open(next((tmp_path / "png").glob("*.png"))))
    assert written.dtype == bool and np.array_equal(written, mask.astype(bool))
    export_coco(bare, study, tmp_path / "coco.json", "root")
    coco = COCO(str(tmp_path / "coco.json"))
    annotations = coco.loadAnns(coco.getAnnIds())
    # The union is the mask; as the areas add up to it, no pixel is in two of them.
    assert np.array_equal(rle.decode(rle.merge([a["segmentation"] for a in annotations])), mask)
    assert len(annotations) == cv2.connectedComponents(mask)[0] - 1 > 50
    assert sum(a["area"] for a in annotations) == mask.sum() and not any(a["iscrowd"] for a in annotations)
    whole = max(annotations, key=lambda a: a["area"])
    x, y, w, h = (int(v) for v in whole["bbox"])
    alone = coco.annToMask(whole)
    assert alone.sum() == whole["area"] == alone[y : y + h, x : x + w].sum()


def test_objects_bear_the_label_of_their_finding(room, tmp_path):
    store, _ = room
    one, two = [c["id"] for c in store.query("SELECT id FROM cases WHERE label = 'normal' AND split = 'test'")][:2]
    mask = np.zeros((60, 72), np.uint8)
    mask[5:10, 5:10] = mask[30:50, 71] = mask[40, 20:60] = 1  # one of them ends in the image's last column
    for case, label in ((one, "serrated"), (two, "")):
        saved = save_mask(store, case, mask, "ann")
        if label:
            decisions.add_finding(asks(store, case_id=case), label, mask_version=saved["version"])
    save_mask(store, two, np.zeros((60, 72), np.uint8), "ann")  # an empty mask has no objects
    export_coco(store, "room", tmp_path / "coco.json", "root")
    coco = COCO(str(tmp_path / "coco.json"))
    found = coco.loadAnns(coco.getAnnIds(imgIds=[one]))
    assert sorted(a["area"] for a in found) == [20, 25, 40] and len({a["id"] for a in found}) == 3
    assert {coco.cats[a["category_id"]]["name"] for a in found} == {"serrated"}
    assert np.array_equal(sum(coco.annToMask(a) for a in found), mask)
    assert not coco.getAnnIds(imgIds=[two])
    other = coco.loadAnns(coco.getAnnIds(catIds=coco.getCatIds(catNms=["lesion"])))
    assert len(other) == 6  # the imported ones, which nobody has named


def test_burned_in_text_is_warned_of(bare, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    plain = np.full((300, 300, 3), 90, np.uint8)
    written = cv2.putText(plain.copy(), "DOE JANE 12/03/1964", (20, 40), 0, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    for name, image in (("plain.png", plain), ("written.png", written)):
        Image.fromarray(image).save(folder / name)
    write_dicom(folder / "says.dcm", np.full((64, 64), 500, np.uint16), BurnedInAnnotation="YES")
    write_dicom(folder / "silent.dcm", np.full((64, 64), 400, np.uint16))
    report = studies.import_study(bare, "in", folder)
    assert sorted(report.burned_in) == ["says.dcm", "written.png"]
    bare.execute("UPDATE cases SET split = 'test'")
    named = {c["id"]: c["name"] for c in bare.query("SELECT id, name FROM cases")}
    done = export_coco(bare, report.study, tmp_path / "coco.json", "root")
    assert sorted(named[i] for i in done["burned_in"]["cases"]) == ["says.dcm", "written.png"]
    marked = {i["id"] for i in json.loads((tmp_path / "coco.json").read_text())["images"] if i.get("burned_in_text")}
    assert marked == set(done["burned_in"]["cases"]) and audit.trail(bare, limit=1)[0]["after"]["burned_in"] == 2
    assert burned_in.warning(done["burned_in"]).startswith("2 cases may carry burned-in text")
    assert burned_in.warning({"cases": []}) is None


def test_coco_names_nobody(room, tmp_path):
    store, _ = room
    export_coco(store, "room", tmp_path / "coco.json", "root")
    body = json.loads((tmp_path / "coco.json").read_text())
    assert len(body["images"]) == 12 and len(body["annotations"]) == 6
    names = {c["name"].rsplit(".", 1)[0] for c in store.query("SELECT name FROM cases")}
    assert not {i["file_name"].rsplit(".", 1)[0] for i in body["images"]} & names
