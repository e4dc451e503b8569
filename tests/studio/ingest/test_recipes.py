"""Recipes on small trees of the downloads' shapes: which file lands where, counts, what is missing."""

import csv

import pytest

from app.commands import main
from core.studio.ingest import recipes
from core.studio.ingest.layouts import read_layout
from tests.conftest import picture, write


def put(root, place, count, start=0):
    """`count` empty files NAME0.jpg ... in root/place."""
    (root / place).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        (root / place / f"{place.replace('/', '-')}{start + i}.jpg").touch()


def lines(table):
    with open(table, newline="") as file:
        return list(csv.DictReader(file))


def hyperkvasir(root, cecum=1009, ileum=9, bbps=1148, polyps=1000):
    lower = "hyper-kvasir/labeled-images/lower-gi-tract"
    put(root, f"{lower}/anatomical-landmarks/cecum", cecum)
    put(root, f"{lower}/anatomical-landmarks/ileum", ileum)
    put(root, f"{lower}/quality-of-mucosal-views/bbps-2-3", bbps)
    put(root, f"{lower}/pathological-findings/polyps", 5)  # of another part, with other names
    for part in ("images", "masks"):
        (root / "hyper-kvasir/segmented-images" / part).mkdir(parents=True)
        for i in range(polyps):
            (root / "hyper-kvasir/segmented-images" / part / f"polyp{i}.jpg").touch()


@pytest.mark.slow
def test_hyperkvasir_as_it_unpacks_gives_the_papers_counts(tmp_path):
    hyperkvasir(tmp_path / "down")
    made = recipes.make("hyperkvasir", tmp_path / "down", tmp_path / "out.csv")
    assert made.counts == {"train normal": 1600, "test normal": 500, "test abnormal": 1000}
    assert made.masks == 1000 and made.differences == []
    rows = lines(made.table)
    train, test = ({r["path"] for r in rows if r["split"] == split} for split in ("train", "test"))
    assert not train & test and not any("pathological" in p for p in train | test)
    assert all(r["mask"].endswith(r["path"].rsplit("/", 1)[1]) for r in rows if r["label"] == "abnormal")
    again = recipes.make("hyperkvasir", tmp_path / "down", tmp_path / "again.csv")
    assert again.table.read_text() == made.table.read_text()
    layout, entries = read_layout(made.table)  # what `study import` reads
    assert layout == "table" and len(entries) == 3100 and not any(e.problem for e in entries)


def test_counts_that_differ_are_said(tmp_path):
    hyperkvasir(tmp_path, cecum=520, ileum=3, bbps=10, polyps=4)
    (tmp_path / "hyper-kvasir/segmented-images/masks/polyp2.jpg").unlink()
    made = recipes.make("hyperkvasir", tmp_path, tmp_path / "out.csv")
    assert made.differences == [
        "train normal: 33 images, but the paper has 1600",
        "test abnormal: 4 images, but the paper has 1000",
        "1 abnormal images have no mask",
    ]


def test_lag_with_attention_maps(tmp_path):
    put(tmp_path, "non_glaucoma/image", 810)
    for part in ("image", "attention_map"):
        (tmp_path / "suspicious_glaucoma" / part).mkdir(parents=True)
        (tmp_path / "suspicious_glaucoma" / part / "a.jpg").touch()
    made = recipes.make("lag", tmp_path, tmp_path / "out.csv")
    assert made.counts == {"train normal": 10, "test normal": 800, "test abnormal": 1} and made.masks == 1
    assert "train normal: 10 images, but the paper has 2343" in made.differences


def test_liu_by_any_of_its_folders_names(tmp_path):
    for place, count in (("x/train", 7), ("x/test/0", 3), ("x/test/polyp", 2)):
        put(tmp_path, place, count)
    made = recipes.make("liu", tmp_path, tmp_path / "out.csv")
    assert made.counts == {"train normal": 7, "test normal": 3, "test abnormal": 2}


def test_covidx_by_its_lists(tmp_path):
    for split, classes in (("train", "negative negative positive"), ("test", "negative positive positive")):
        (tmp_path / split).mkdir()
        rows = []
        for i, kind in enumerate(classes.split()):
            (tmp_path / split / f"{split}{i}.png").touch()
            rows.append(f"patient{i} {split}{i}.png {kind} source")
        (tmp_path / f"{split}.txt").write_text("\n".join([*rows, f"p9 gone.png {classes.split()[0]} source"]))
    made = recipes.make("covidx", tmp_path, tmp_path / "out.csv")
    assert made.counts == {"train normal": 2, "test normal": 1, "test abnormal": 2}  # a positive trains nothing


@pytest.mark.parametrize("name", recipes.names())
def test_what_is_missing_is_named_with_where_it_is_obtained(name, tmp_path):
    with pytest.raises(ValueError, match="is available from"):
        recipes.make(name, tmp_path, tmp_path / "out.csv")
    with pytest.raises(ValueError, match="does not exist"):
        recipes.make(name, tmp_path / "nowhere", tmp_path / "out.csv")


def test_the_verb_makes_the_study(home, tmp_path, capsys):
    for place, count in (("train/normal", 5), ("test/normal", 2), ("test/abnormal", 2)):
        for i in range(count):
            write(tmp_path / "liu" / place / f"{i}.png", picture(i + 10 * len(place))[0])
    assert main(["study", "recipe", "liu", str(tmp_path / "liu"), "--home", str(home.path)]) == 0
    said = capsys.readouterr().out
    assert "train normal: 5 images, but the paper has 13250" in said and "liu (table): 9 images" in said
    assert main(["study", "recipe", "mnist", str(tmp_path), "--home", str(home.path)]) == 2
    assert "choose from: covidx, hyperkvasir, lag, liu" in capsys.readouterr().err
