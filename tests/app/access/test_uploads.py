"""Uploads of readers: few, not too large, and closed to other readers."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from core.studio.db.limits import LIMITS
from core.studio.ingest import roots
from tests.app.access.test_permissions import asked  # noqa: F401
from tests.app.routes.clients import client_of, visitor
from tests.conftest import few, picture, wait, write
from tests.loops import run_apart
from tests.studio.review.conftest import room  # noqa: F401


@pytest.mark.slow
def test_uploads_of_readers_are_few_and_their_own(asked, monkeypatch):  # noqa: F811
    _, store, server = asked
    ann, bob, root = (visitor(server, name) for name in ("ann", "bob", "root"))
    few(monkeypatch, "upload bytes", 1000)
    uploads = LIMITS["upload"].most
    drops = [ann.post("/api/study/drop").json()["drop"] for _ in range(uploads + 2)]
    kept = [drop for drop in drops if (store.home.cache / "dropped" / drop).is_dir()]
    assert kept == drops[-uploads:]
    last = f"/api/study/drop/{drops[-1]}?path=a.png"
    assert bob.put(last, content=b"x").status_code == 403
    assert ann.put(last, content=b"x" * 900).status_code == 200
    more = ann.put(f"{last}2", content=b"x" * 200)
    assert more.status_code == 413 and "too large" in more.json()["error"]
    assert [p.name for p in (store.home.cache / "dropped" / drops[-1]).iterdir()] == ["a.png"]
    mine = root.post("/api/study/drop").json()["drop"]
    assert root.put(f"/api/study/drop/{mine}?path=a.png", content=b"x" * 5000).status_code == 200


@pytest.mark.slow
def test_files_that_come_at_once_are_counted_together(room, monkeypatch):  # noqa: F811
    store, ann = room[0], client_of(room[0])
    few(monkeypatch, "upload bytes", 1000)
    few(monkeypatch, "upload files", 3)
    drop = ann.post("/api/study/drop").json()["drop"]
    begun = 0

    async def slowly():
        nonlocal begun
        begun += 1
        yield b"x" * 300
        while begun < 3:
            await asyncio.sleep(0.01)
        yield b"x" * 300

    async def at_once() -> list[int]:
        inside = httpx.ASGITransport(app=ann.app)
        async with httpx.AsyncClient(transport=inside, base_url="http://localhost") as client:
            addresses = [f"/api/study/drop/{drop}?path={name}.png" for name in "abc"]
            answers = await asyncio.gather(*(client.put(address, content=slowly()) for address in addresses))
        return sorted(answer.status_code for answer in answers)

    codes = run_apart(at_once())
    assert codes == [200, 413, 413], "1,800 bytes together, one file of 600 that is whole"
    folder = store.home.cache / "dropped" / drop
    assert sum(file.stat().st_size for file in folder.iterdir()) == 600
    codes = [ann.put(f"/api/study/drop/{drop}?path={name}.png", content=b"x").status_code for name in "def"]
    assert codes == [200, 200, 400]
    deep = ann.put(f"/api/study/drop/{drop}?path={'a/' * 40}b.png", content=b"x")
    assert deep.status_code == 400 and "not a valid file name" in deep.json()["error"]


@pytest.mark.slow
def test_a_csv_brings_in_nothing_from_outside(asked, tmp_path):  # noqa: F811
    """Of a dropped CSV: the drop's own files; of one in a named folder: files of named folders."""
    _, store, server = asked
    root = visitor(server, "root")
    secret = tmp_path / "outside" / "secret.png"
    write(secret, picture(0)[0])
    write(tmp_path / "named" / "own.png", picture(1)[0])
    roots.allow_folder(store, tmp_path / "named", "root")
    lines = f"path,split\nown.png,train\n{secret},train\n{secret}.absent,train\n../outside/secret.png,train\n"
    (tmp_path / "named" / "study.csv").write_text(lines)
    drop = root.post("/api/study/drop").json()["drop"]
    for name, content in {"study.csv": lines.encode(), "own.png": (tmp_path / "named/own.png").read_bytes()}.items():
        assert root.put(f"/api/study/drop/{drop}?path={name}", content=content).status_code == 200
    for name, body in {"path": {"folder": str(tmp_path / "named")}, "drop": {"drop": drop}}.items():
        task = root.post("/api/study/import", json={"name": name, **body}).json()["task"]
        wait(lambda task=task: root.get(f"/api/study/import/{task}").json()["state"] != "running")
        state = root.get(f"/api/study/import/{task}").json()
        assert state["state"] == "done", state
        assert state["report"]["accepted"] == 1
        assert len({r["reason"] for r in state["report"]["rejected"]}) == 1
        assert len(state["report"]["rejected"]) == 3
    events = store.query("SELECT who, study, after FROM events WHERE kind = 'import' ORDER BY id")
    assert [(e["who"], e["study"], json.loads(e["after"])["accepted"]) for e in events] == [
        ("root", "path", 1), ("root", "drop", 1),
    ]  # fmt: skip
