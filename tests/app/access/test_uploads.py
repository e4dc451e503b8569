"""Uploads of readers: few, not too large, and closed to other readers."""

from __future__ import annotations

from tests.app.access.test_permissions import asked  # noqa: F401
from tests.app.routes.clients import visitor
from tests.studio.review.conftest import room  # noqa: F401


def test_uploads_of_readers_are_few_and_their_own(asked, monkeypatch):  # noqa: F811
    from app.routes import studies as module

    _, store, server = asked
    ann, bob, root = (visitor(server, name) for name in ("ann", "bob", "root"))
    monkeypatch.setattr(module, "READERS_DROP", 1000)
    drops = [ann.post("/api/study/drop").json()["drop"] for _ in range(module.DROPS + 2)]
    kept = [drop for drop in drops if (store.home.cache / "dropped" / drop).is_dir()]
    assert kept == drops[-module.DROPS :]
    last = f"/api/study/drop/{drops[-1]}?path=a.png"
    assert bob.put(last, content=b"x").status_code == 403
    assert ann.put(last, content=b"x" * 900).status_code == 200
    more = ann.put(f"{last}2", content=b"x" * 200)
    assert more.status_code == 413 and "too large" in more.json()["error"]
    assert [p.name for p in (store.home.cache / "dropped" / drops[-1]).iterdir()] == ["a.png"]
    mine = root.post("/api/study/drop").json()["drop"]
    assert root.put(f"/api/study/drop/{mine}?path=a.png", content=b"x" * 5000).status_code == 200
