"""Annotations of other tools: out and in again gives the same pixels; a hostile file gives a sentence and no row."""

import copy
import json
import zipfile

import pytest

from core.studio.db import audit
from core.studio.review import masks
from core.studio.review.exports.annotations import import_annotations
from tests.studio.review.conftest import asks

ODD = [None, True, -1, 10**9, -(10**30), 1e300, float("nan"), float("inf"), "", "../x", "\0", "\ud800", [], [1], {}]
READ = {
    "label-studio": [{
        "data": {"image": "n00.png"},
        "annotations": [{"completed_by": {"email": "ada"}, "created_at": "2024-05-01T10:00:00Z", "result": [{
            "type": "polygonlabels", "original_width": 72, "original_height": 60,
            "value": {"points": [[1, 1], [9, 1], [9, 9]], "polygonlabels": ["polyp"]},
        }]}],
    }],
    "coco": {
        "images": [{"id": 1, "file_name": "n00.png", "width": 72, "height": 60}],
        "categories": [{"id": 2, "name": "polyp"}],
        "annotations": [
            {"image_id": 1, "category_id": 2, "segmentation": [[1, 1, 9, 1, 9, 9]]},
            {"image_id": 1, "category_id": 2, "segmentation": {"counts": [10, 20, 4290], "size": [60, 72]}},
            {"image_id": 1, "category_id": 2, "bbox": [1, 1, 5, 5]},
        ],
    },
}  # fmt: skip


def _changed(document):
    """The document with each of its values in turn replaced by each odd one, or left out."""
    if isinstance(document, (dict, list)):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            for value in [*ODD, *_changed(document[key])]:
                other = copy.copy(document)
                other[key] = value
                yield other
            other = copy.copy(document)
            del other[key]
            yield other


@pytest.mark.long
@pytest.mark.parametrize("format", READ)
def test_odd_values_in_a_file_are_refused_in_a_sentence_or_read(room, tmp_path, format):
    store, _ = room
    file, refused = tmp_path / "odd.json", 0
    for document in [[{"data": {}}], {}, [], *_changed(READ[format])]:
        file.write_text(json.dumps(document))
        before = store.first("SELECT count(*) AS n FROM findings")["n"]
        try:
            assert import_annotations(store, "room", file, format, "root")["findings"]
        except ValueError as error:
            assert type(error).__module__.startswith("core.") and "\n" not in str(error), (document, error)
            assert store.first("SELECT count(*) AS n FROM findings")["n"] == before
            refused += 1
    assert refused > 50


def test_a_lesion_of_label_studio_has_its_author_and_date(room, tmp_path):
    store, _ = room
    case = store.first("SELECT * FROM cases WHERE split = 'test' ORDER BY id")
    value = {"x": 25, "y": 50, "width": 25, "height": 25, "rectanglelabels": ["polyp"]}
    box = {"type": "rectanglelabels", "value": value, "original_width": 72, "original_height": 60}
    kept = {"completed_by": {"email": "ada@example.org"}, "created_at": "2024-05-01T10:00:00Z", "result": [box]}
    task = {"data": {"image": f"/data/upload/1/0a1b2c3d-{case['name']}"}, "annotations": [kept]}
    (tmp_path / "ls.json").write_text(json.dumps([task]))
    assert import_annotations(store, "room", tmp_path / "ls.json", "label-studio", "root")["findings"] == 1
    row = store.first("SELECT * FROM findings WHERE case_id = ?", [case["id"]])
    assert (row["reader"], row["created"]) == ("ada@example.org (Label Studio)", "2024-05-01T10:00:00.000Z")
    assert (row["label"], json.loads(row["box"])) == ("polyp", [18, 30, 36, 45])
    event = store.first("SELECT * FROM events ORDER BY id DESC LIMIT 1")
    assert (event["kind"], event["who"]) == ("annotations", "root") and audit.verify(store)["ok"]
    assert row["mask_version"] is None and masks.versions(asks(store, study="room"), case["id"]) is not None


def zipped(file, entries):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        for name, body in entries.items():
            out.writestr(name, body)


def test_a_hostile_file_gives_a_sentence_and_stores_nothing(room, tmp_path, monkeypatch):
    from core.studio.review.exports import annotations, shapes

    store, _ = room
    case = store.first("SELECT * FROM cases WHERE split = 'test' ORDER BY id")
    image = f'<image name="{case["name"]}" width="72" height="60">'
    polygon = '<polygon label="a" points="1,1;9,1;9,9"/>'
    xml = {
        "entities": f'<!DOCTYPE a [<!ENTITY b "bbbb">]><annotations>{image}{polygon}</image></annotations>',
        "cut": f"<annotations>{image}{polygon}",
        "outside": f'<annotations>{image}<box label="a" xtl="0" ytl="0" xbr="1e9" ybr="3"/></image></annotations>',
        "nan": f'<annotations>{image}<polygon label="a" points="nan,1;2,2"/></image></annotations>',
        "size": f"<annotations>{image.replace('72', '73')}{polygon}</image></annotations>",
        "runs": f'<annotations>{image}<mask label="a" rle="0,99999999999" left="0" top="0" width="9" height="9"/>'
        "</image></annotations>",
        "nobody": '<annotations><image name="../../etc/passwd" width="1" height="1"><box label="a" xtl="0" ytl="0" '
        'xbr="1" ybr="1"/></image></annotations>',
    }
    bad = [(name, "cvat", text) for name, text in xml.items()]
    bad += [("deep", "label-studio", "[" * 100_000), ("list", "coco", "[]"), ("kind", "voc", "{}")]
    runs = {"size": [60, 72], "counts": "~~~~"}
    coco = {"images": [{"id": 1, "file_name": case["name"]}], "annotations": [{"image_id": 1, "segmentation": runs}]}
    bad += [("letters", "coco", json.dumps(coco)), ("nozip", "yolo", "0 1 1 1 1")]
    before = [store.query(f"SELECT * FROM {table}") for table in ("findings", "lesion_masks", "events")]
    for name, format, text in bad:
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=r"\w+ \w+"):
            import_annotations(store, "room", tmp_path / name, format, "root")
    stem = case["name"].rsplit(".", 1)[0]
    zipped(tmp_path / "up.zip", {f"../{stem}.txt": "0 .5 .5 .1 .1"})
    with pytest.raises(ValueError, match="outside itself"):
        import_annotations(store, "room", tmp_path / "up.zip", "yolo", "root")
    monkeypatch.setattr(shapes, "LARGEST", 100_000)
    zipped(tmp_path / "bomb.zip", {f"{stem}.png": b"\0" * 10_000_000})
    with pytest.raises(ValueError, match="unpacks to more"):
        import_annotations(store, "room", tmp_path / "bomb.zip", "png", "root")
    monkeypatch.setattr(annotations, "MOST_POINTS", 50)
    (tmp_path / "huge").write_text(f"<annotations>{image}{polygon * 20}</image></annotations>")
    with pytest.raises(ValueError, match="at most"):
        import_annotations(store, "room", tmp_path / "huge", "cvat", "root")
    assert before == [store.query(f"SELECT * FROM {table}") for table in ("findings", "lesion_masks", "events")]
