"""A bundle out of one home and into another: the same study under new ids, and a word on what stayed behind."""

import json
import zipfile
from pathlib import Path

from core.studio.bundle import export_bundle, import_bundle, verify_foreign
from core.studio.db import audit
from core.studio.review.people import add_reader
from core.studio.runs.records import run_folder
from tests.studio.review.conftest import decide, fill


def test_the_study_comes_whole_under_new_ids(sent, other):
    store, run, bundle = sent
    fill(other, 20)
    done = import_bundle(other, bundle, "root")
    assert done["study"] == "room" and done["missing"] == {"images": [], "maps": []} and done["changed"] == []
    assert done["rows"]["cases"] == 22 and done["rows"]["events"] == audit.verify(store)["events"]
    [new] = other.query("SELECT id, folder FROM runs WHERE study = 'room'")
    assert new["id"] != run and new["folder"] == f"runs/{new['id']}"
    assert (run_folder(other, new["id"]) / "weights.bin").read_bytes() == bytes(range(256))

    def said(s, r):
        text = json.dumps(s.query(
            "SELECT c.name, c.split, c.label, r.reader, r.decision, r.comment, r.created, r.shown, r.run, r.active "
            "FROM reviews r JOIN cases c ON c.id = r.case_id WHERE c.study = 'room' ORDER BY r.id"
        ))  # fmt: skip
        return text.replace(r, "RUN")

    assert said(other, new["id"]) == said(store, run) and "RUN" in said(store, run)
    read = (
        "SELECT c.name, r.score, r.map, r.map_h FROM readings r JOIN cases c ON c.id = r.case_id WHERE r.run = ? "
        "ORDER BY c.id"
    )
    assert other.query(read, [new["id"]]) == store.query(read, [run])
    drawn = (
        "SELECT c.name, m.version, m.png FROM lesion_masks m JOIN cases c ON c.id = m.case_id "
        "WHERE c.study = 'room' ORDER BY m.id"
    )
    assert other.query(drawn) == store.query(drawn)
    old, here = (s.query("SELECT name, path FROM cases WHERE study = 'room' ORDER BY id") for s in (store, other))
    for a, b in zip(old, here, strict=True):
        assert Path(a["path"]).read_bytes() == Path(b["path"]).read_bytes()
        assert Path(b["path"]).is_relative_to(other.home.files / "room")
    assert other.one("SELECT folder FROM studies WHERE id = 'room'")["folder"] is None


def test_the_trail_stays_readable_and_what_was_brought_in_is_sealed(sent, other):
    _, _, bundle = sent
    import_bundle(other, bundle, "root")
    assert verify_foreign(other) == [] and audit.verify(other)["ok"]
    decide(other, other.one("SELECT id FROM cases WHERE split = 'test'")["id"], "cleo", "normal")
    assert audit.verify(other)["ok"]
    other.execute("DROP TRIGGER reviews_said_once")
    other.execute("UPDATE reviews SET decision = 'normal' WHERE id = 2")
    assert "imported reviews" in audit.verify(other)["problems"][0]
    other.execute("DROP TRIGGER foreign_events_no_update")
    other.execute("UPDATE foreign_events SET who = 'eve' WHERE id = 2")
    assert "event 2 was altered" in verify_foreign(other)[0]


def test_no_password_secret_or_path_leaves(sent, tmp_path):
    store, _, _ = sent
    add_reader(store, "ann", "long enough", "administrator")
    store.set_setting("deidentify:room", "ab" * 32)
    export_bundle(store, "room", tmp_path / "again.zip", "root")
    with zipfile.ZipFile(tmp_path / "again.zip") as bundle:
        bundle.extract("rows.sqlite", tmp_path)
        manifest = bundle.read("manifest.json").decode()
    rows = (tmp_path / "rows.sqlite").read_bytes()
    for secret in (b"argon2", b"ab" * 32, str(store.home.path).encode(), str(tmp_path / "images").encode()):
        assert secret not in rows and secret.decode() not in manifest


def test_what_is_missing_is_said_on_both_sides(sent, other, tmp_path):
    store, _, _ = sent
    first, second = store.query("SELECT name, path FROM cases ORDER BY id LIMIT 2")
    Path(first["path"]).unlink()
    Path(second["path"]).write_bytes(b"another image")
    made = export_bundle(store, "room", tmp_path / "part.zip", "root")
    assert made["missing"]["images"] == [first["name"]] and made["changed"] == [second["name"]]
    done = import_bundle(other, tmp_path / "part.zip", "root")
    assert done["missing"]["images"] == [first["name"]] and done["changed"] == [second["name"]]
    assert done["rows"]["cases"] == 22
