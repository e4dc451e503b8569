"""Files of other programs, each with its quirks: what is understood lands where it was drawn, the rest is named."""

import json
import re
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.studio.db import opening
from core.studio.db.foreign import Refused
from core.studio.ingest import studies
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.originals import image_of
from core.studio.review.exports import shapes
from core.studio.review.exports.annotations import import_annotations, place
from core.studio.review.exports.formats import write_form
from core.studio.review.exports.pictures import Masks
from core.studio.review.exports.tables import Names
from tests.conftest import write
from tests.studio.review.exports.test_annotations import zipped

SQUARE, BOX, TEN = (30, 30, 60, 60), (36, 36, 60, 60), (9.6, 9.6, 19.2, 19.2)
DISC = (33, 33, 64, 64, 793)
# case: {image: (label, box[, pixels of its mask])}, and what is said of the rest; a text alone: refused, and why
RIGHT = {
    "coco_ok": {"case0": ("polyp", *SQUARE)}, "coco_bom": {"case0": ("polyp", *SQUARE)},
    "coco_null_size": {"case0": ("polyp", *SQUARE)}, "coco_labelstudio": {"case0": ("polyp", *SQUARE)},
    "coco_roboflow": {"case0": ("polyp", *SQUARE)}, "coco_str_ids": {"case0": ("polyp", *SQUARE)},
    "coco_crowd": {"case0": ("polyp", 30, 30, 41, 60, 330)},
    "coco_null_seg": {"case0": ("polyp", *SQUARE), "case1": ("polyp", *SQUARE)},
    "coco_one_outside": {"case0": ("polyp", *SQUARE), "case1": ("polyp", 90, 90, 96, 96)},
    "coco_other_size": "48 x 48 pixels", "coco_keypoints": "keypoints have no area",
    "cvat_bom": {"case0": ("polyp", 28, 43, 68, 53)}, "cvat_subdir": {"case0": ("polyp", 28, 43, 68, 53)},
    "cvat_box_rotated": {"case0": ("polyp", 43, 28, 53, 68)},
    "cvat_ellipse_rotated": {"case0": ("polyp", 42, 18, 54, 78)},
    "cvat_mask_edge": {"case0": ("polyp", 90, 40, 96, 60, 120)},
    "cvat_polyline": "a polyline has no area", "cvat_video": "a video track",
    "ls_localfiles": {"case0": ("polyp", *TEN)}, "ls_textarea": {"case0": ("polyp", *TEN)},
    "ls_nolabel": {"case0": ("lesion", *TEN)}, "ls_min": {"case0": ("polyp", *TEN)},
    "ls_rect_rotated": {"case0": ("polyp", 22, 38.4, 56, 72.3)}, "ls_brush": "a brush mark is cut off",
    "ls_rotated_and_plain": {"case0": ("polyp", *TEN)},
    **{f"yolo_{quirk}": {"case0": ("polyp", *BOX)} for quirk in
       ("cvat11", "blank_line", "conf", "float_class", "windows", "labelstudio")},
    "yolo_names_block": {"case0": ("ulcer", *BOX)}, "yolo_obb": {"case0": ("polyp", 28.8, 28.8, 57.6, 57.6)},
    **{f"png_{quirk}": {"case0": ("lesion", *DISC)} for quirk in ("16bit", "alpha", "grey_noise", "suffix")},
    "png_upper": {"case0": ("lesion", *DISC), "case1": ("lesion", *DISC)}, "png_tiff": "masks are imported only as PNG",
}  # fmt: skip
SAID = {
    "coco_one_outside": [], "ls_textarea": ["a textarea has no area (1 shape on /data/upload/1/3f2a9c1b-case0.png)"],
}  # fmt: skip


def taken(store, study: str, first: int = 0) -> list[tuple[str, str, list[float], np.ndarray | None]]:
    """(image, label, box, mask) of each finding numbered above `first`."""
    query = (
        "SELECT f.*, c.name, m.png FROM findings f JOIN cases c ON c.id = f.case_id LEFT JOIN lesion_masks m "
        "ON m.case_id = c.id AND m.version = f.mask_version WHERE c.study = ? AND f.id > ? ORDER BY f.id"
    )
    return [
        (row["name"], row["label"], json.loads(row["box"]), row["png"] and decode_mask(row["png"]))
        for row in store.query(query, [study, first])
    ]


@pytest.fixture(scope="module")
def foreign(cases, tmp_path_factory):
    """(store, folder of the files) of the study that the shared files are drawn on."""
    folder = tmp_path_factory.mktemp("foreign")
    cases("annotations").files(folder)
    store = opening.open(str(folder / "home"))
    studies.import_study(store, "s", folder / "study")
    yield store, folder
    store.close()


def test_each_file_of_another_tool_is_taken_right_or_refused_with_its_reason(foreign, cases):
    store, folder = foreign
    files = {file.stem: file for file in folder.iterdir() if file.is_file()}
    assert set(files) == set(RIGHT)
    for name, right in RIGHT.items():
        last = store.first("SELECT coalesce(max(id), 0) AS id FROM findings")["id"]
        before = store.first("SELECT count(*) AS n FROM lesion_masks")["n"]
        tool = cases("annotations").format_of(files[name])
        if isinstance(right, str):
            with pytest.raises(Refused, match=re.escape(right)):
                import_annotations(store, "s", files[name], tool, "ann")
            assert (
                taken(store, "s", last) == [] and store.first("SELECT count(*) AS n FROM lesion_masks")["n"] == before
            )
            continue
        done = import_annotations(store, "s", files[name], tool, "ann")
        found = {image.split(".")[0]: (label, box, mask) for image, label, box, mask in taken(store, "s", last)}
        assert set(found) == set(right) and done["unknown"] == [], name
        assert done["passed_over"] == SAID.get(name, []), name
        for image, (label, *box) in right.items():
            assert found[image][0] == label, name
            assert np.allclose(found[image][1], box[:4], atol=1.5), (name, found[image])
            assert len(box) == 4 or found[image][2].sum() == box[4], name
        assert done["cut"] == (name in ("coco_one_outside", "cvat_mask_edge")), name


# What else these tools write.


def label_studio_brush(mask: np.ndarray) -> list[int]:
    """Run lengths as Label Studio's converter writes them: a run for each stretch of equal values."""
    values = np.repeat(mask.ravel().astype(np.uint8) * 255, 4)
    sizes = (3, 4, 8, 16)
    bits = [f"{len(values):032b}", f"{7:05b}", *(f"{size - 1:04b}" for size in sizes)]
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1), len(values)]
    for start, end in zip(edges, edges[1:], strict=False):
        while start < end:
            kind = next((i for i, size in enumerate(sizes) if end - start <= 1 << size), 3)
            length = min(end - start, 1 << sizes[kind])
            same = length != 2  # some stretches are written value by value
            bits.append(f"{int(same)}{kind:02b}{length - 1:0{sizes[kind]}b}")
            bits.append("".join(f"{value:08b}" for value in values[start : start + (1 if same else length)]))
            start += length
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return [int(text[i : i + 8], 2) for i in range(0, len(text), 8)]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_a_brush_of_label_studio_is_decoded_pixel_for_pixel(width, height, seed, share):
    mask = np.random.default_rng(seed).random((height, width)) < share
    assert np.array_equal(shapes.brush_mask(label_studio_brush(mask), width, height), mask)
    with pytest.raises(Refused, match="has .* pixels"):
        shapes.brush_mask(label_studio_brush(mask), width + 1, height)


@settings(max_examples=200, deadline=None)
@given(
    st.tuples(*[st.floats(5, 40)] * 4), st.floats(-720, 720), st.sampled_from([(96, 96), (200, 96), (96, 200)]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_a_turned_box_lies_where_it_was_drawn(box, turn, size, corner, shares):
    """Its corners, turned one by one by plain trigonometry in pixels, are what the stored box lies around."""
    x, y, w, h = box[0] + 25, box[1] + 25, box[2], box[3]
    scale = np.array(size) if shares else np.ones(2)
    shape = shapes.Shape("a", box=(x / scale[0], y / scale[1], (x + w) / scale[0], (y + h) / scale[1]))
    shape.shares, shape.turn, shape.corner, shape.size = shares, turn, corner, size
    pivot = complex(x, y) if corner else complex(x + w / 2, y + h / 2)
    corners = [complex(x + i * w, y + j * h) for i in (0, 1) for j in (0, 1)]
    turned = np.array([pivot + (c - pivot) * np.exp(1j * np.radians(turn)) for c in corners])
    want = [turned.real.min(), turned.imag.min(), turned.real.max(), turned.imag.max()]
    inside = np.clip(want, 0, [*size, *size])
    case = {"width": size[0], "height": size[1]}
    _, got, cut = place(shape, case)
    assert np.allclose(got, inside, atol=1e-6)
    over = max(-min(want[:2]), want[2] - size[0], want[3] - size[1])
    assert cut == (over > 1) or abs(over - 1) < 1e-6


def task(image: str, *results: dict) -> dict:
    return {"data": {"image": image}, "annotations": [{"result": list(results)}]}


def test_label_studio_s_regions_are_one_shape_with_their_label(foreign, tmp_path):
    """A region's box, label and comment are three results of one id; JSON-MIN may call its label anything."""
    store, _ = foreign
    sizes = {"original_width": 96, "original_height": 96}
    box = {"x": 10, "y": 10, "width": 10, "height": 10, "rotation": 0}
    results = [
        {"id": "a", "type": "rectangle", "value": box, **sizes},
        {"id": "a", "type": "labels", "value": {**box, "labels": ["ulcer"]}, **sizes},
        {"id": "a", "type": "textarea", "value": {**box, "text": ["seen late"]}, **sizes},
        {"from_id": "a", "to_id": "b", "type": "relation"},
        {"id": "k", "type": "keypointlabels", "value": {"x": 1, "y": 1, "width": 1, "keypointlabels": ["a"]}, **sizes},
        {
            "id": "r",
            "type": "rectanglelabels",
            "value": {**box, "rectanglelabels": ["a"]},
            **sizes,
            "image_rotation": 90,
        },
    ]
    last = store.first("SELECT coalesce(max(id), 0) AS id FROM findings")["id"]
    (tmp_path / "a.json").write_text(json.dumps([task("s3://b/x/3f2a9c1b-case0.png?versionId=3", *results)]))
    done = import_annotations(store, "s", tmp_path / "a.json", "label-studio", "ann")
    assert [(label, box) for _, label, box, _ in taken(store, "s", last)] == [("ulcer", [9.6, 9.6, 19.2, 19.2])]
    assert [text.split(" (")[0] for text in done["passed_over"]] == [
        "a keypoint has no area",
        "a relation has no area",
        "a shape was drawn on a picture that was turned in Label Studio",
    ]


YAMLS = [
    "names:\n- polyp\n- ulcer\n", "names: [polyp, 'ulcer']\n", "names:\n  0: polyp\n  1: \"ulcer\"\n",
    "names: {0: polyp, 1: ulcer}  # two\nnc: 2\n", "# made\nnc: 2\nnames:\n    - polyp\n    - ulcer\n", None,
]  # fmt: skip


@pytest.mark.parametrize("text", YAMLS)
@pytest.mark.parametrize("folder", ["", "labels/", "labels\\train\\", "obj_train_data/"])
def test_classes_of_yolo_have_their_names_in_every_form(foreign, tmp_path, text, folder):
    store, _ = foreign
    files = {
        f"{folder}case0.txt": "1 .5 .5 .25 .25\n\n",
        "README.txt": "made by hand",
        "__MACOSX/._case0.txt": b"\0\xff",
    }
    files |= {"data.yaml": text} if text else {"obj.names": "polyp\r\nulcer\r\n"}
    last = store.first("SELECT coalesce(max(id), 0) AS id FROM findings")["id"]
    zipped(tmp_path / "y.zip", files)
    done = import_annotations(store, "s", tmp_path / "y.zip", "yolo", "ann")
    assert [(label, box) for _, label, box, _ in taken(store, "s", last)] == [("ulcer", [36, 36, 60, 60])]
    assert done["passed_over"] == done["unknown"] == []


def test_what_is_ambiguous_or_twice_is_named(foreign, tmp_path):
    store, _ = foreign
    line = "0 .5 .5 .25 .25"
    zipped(tmp_path / "a.zip", {"train/case0.txt": line, "val/case0.txt": line, "case1.txt": line, "nobody.txt": line})
    done = import_annotations(store, "s", tmp_path / "a.zip", "yolo", "ann")
    assert done["cases"] == 1 and done["unknown"] == ["nobody"]
    assert done["passed_over"] == [
        "the file has several images of this name, but the study has one (2 shapes, first on train/case0)"
    ]
    zipped(tmp_path / "b.zip", {"case0.txt": line, "classes.txt": "a\nb", "data.yaml": "names: [b, a]"})
    with pytest.raises(Refused, match="names its classes twice"):
        import_annotations(store, "s", tmp_path / "b.zip", "yolo", "ann")


# Every export of ours comes back.


@pytest.fixture
def named_alike(cases, tmp_path):
    """A store with the study `s`: test/dent and test/scratch have images of the same names."""
    cases("export_names").study(tmp_path / "images")
    cases("export_names").yolo_folders(tmp_path)
    store = opening.open(str(tmp_path / "home"))
    studies.import_study(store, "s", tmp_path / "images")
    yield store
    store.close()


@pytest.mark.parametrize("keep", [True, False])
def test_images_of_one_name_in_several_folders_leave_and_come_back(named_alike, tmp_path, keep):
    store = named_alike
    masks = {row["id"]: row["png"] for row in Masks(store, "s")}
    assert len(masks) == 4
    for form in ("coco", "cvat", "label-studio", "yolo", "png"):
        out = tmp_path / f"{form}.{'json' if form in ('coco', 'label-studio') else 'zip'}"
        write_form(store, "s", form, out, "root", keep)
        if form == "yolo":
            names = zipfile.ZipFile(out).namelist()
            assert len(names) == len(set(names)) == 5
        done = import_annotations(store, "s", out, form, "root")
        assert (done["cases"], done["unknown"], done["passed_over"]) == (4, [], [])
        for row in store.query("SELECT case_id, png FROM lesion_masks WHERE source = 'hand' ORDER BY id"):
            assert np.array_equal(decode_mask(row["png"]), decode_mask(masks[row["case_id"]]))


def test_folders_in_the_names_of_another_tool_say_which_image_is_meant(named_alike, tmp_path):
    import_annotations(named_alike, "s", tmp_path / "folders.zip", "yolo", "root")
    query = "SELECT f.label, f.box, c.path FROM findings f JOIN cases c ON c.id = f.case_id ORDER BY f.id"
    found = [(row["label"], json.loads(row["box"]), row["path"][-16:]) for row in named_alike.query(query)]
    assert found == [
        ("dent", [12, 12, 36, 36], "est/dent/000.png"),
        ("scratch", [60, 60, 84, 84], "scratch/000.png"[-16:].rjust(16, "/")),
    ]


@pytest.mark.parametrize("keep", [True, False])
def test_an_anomalib_export_keeps_defects_and_the_held_out_split(named_alike, tmp_path, keep):
    store = named_alike
    write_form(store, "s", "anomalib", tmp_path / "out", "root", keep)
    kinds = {kind: len(list((tmp_path / "out/test" / kind).iterdir())) for kind in ("dent", "scratch")}
    assert kinds == {"dent": 2, "scratch": 2}
    studies.import_study(store, "again", tmp_path / "out")
    query = "SELECT sha256, path, frame, scale, split, label, tags FROM cases WHERE study = ?"

    def cases_of(study: str) -> list[tuple]:
        rows = store.query(query, [study])
        return sorted((image_of(row).tobytes(), row["split"], row["label"], row["tags"]) for row in rows)

    assert cases_of("again") == cases_of("s") and {row[1] for row in cases_of("s")} == {"train", "holdout", "test"}


LETTERS = st.sampled_from("aZ7 ._-éüßЖ肺م#%&+'(ي")
NAMES = st.text(LETTERS, min_size=1, max_size=12).filter(lambda text: text.strip(" .") == text)
FOLDERS = st.lists(st.sampled_from(["dent", "scratch", "Série 2", "肺", "a.b"]), max_size=2)
IMAGE = st.tuples(FOLDERS, NAMES, st.sampled_from(["png", "PNG", "bmp"]), st.integers(0, 2**32 - 1))
FORMS = ["coco", "cvat", "label-studio", "yolo", "png"]  # whole masks last: they bear no labels


def blobs(seed: int) -> np.ndarray:
    """A mask (40, 56) of one to four pieces: discs, rings, specks, bars at the edge."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:40, :56]
    mask = np.zeros((40, 56), bool)
    for _ in range(rng.integers(1, 5)):
        far = np.hypot(x - rng.integers(0, 56), y - rng.integers(0, 40))
        mask |= (far < rng.integers(1, 12)) & (far >= rng.integers(0, 6))
    mask[rng.integers(40), rng.integers(56)] = True
    return mask.astype(np.uint8)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(IMAGE, min_size=2, max_size=6, unique_by=lambda i: ("/".join(i[0]), f"{i[1]}.{i[2]}")), st.booleans())
@pytest.mark.long
def test_every_export_of_a_drawn_study_comes_back_the_same(tmp_path_factory, images, keep):
    """Names of all scripts, the same in several folders, several findings an image: pixels, labels, places."""
    folder = tmp_path_factory.mktemp("drawn")
    write(folder / "images/train/normal/n.png", np.full((40, 56, 3), 90, np.uint8))
    for folders, name, suffix, seed in images:
        file = folder.joinpath("images/test/abnormal", *folders, f"{name}.{suffix}")
        grey = np.random.default_rng(seed).integers(0, 255, (40, 56, 3), np.uint8)
        write(file.with_suffix(".bmp"), grey).replace(file) if suffix != "PNG" else write(file, grey)
    store = opening.open(str(folder / "home"))
    try:
        studies.import_study(store, "s", folder / "images")
        rows = store.query("SELECT * FROM cases WHERE split = 'test' ORDER BY id")
        assert len(rows) == len(images)
        _check_round_trips(store, rows, folder, keep)
    finally:
        store.close()


def _check_round_trips(store, rows, folder, keep) -> None:
    from tests.studio.review.conftest import save_mask

    names = Names(store, "s", keep)
    assert len({names.case(row).casefold() for row in rows}) == len(rows)
    drawn = {row["id"]: blobs(row["id"]) for row in rows}
    for number, mask in drawn.items():
        save_mask(store, number, mask, "ann")
    findings: dict[int, list] = {}
    for form in FORMS:
        out = folder / f"out-{form}.{'json' if form in ('coco', 'label-studio') else 'zip'}"
        write_form(store, "s", form, out, "root", keep)
        if out.suffix == ".zip":
            inside = [name.casefold() for name in zipfile.ZipFile(out).namelist()]
            assert len(set(inside)) == len(inside)
        done = import_annotations(store, "s", out, form, "root")
        assert done["unknown"] == done["passed_over"] == [] and done["cut"] == 0 and done["cases"] == len(rows)
        for row in Masks(store, "s"):
            assert np.array_equal(decode_mask(row["png"]), drawn[row["id"]]), (form, row["name"])
            assert row["source"] == "hand" and row["drawn_by"] != "ann"
        if form == "coco":  # each piece gets a label of its own, and bears it through all the others
            several = store.query("SELECT id, case_id FROM findings ORDER BY id")
            for place_, finding in enumerate(several):
                store.execute("UPDATE findings SET label = ? WHERE id = ?", [f"kind {place_ % 3}", finding["id"]])
        found: dict[int, list] = {}
        newest = "SELECT max(version) FROM lesion_masks WHERE case_id = f.case_id"
        for row in store.query(f"SELECT * FROM findings f WHERE mask_version = ({newest})"):
            found.setdefault(row["case_id"], []).append((row["label"], row["box"]))
        found = {number: sorted(pairs) for number, pairs in found.items()}
        if form not in ("coco", "png"):
            assert findings == found, form
        findings = found
