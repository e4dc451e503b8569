"""What leaves the browser: figures, tables, tags, the worklist, views."""

import csv
import io

import pytest
from pyarrow import parquet

from core.studio.clusters import explore, figure, library
from core.studio.db.store import NotFound
from core.studio.review.exports.tables import Names, cell


@pytest.fixture(scope="module")
def made(world):
    return library.open_map(world.store, world.embed(epochs=(0, 2)))


@pytest.mark.slow
@pytest.mark.parametrize(("format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_a_figure_is_the_same_each_time(made, format, start):
    one = figure.draw(made, format)
    assert one.startswith(start) and one == figure.draw(made, format)


def test_a_figure_shows_the_classes_epochs_and_numbers_asked_for(made):
    text = figure.draw(made, "svg", epochs=[2], groups=["Normal, test", "Abnormal, test"]).decode()
    assert "epoch 2" in text and "silhouette" in text and "Abnormal, test" in text
    assert "untrained" not in text and "pasted" not in text
    assert "untrained encoder" in figure.draw(made, "svg").decode()
    for wrong in ({"epochs": [1]}, {"groups": ["Cats"]}, {"format": "gif"}):
        with pytest.raises(ValueError, match="it has|saved as"):
            figure.draw(made, **{"format": "svg", **wrong})


def test_the_table_holds_every_point_of_every_epoch(world, made):
    rows = list(
        csv.DictReader(
            io.StringIO(explore.write(world.store, made, "csv", Names(world.store, world.study, keep=True)).decode())
        )
    )
    assert len(rows) == 2 * len(made.points)
    last = rows[-1]
    assert float(last["x"]) == pytest.approx(float(made.coords[1, -1, 0]))
    assert int(last["case_id"]) == made.points.case_id[-1] and last["epoch"] == "2"
    again = parquet.read_table(
        io.BytesIO(explore.write(world.store, made, "parquet", Names(world.store, world.study, keep=True)))
    ).to_pydict()
    assert again["y"] == pytest.approx([float(r["y"]) for r in rows])
    assert again["case"] == [r["case"] for r in rows]


def test_a_name_is_never_a_formula_in_a_spreadsheet():
    assert cell("=cmd()") == "'=cmd()" and cell("plain") == "plain" and cell(-1.5) == -1.5


def test_tags_go_to_cases_and_come_off_again(world, made):
    points = [0, 1, len(made.points) - 1]  # the last is a MedMix version
    assert library.tag(world.store, made, points, " odd  frame ", "ada") == {
        "tag": "odd frame",
        "cases": 2,
        "left_out": 1,
    }
    assert library.tag(world.store, made, points, "odd frame", "ada")["cases"] == 0
    found = {c["name"]: c for c in explore.columns(world.store, made)}["tag"]
    assert [found["names"][c] for c in found["codes"]].count("odd frame") == 2
    assert library.tag(world.store, made, points, "odd frame", "ada", remove=True)["cases"] == 2
    for wrong in ("", "a,b", "x" * 61):
        with pytest.raises(ValueError, match="A tag has"):
            library.tag(world.store, made, points, wrong, "ada")


def test_only_test_cases_go_to_the_worklist(world, made):
    everything = list(range(len(made.points)))
    done = library.to_worklist(world.store, made, everything, "ada")
    assert done["cases"] == 16
    assert world.store.one("SELECT count(*) AS n FROM assignments WHERE reader = 'ada'")["n"] == 16
    with pytest.raises(ValueError, match="only these are read"):
        library.to_worklist(world.store, made, [len(made.points) - 1], "ada")


def test_views_are_kept_by_name(world, made):
    def front() -> list[dict]:
        return [v for v in library.list_views(world.store, world.study) if v["name"] == "front"]

    first = library.save_view(world.store, world.study, "front", "ada", {"a": 1})
    library.save_view(world.store, world.study, "front", "ada", {"a": 2})
    assert [v["state"] for v in front()] == [{"a": 2}]
    with pytest.raises(NotFound):
        library.delete_view(world.store, first + 1000)
    library.delete_view(world.store, front()[0]["id"])
    assert front() == []
