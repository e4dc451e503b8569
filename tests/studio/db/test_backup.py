"""Backups: made while others write, read back, rotated; damaged and newer ones refused; the old is kept aside."""

from __future__ import annotations

import io
import json
import sqlite3
import threading
import time
import zipfile

import pytest

from core.studio.bundle.pack import BundleWriter
from core.studio.db import audit, backup, leftovers, migrations, opening
from core.studio.db.backup import BadBackup, DailyBackup
from core.studio.db.store import Store
from tests.studio.review.conftest import STUDY, room  # noqa: F401
from tests.studio.review.conftest import decide as decided


def decide(store, times: int = 1, reader: str = "ann") -> None:
    case = store.one("SELECT id FROM cases WHERE study = ? AND split = 'test'", [STUDY])["id"]
    for _ in range(times):
        decided(store, case, reader, "normal")


def reviews(store) -> int:
    return store.first("SELECT count(*) AS n FROM reviews")["n"]


def test_what_was_decided_after_the_backup_is_gone_and_kept_aside(room):  # noqa: F811
    store, _ = room
    decide(store, 3)
    made = backup.backup(store.home)
    assert made.events == 3 and made.version == migrations.latest()
    decide(store, 2)
    aside = backup.restore(store.home, store.home.backups / made.file)
    assert reviews(store) == 3, "a connection that was open sees what was restored"
    assert audit.verify(store)["ok"]
    last = audit.trail(store, limit=1)[0]
    assert last["kind"] == "restore" and last["after"]["file"] == made.file and last["before"]["kept"] == aside.name
    assert backup.check(aside).events == 5
    backup.restore(store.home, aside)
    assert reviews(store) == 5


def test_a_backup_is_one_state_whoever_writes(room):  # noqa: F811
    store, _ = room
    stop, started = threading.Event(), threading.Event()

    def write():
        while not stop.is_set():
            decide(store)
            started.set()
        store.close()

    writers = [threading.Thread(target=write) for _ in range(2)]
    for one in writers:
        one.start()
    try:
        assert started.wait(30)
        found = []
        for _ in range(4):
            least = reviews(store)
            found.append((least, backup.backup(store.home, keep=9), reviews(store)))
    finally:
        stop.set()
        for one in writers:
            one.join()
    for least, made, most in found:
        assert least <= made.events <= most + 2
        assert backup.check(store.home.backups / made.file) and made.events > 0


def test_the_oldest_go(room):  # noqa: F811
    store, _ = room
    names = [backup.backup(store.home, keep=3).file for _ in range(5)]
    assert {b.file for b in backup.backups(store.home.backups)} == set(names[-3:])
    assert len(list(store.home.backups.iterdir())) == 6


@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "text", "gone"])
def test_a_damaged_backup_is_refused_and_nothing_changes(room, damage):  # noqa: F811
    store, _ = room
    decide(store)
    file = store.home.backups / backup.backup(store.home).file
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    new = {"changed": bytes(content), "cut": bytes(content[:-5000]), "empty": b"", "text": b"hello" * 999}
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(new[damage])
    decide(store)
    before = sorted(store.home.backups.iterdir())
    with pytest.raises(BadBackup):
        backup.restore(store.home, file)
    assert reviews(store) == 2 and sorted(store.home.backups.iterdir()) == before


def test_a_newer_backup_is_refused(room):  # noqa: F811
    store, _ = room
    file = store.home.backups / backup.backup(store.home).file
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 99")
    file.with_suffix(".json").unlink()
    with pytest.raises(BadBackup, match="newer version"):
        backup.restore(store.home, file)


def test_a_broken_audit_trail_is_no_backup(room):  # noqa: F811
    store, _ = room
    decide(store)
    store.db.execute("DROP TRIGGER IF EXISTS events_no_update")
    for row in store.query("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'"):
        store.db.execute(f"DROP TRIGGER {row['name']}")
    store.execute("UPDATE events SET who = 'eve'")
    with pytest.raises(BadBackup, match="audit trail"):
        backup.backup(store.home)
    assert list(store.home.backups.iterdir()) == []


def test_an_unreadable_database_is_kept_aside_as_it_is(room):  # noqa: F811
    store, _ = room
    decide(store)
    file = store.home.backups / backup.backup(store.home).file
    store.close()
    for part in store.home.path.glob("studio.sqlite*"):
        part.unlink()
    store.home.db.write_bytes(b"not a database" * 1000)
    aside = backup.restore(store.home, file)
    assert aside.read_bytes().startswith(b"not a database")
    fresh = opening.open(store.home)
    assert reviews(fresh) == 1
    fresh.close()


def test_one_is_made_when_the_studio_opens_and_not_again_the_same_day(room):  # noqa: F811
    store, _ = room
    with DailyBackup(store.home) as daily:
        assert daily.made.wait(30)
        assert daily._due() > 80_000
    with DailyBackup(store.home, every=1e-3) as daily:
        assert daily.made.wait(30)
    assert len(backup.backups(store.home.backups)) >= 2


def test_the_verbs(room, capsys):  # noqa: F811
    from app import commands

    store, _ = room
    decide(store)
    home = ["--home", str(store.home.path), "--json"]

    def said(*line: str) -> dict:
        assert commands.main([*line, *home]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    made = said("backup")
    assert made["events"] == 1 and said("backup", "--list")["backups"][0]["file"] == made["file"]
    decide(store)
    assert said("restore", "latest")["restored"].endswith(made["file"])
    assert reviews(store) == 1
    assert commands.main(["restore", "nothing", *home]) == 2


@pytest.mark.slow
def test_restore_loses_no_decision_between_the_copy_kept_and_the_restored(room):  # noqa: F811
    store, _ = room
    decide(store)
    file = store.home.backups / backup.backup(store.home).file
    stop, answered = threading.Event(), []

    def read_cases(reader: str) -> None:
        while not stop.is_set():
            try:
                decide(store, reader=reader)
                answered.append(reader)
            except sqlite3.OperationalError:  # it was told so, and nothing is lost
                continue
        store.close()

    readers = [threading.Thread(target=read_cases, args=[f"reader {i}"]) for i in range(3)]
    for thread in readers:
        thread.start()
    kept = []
    try:
        for _ in range(5):
            time.sleep(0.3)
            kept.append(backup.restore(store.home, file))
    finally:
        stop.set()
        for thread in readers:
            thread.join()
    own = "SELECT count(*) AS n FROM reviews WHERE reader LIKE 'reader%'"
    found = store.first(own)["n"]
    for aside in kept:
        old = Store.reading(aside)
        assert audit.verify(old)["ok"]
        found += old.first(own)["n"]
        old.close()
    assert found == len(answered) > 20
    assert audit.verify(store)["ok"]


def test_restore_gives_no_id_twice(room):  # noqa: F811
    store, _ = room
    file = store.home.backups / backup.backup(store.home).file
    decide(store, 3)
    last = store.first("SELECT max(id) AS id FROM reviews")["id"]
    backup.restore(store.home, file)
    decide(store)
    assert store.first("SELECT max(id) AS id FROM reviews")["id"] > last


@pytest.mark.slow
def test_backups_begun_in_one_millisecond_are_both_kept(room, monkeypatch):  # noqa: F811
    store, _ = room
    frozen = iter(["2026-01-01T00:00:00.000Z"] * 4 + [f"2026-01-01T00:00:00.{n:03}Z" for n in range(1, 900)])
    monkeypatch.setattr(backup, "now", lambda: next(frozen))
    made = []
    threads = [threading.Thread(target=lambda: made.append(backup.backup(store.home))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({b.file for b in made}) == 4 == len(backup.backups(store.home.backups))
    for one in made:
        backup.check(store.home.backups / one.file)


def test_backup_that_fails_deletes_no_other(room, monkeypatch):  # noqa: F811
    store, _ = room
    sound = backup.backup(store.home)
    monkeypatch.setattr(backup, "now", lambda: sound.created)

    def fails(*args):
        raise sqlite3.OperationalError("disk is full")

    monkeypatch.setattr(backup, "copy", fails)
    monkeypatch.setattr(backup, "free", lambda folder, kind: folder / sound.file)
    with pytest.raises(sqlite3.OperationalError):
        backup.backup(store.home)
    assert backup.check(store.home.backups / sound.file).sha256 == sound.sha256


def test_sweep_leaves_a_bundle_under_way(room):  # noqa: F811
    store, _ = room
    chunks = BundleWriter(store, STUDY, "root").chunks()
    got = [next(chunks)]
    leftovers.sweep(store, older=0)
    got += chunks
    with zipfile.ZipFile(io.BytesIO(b"".join(got))) as bundle:
        assert bundle.testzip() is None and "rows.sqlite" in " ".join(bundle.namelist())
