"""Folders and tables as other programs lay them out: what they mean, and never a sick image among the normal ones."""

import random
import re
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.commands import main
from core.studio.ingest.layouts import ANYWHERE, Unclear, conclude, read_layout
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.studies import import_study, list_studies, show_study, slug, study_row
from tests.conftest import picture, write

WRITTEN = {"train normal": 3, "holdout normal": 1, "test normal": 2, "test abnormal": 3}
READ = [
    "comma_bom",
    "quoted",
    "capital_head",
    "semicolon",
    "tab",
    "image_column",
    "filename_column",
    "backslash",
    "floats",
]


@pytest.fixture
def brought(store, cases, tmp_path):
    """brought("layouts", "loco") -> the report of importing that case, and its rows with their masks."""

    def bring(module: str, case: str):
        cases(module).CASES[case](tmp_path / case)
        report = import_study(store, case, tmp_path / case)
        query = "SELECT c.*, m.png FROM cases c LEFT JOIN lesion_masks m ON m.case_id = c.id WHERE study = ?"
        return report, store.query(query, [report.study])

    return bring


def learnt(rows) -> list[str]:
    return sorted(Path(row["path"]).name for row in rows if row["split"] != "test")


@pytest.mark.parametrize(
    "case, counts",
    [
        ("capitals", {"train normal": 8, "holdout normal": 2, "test normal": 4, "test abnormal": 4}),
        ("side_by_side", {"train normal": 6, "holdout normal": 2, "test abnormal": 3}),
        ("dirs", {"train normal": 6, "holdout normal": 2, "test abnormal": 3}),
        ("loco", {"train normal": 8, "holdout normal": 3, "test normal": 2, "test abnormal": 4}),
    ],
)
def test_folders_of_other_programs(brought, case, counts):
    report, rows = brought("layouts", case)
    assert report.counts == counts and not any("person" in name for name in learnt(rows))
    assert report.masks == (0 if case == "capitals" else counts["test abnormal"])
    left = {"training uses only normal images"}
    assert {r["reason"].split(";")[0] for r in report.rejected} == (left if case == "capitals" else set())


def test_the_masks_of_a_folder_called_like_the_image_are_united(brought, cases):
    disc = cases("layout_pictures").disc
    for row in (row for row in brought("layouts", "loco")[1] if row["png"]):
        number = int(row["name"][:3])
        expected = disc(cx=20 + 15 * number, cy=30, r=8) > 0
        expected |= (disc(cx=70, cy=70, r=6) > 0) & (number == 1)
        assert np.array_equal(decode_mask(row["png"]) > 0, expected)


@pytest.mark.parametrize("case", [*READ, "valid", "patients"])
def test_tables_of_other_programs(brought, case):
    report, rows = brought("tables", case)
    assert report.rejected == []
    if case == "patients":
        assert report.patients == 3 and len({(row["patient"], Path(row["path"]).parent) for row in rows}) == 3
    else:
        assert report.counts == WRITTEN and not any(name.startswith("a") for name in learnt(rows))
        assert case != "valid" or [r["name"] for r in rows if r["split"] == "holdout"] == ["n0.png"]


@pytest.mark.parametrize(
    "module, case", [("masks", "values"), ("names", "masks"), ("names", "table"), ("names", "uids")]
)
def test_masks_and_names_of_other_programs(brought, cases, module, case):
    report, rows = brought(module, case)
    assert report.rejected == []
    masks = {row["name"]: decode_mask(row["png"]) > 0 for row in rows if row["png"]}
    loaded = cases(module)
    if case == "values":
        assert all(np.array_equal(masks[f"{name}.png"], lesion) for name, (_, lesion) in loaded.MASKS.items())
    elif case == "masks":
        assert len(masks) == len(loaded.MATCHES)
        drawn = {name: np.maximum.reduce([loaded.spot(i) for i in range(len(m))]) for name, m in loaded.MATCHES.items()}
        assert all(np.array_equal(masks[name.replace("\n", " ")], lesion > 0) for name, lesion in drawn.items())
    elif case == "uids":
        places = {int(name[-1]): np.argwhere(mask).mean(0)[1] for name, mask in masks.items()}
        assert places == {i: pytest.approx(12 + 18 * i, abs=1) for i in range(3)}
    else:
        assert report.counts["test unknown"] == 1


# Drawn trees. What is sick is called sick_*, what is normal well_*.

SPLIT = st.sampled_from(["", "train", "TRAIN", "Training", "train2017", "val", "valid", "test", "Test_public", "dev"])
SICK = st.sampled_from(
    ["PNEUMONIA", "crack", "Ungood", "abnormal", "dent_2", "bad", "covid-19", "1", "zzz", "肿瘤", "not_normal", "b"]
)  # fmt: skip
WELL = st.sampled_from(
    ["NORMAL", "good", "healthy", "Negative", "no_tumor", "normal_dir", "0.normal", "NonCOVID", "OK"]
)
INNER = st.sampled_from(["", "img", "images", "patient_1", "0001"])
UPPER = st.sampled_from([str, str.upper, str.lower, str.title])


@st.composite
def trees(draw) -> list[tuple[str, bool]]:
    """Paths of images, and whether each is sick; classes in folders of their own, splits above or below them."""
    wrapper, inner, below, upper = (
        draw(st.sampled_from(["", "colon", "set/v2"])),
        draw(INNER),
        draw(st.booleans()),
        draw(UPPER),
    )
    files = []
    for sick, names in (
        (False, draw(st.lists(WELL, max_size=2))),
        (True, draw(st.lists(SICK, min_size=1, max_size=3))),
    ):
        for name in names:
            for split in draw(st.lists(SPLIT, min_size=1, max_size=3, unique=True)):
                parts = (name, split) if below else (split, name)
                for number in range(draw(st.integers(1, 3))):
                    folders = "/".join(part for part in (wrapper, *map(upper, parts), inner) if part)
                    files.append((f"{folders}/{'sick' if sick else 'well'}_{number:03d}.png", sick))
    return files


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(trees())
def test_no_sick_image_of_a_drawn_tree_is_learnt_without_being_asked(tmp_path_factory, files):
    root = tmp_path_factory.mktemp("tree")
    for name, _ in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"-")
    layout, entries = read_layout(root)
    sick = {root / name for name, is_sick in files if is_sick}
    normal = [e for e in entries if e.label == "normal" and not e.problem and not e.doubt]
    assert not sick & {entry.path for entry in normal}
    try:
        conclude(layout, entries)
    except Unclear as question:
        asked = [g.name for g in question.groups if not g.meaning]
        answers = dict.fromkeys(asked, "abnormal")
        layout, entries = read_layout(root, None, ANYWHERE, answers)
        conclude(layout, entries, answers)
    else:
        assert {e.path for e in normal} == {root / name for name, is_sick in files if not is_sick}
    found = Counter(entry.path for entry in entries)
    assert found == {root / name: 1 for name, _ in files}, "each file comes in, or is named, once"


@pytest.mark.parametrize(
    "files, asked",
    [
        (["n0.png", "pneumonia_1.png"], ". (pneumonia)"),
        (["n0.png", "n0_seg.png", "n1.png"], ". (without a mask)"),
        (["n0.png", "labels.xlsx"], "."),
        (["n0.png", "n0.xml"], "."),
        (["train/n0.png", "test/n1.png"], "train"),
        (["images/n0.png", "masks/n0.png", "images/n1.png"], ". (without a mask)"),
        (["n0.png", "what.csv"], "."),
    ],
)
def test_what_would_be_flat_and_is_not_is_asked(tmp_path, store, files, asked):
    for number, name in enumerate(files):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".png"):
            mask = name.startswith("masks") or "_seg" in name
            write(tmp_path / "set" / name, picture(number, blob=mask)[mask] * (255 if mask else 1))
        else:
            (tmp_path / "set" / name).write_text("code,age\n1,2\n")
    with pytest.raises(Unclear) as question:
        import_study(store, "s", tmp_path / "set")
    assert [g.name for g in question.value.groups if not g.meaning] == [asked] and asked in str(question.value)
    assert list_studies(store) == []
    report = import_study(store, "s", tmp_path / "set", answers={asked: "normal"})
    assert sum(n for group, n in report.counts.items() if group.endswith(" normal")) >= 1


# Drawn tables.


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([",", ";", "\t", "|"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252", "gb18030"]),
    st.sampled_from(["path", "Image Path", "FILENAME", "image_id", "Finding file"]),
    st.sampled_from(["label", "Class", "Finding Labels"]), st.sampled_from(["good", "0", "0.0", "No Finding"]),
    st.sampled_from(["abnormal", "1", "1.0", "Effusion|Mass", "dent"]),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_drawn_tables_are_read_or_asked_about(tmp_path_factory, sep, encoding, path, label, well, sick, quoted, seed):
    root = tmp_path_factory.mktemp("table")
    letter = "肺" if encoding in ("gb18030", "utf-16") else "ü"
    rows = [(path, label)]
    for number in range(6):
        name = f"scans/{letter}{number}.png"
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"-")
        rows.append((name.replace("/", random.Random(seed).choice("/\\")), well if number < 4 else sick))
    quote = '"' if quoted or sep in sick else ""
    text = "".join(sep.join(f"{quote}{cell}{quote}" for cell in row) + "\r\n" for row in rows)
    (root / "table.csv").write_bytes(text.encode(encoding))
    layout, entries = read_layout(root)
    assert layout == "table" and all(e.problem is None for e in entries)
    normal = {e.path.name for e in entries if e.label == "normal" and not e.doubt}
    assert normal <= {f"{letter}{number}.png" for number in range(4)}
    mixed = len({well in ("0", "0.0"), sick in ("1", "1.0")}) > 1
    if not mixed:
        assert len(normal) == 4 and not any(e.doubt for e in entries)


def test_import_by_the_verb_shows_what_it_concludes_and_stores_nothing_by_itself(tmp_path, capsys):
    for place in ("dent", "plain view"):
        write(tmp_path / "set" / place / "n0.png", picture(1)[0])
    order = ["study", "import", "s", str(tmp_path / "set"), "--home", str(tmp_path / "home")]
    assert main([*order, "--dry-run"]) == main(order) == 1
    said = capsys.readouterr()
    assert (
        "1 ASKED: dent" in said.out and "--class 'dent=normal|abnormal|out'" in said.out and "Nothing was" in said.err
    )
    assert main([*order, "--class", "dent=abnormal", "--class", "plain view=normal", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "1 test abnormal: dent" in said and "1 train normal: plain view" in said and "Nothing was stored" in said
    assert main(["study", "list", "--home", str(tmp_path / "home")]) == 0 and "No studies" in capsys.readouterr().out
    assert main([*order, "--class", "dent=abnormal", "--class", "plain view=normal"]) == 0
    assert main([*order, "--class", "nowhere=normal"]) != 0 and main([*order, "--class", "dent=sick"]) != 0


NAMES = st.text(st.sampled_from("aZ9 -é肺Лم+🫁"), min_size=1, max_size=70)


@settings(max_examples=300, deadline=None)
@given(st.lists(NAMES, min_size=2, max_size=6))
def test_names_in_any_script_have_ids_of_their_own(names):
    said = [name for name in names if name.strip(" -")]
    ids = {name: slug(name) for name in said}
    assert all(re.fullmatch("[a-z0-9][a-z0-9-]{0,59}", found) for found in ids.values())
    letters = {name: re.findall(r"[^\s-]+", unicodedata.normalize("NFKD", name.casefold())) for name in said}
    plain = {
        name: ["".join(c for c in word if not unicodedata.combining(c)) for word in of] for name, of in letters.items()
    }
    for one in said:
        assert all(ids[one] != ids[other] or plain[one] == plain[other] for other in said)


def test_a_study_is_found_by_the_name_that_was_typed(store, tiny_folder):
    report = import_study(store, "肺部", tiny_folder)
    assert show_study(store, "肺部")["id"] == report.study and study_row(store, report.study)["name"] == "肺部"
    with pytest.raises(ValueError, match="already a study"):
        import_study(store, " 肺部", tiny_folder)


def test_copies_among_the_normals_are_named(store, cases, tmp_path):
    cases("screening").alike(tmp_path)
    said = [import_study(store, name, tmp_path / name).copies for name in ("copies", "flat")]
    assert [text.split(":")[0] for text in said] == [
        "24 of 24 normal images are the same picture", "24 of 24 normal images are blank",
    ]  # fmt: skip
