"""A bundle out of one home and into another: every table equal, the trail unbroken."""

import zipfile

import pytest

from core.studio.db import audit
from core.studio.db import store as stores
from core.studio.review import decisions, masks, readers
from core.studio.review.bundle import TABLES, BadBundle, export_bundle, import_bundle, verify_foreign
from core.studio.runs.records import run_folder
from tests.studio.review.conftest import fill


def _used(store, run):
    ids = [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id")]
    for i in ids[:5]:
        decisions.decide(store, i, "ann", "abnormal", comment="ü", run=run, shown={"heat": True})
    decisions.undo(store, "room", "ann")
    readers.assign(store, "room", ["ann", "ben"], "root")
    masks.restore(store, store.one("SELECT id FROM lesion_masks")["id"], "ann")
    (run_folder(store, run) / "weights.bin").write_bytes(bytes(range(256)))


def _table(store, name):
    return sorted(map(str, store.query(f'SELECT * FROM "{name}"')))


def test_into_an_empty_home_every_table_is_equal(room, tmp_path):
    store, run = room
    _used(store, run)
    made = export_bundle(store, "room", tmp_path / "room.zip", "root")
    assert made["bytes"] > 1000 and not list(tmp_path.glob("*.partial"))
    other = stores.open(str(tmp_path / "other"))
    assert import_bundle(other, tmp_path / "room.zip", "root")["study"] == "room"
    for table in [*TABLES, "events", "current_reviews", "case_votes"]:
        if table != "cases":
            assert _table(other, table) == _table(store, table), table
    old, new = (s.query("SELECT * FROM cases ORDER BY id") for s in (store, other))
    for a, b in zip(old, new, strict=True):
        with open(a.pop("path"), "rb") as one, open(b.pop("path"), "rb") as two:
            assert one.read() == two.read()
        assert a == b
    assert audit.verify(other) == audit.verify(store) and audit.verify(other)["ok"]
    assert (run_folder(other, run) / "weights.bin").read_bytes() == bytes(range(256))
    decisions.decide(other, old[-1]["id"], "ben", "normal")
    assert audit.verify(other)["ok"]
    other.close()


def test_into_a_home_in_use_numbers_move_and_the_trail_stays_readable(room, bare, tmp_path):
    store, run = room
    _used(store, run)
    export_bundle(store, "room", tmp_path / "room.zip", "root")
    fill(bare, 20, reviewed=0)
    decisions.decide(bare, 1, "cleo", "normal")
    import_bundle(bare, tmp_path / "room.zip", "root")

    def words(s):
        return s.query(
            "SELECT c.name, k.reader, k.decision, r.comment FROM current_reviews k JOIN cases c ON c.id = k.case_id "
            "JOIN reviews r ON r.id = k.review_id WHERE c.study = 'room' ORDER BY c.name"
        )

    assert words(bare) == words(store) and len(words(store)) == 4
    assert verify_foreign(bare) == []
    bare.execute("DROP TRIGGER foreign_events_no_update")
    bare.execute("UPDATE foreign_events SET who = 'eve' WHERE id = 2")
    assert "event 2 was altered" in verify_foreign(bare)[0]


def test_mistakes_are_sentences_and_leave_nothing(room, tmp_path):
    store, run = room
    export_bundle(store, "room", tmp_path / "room.zip", "root")
    with pytest.raises(BadBundle, match="already a study"):
        import_bundle(store, tmp_path / "room.zip", "root")
    (tmp_path / "bad.zip").write_text("no zip")
    other = stores.open(str(tmp_path / "other"))
    with pytest.raises(BadBundle, match="no study bundle"):
        import_bundle(other, tmp_path / "bad.zip", "root")
    with zipfile.ZipFile(tmp_path / "room.zip") as good, zipfile.ZipFile(tmp_path / "evil.zip", "w") as evil:
        for name in good.namelist():
            evil.writestr(name.replace("images/000000/", "images/../../../"), good.read(name))
        text = good.read("manifest.json").decode().replace("images/000000/", "images/../../../")
        evil.writestr("manifest.json", text)
    with pytest.raises(BadBundle, match="outside itself"):
        import_bundle(other, tmp_path / "evil.zip", "root")
    assert other.query("SELECT 1 FROM studies") == []
    other.close()
