"""Names of masks, tables and annotations are matched to images by path, then by name where that is unique."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.studio.ingest.names import PathIndex, folded, stem, without_ending

ENDINGS = [
    "",
    "_mask",
    "-mask",
    " mask",
    "_seg",
    "_SEG",
    "_segmentation",
    "_label",
    ".bm",
    "_mask_1",
    "_mask (2)",
    "_gt",
]
LETTERS = st.sampled_from("aZ7éüößЖ肺م.")
STEMS = st.text(LETTERS, min_size=1, max_size=8).filter(lambda s: s.strip(".") == s and ".." not in s)
UIDS = st.lists(st.integers(0, 99999), min_size=4, max_size=8).map(lambda n: "MR." + ".".join(map(str, n)))
FOLDERS = st.lists(st.sampled_from(["p1", "p2", "Série", "肺"]), max_size=3)
PATHS = st.tuples(FOLDERS, STEMS | UIDS).map(lambda drawn: "/".join([*drawn[0], f"{drawn[1]}.jpg"]))


@pytest.mark.parametrize(
    "path, means",
    [
        ("p1/000.png", "p1"), ("p2/000_mask.png", "p2"), ("P1\\000.PNG", "p1"), ("/data/old/p2/000.jpg", "p2"),
        ("only.png", "only"), ("elsewhere/only_seg.tif", "only"), ("mask_only.png", "only"), ("nobody.png", None),
    ],
)  # fmt: skip
def test_find_goes_by_path_then_by_name(path, means):
    found = PathIndex([("p1/000.png", "p1"), ("p2/000.png", "p2"), ("p3/only.dcm", "only")]).find(path)
    assert found == ([means] if means else [])


@pytest.mark.parametrize(
    "images, mask",
    [
        (["p1/000.png", "p2/000.png"], "000_mask.png"), (["a.png", "a.jpg"], "a_mask.png"),
        (["Scan.png", "scan.png"], "SCAN.png"), (["p1/000.png", "p2/000.png"], "p3/000.png"),
    ],
)  # fmt: skip
def test_find_returns_all_that_agree_as_closely(images, mask):
    assert sorted(PathIndex((name, name) for name in images).find(mask)) == sorted(images)


@pytest.mark.parametrize(
    "images, mask, means",
    [
        (["Scan.png", "scan.png"], "scan_mask.png", "scan.png"),
        (["a.png", "a_mask.png"], "a_mask.png", "a_mask.png"),
        (["a.png", "a.jpg"], "a.png", "a.png"),
        (["a.dcm", "a.png"], "a.dcm.png", "a.dcm"),
        (["x_image.png", "y_image.png"], "x_mask.png", "x_image.png"),
    ],
)
def test_find_prefers_the_closest_agreement(images, mask, means):
    assert PathIndex((name, name) for name in images).find(mask) == [means]


def test_find_takes_a_folder_called_like_the_image():
    register = PathIndex((f"kind/{i:03d}.png", i) for i in range(4))
    assert register.find("kind/001/000.png", nested=True) == [1]
    assert register.find("kind/001/000.png") == [0]


def test_a_name_keeps_the_dots_that_begin_no_suffix():
    assert (stem("MR.1.3.12"), stem("MR.1.3.12.png"), stem("a.b.c.JPG"), stem(".png")) == (
        "MR.1.3.12", "MR.1.3.12", "a.b.c", ".png",
    )  # fmt: skip
    assert without_ending("case") is None and without_ending("mask") is None


@settings(max_examples=300, deadline=None)
@given(
    st.lists(PATHS, min_size=1, max_size=8, unique_by=folded),
    st.sampled_from(ENDINGS), st.sampled_from(["NFC", "NFD"]), st.sampled_from([str, str.upper, str.lower]),
)  # fmt: skip
def test_every_mask_of_drawn_names_finds_its_image(paths, ending, form, case):
    """Whatever the accents, capitals, endings and depths; names that casefolding joins are not drawn."""
    register = PathIndex((path, path) for path in paths)
    for path in paths:
        mask = unicodedata.normalize(form, case(f"{path[:-4]}{ending}.png"))
        assert register.find(mask) == [path]


def test_the_cases_of_other_systems_names(cases):
    matches = cases("names").MATCHES
    register = PathIndex((name, name) for name in matches)
    assert {image: [register.find(mask) for mask in masks] for image, masks in matches.items()} == {
        image: [[image]] * len(masks) for image, masks in matches.items()
    }
