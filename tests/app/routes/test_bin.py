"""The bin by the page; folders that administrators may name; how much a reader may keep."""

import pytest

from core.studio.db import limits, owners
from core.studio.ingest import roots
from core.studio.ingest.studies import list_studies
from core.studio.review import people
from core.studio.runs import records as runs
from tests.app.routes.clients import PASSWORD, client_of
from tests.conftest import few
from tests.studio.review.conftest import STUDY, draw_folder, room  # noqa: F401

ROOT, ANN, BOB = ({"x-user": name} for name in ("root", "ann", "bob"))


@pytest.fixture
def asked(room):  # noqa: F811
    """(store, client): ann and bob read, root administers; the scored run is ann's."""
    store, run = room
    for name, role in {"ann": "reader", "bob": "reader", "root": "administrator"}.items():
        people.add_reader(store, name, PASSWORD, role)
    owners.set_owner(store, "run", [run], "ann")
    return store, run, client_of(store)


@pytest.mark.slow
def test_a_run_is_removed_and_brought_back_by_who_made_it(asked):
    store, run, client = asked
    assert client.post(f"/api/training/run/{run}/delete", json={}, headers=ANN).json()["ok"]
    assert [r["id"] for r in client.get("/api/bin", headers=ANN).json()["rows"]] == [run]
    assert client.get("/api/bin", headers=BOB).json()["rows"] == []
    assert client.post(f"/api/bin/run/{run}/restore", headers=BOB).status_code == 403
    assert client.post(f"/api/bin/run/{run}/restore", headers=ANN).json() == {"ok": True}
    assert [r["id"] for r in runs.list_runs(store)] == [run]
    assert client.post(f"/api/bin/run/{run}/restore", headers=ANN).status_code == 400


def test_a_study_is_removed_and_brought_back_by_an_administrator(asked):
    store, _, client = asked
    assert client.delete(f"/api/study/{STUDY}", headers=ROOT).json()["ok"]
    assert client.get("/api/bin", headers=ANN).json()["rows"] == []
    assert [r["kind"] for r in client.get("/api/bin", headers=ROOT).json()["rows"]] == ["study"]
    assert client.post(f"/api/bin/study/{STUDY}/restore", headers=ANN).status_code == 403
    assert client.post(f"/api/bin/study/{STUDY}/restore", headers=ROOT).json()["ok"]
    assert [s["id"] for s in list_studies(store)] == [STUDY]


@pytest.mark.slow
def test_administrators_import_from_named_folders_alone(asked, tmp_path):
    store, _, client = asked
    named, other = draw_folder(tmp_path / "named" / "a"), draw_folder(tmp_path / "other")
    roots.allow_folder(store, tmp_path / "named", "root")
    (tmp_path / "named" / "link").symlink_to(other)
    calls = [
        ("/api/study/import", lambda path: {"name": "new", "folder": path}),
        (f"/api/study/{STUDY}/add", lambda path: {"path": path}),
        (f"/api/manage/{STUDY}/watch", lambda path: {"folder": path}),
    ]
    for route, body in calls:
        for path in (other, tmp_path / "named" / "link", tmp_path / "named" / ".." / "other", "/", "", "\0", "a/b"):
            answer = client.post(route, json=body(str(path)), headers=ROOT)
            allowed = route.endswith("watch") and not str(path)  # no folder: the watch ends
            assert answer.status_code == 400 or allowed, (route, path, answer.text)
            if str(path) == str(other):
                assert "roots add FOLDER" in answer.json()["error"]
    for route, body in calls:
        assert client.post(route, json=body(str(named)), headers=ROOT).json()["ok"], route
    alone = client_of(store, single_user=True)
    assert alone.post(f"/api/manage/{STUDY}/watch", json={"folder": str(other)}).json()["ok"]


def test_folders_are_named_and_forgotten_and_the_trail_knows(store, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    assert roots.allow_folder(store, folder, "root") == roots.allow_folder(store, folder, "root") == str(folder)
    assert roots.named(store) == [str(folder)]
    roots.forget(store, folder, "root")
    assert roots.named(store) == []
    for wrong in ("/", tmp_path / "nowhere"):
        with pytest.raises(ValueError):
            roots.allow_folder(store, wrong, "root")
    assert [r["kind"] for r in store.query("SELECT kind FROM events")] == ["root", "root"]


def test_a_reader_keeps_so_much_and_an_administrator_more(asked, monkeypatch):
    _, run, client = asked
    few(monkeypatch, "preset", 1)
    preset = {"name": "one", "config": {}}
    assert client.post("/api/medmix/presets", json=preset, headers=ANN).json()["ok"]
    more = client.post("/api/medmix/presets", json=preset | {"name": "two"}, headers=ANN)
    assert more.status_code == 400 and "You have reached the limit" in more.json()["error"]
    assert client.post("/api/medmix/presets", json=preset | {"name": "two"}, headers=ROOT).json()["ok"]
    few(monkeypatch, "run", 1)
    again = client.post(f"/api/training/run/{run}/repeat", headers=ANN)
    assert again.status_code == 400 and "limit of 1 runs" in again.json()["error"]


def test_runs_have_a_size_and_the_disk_an_end(asked, monkeypatch):
    store, run, _ = asked
    (runs.run_folder(store, run) / "weights").write_bytes(bytes(5000))
    assert limits.kept_bytes(store, "ann") == 5000 and limits.kept_bytes(store, "bob") == 0
    limits.demand_room(store, "run", "ann")
    few(monkeypatch, "run bytes", 4000)
    with pytest.raises(limits.TooMuch, match="more than"):
        limits.demand_room(store, "run", "ann")
    monkeypatch.setattr(limits, "SPARE", 2**60)
    with pytest.raises(limits.TooMuch, match="free some space"):
        limits.demand_room(store, "run", "bob")
