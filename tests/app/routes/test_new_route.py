"""A route is declared in one place: the one that CONTRIBUTING.md shows is added, and found everywhere."""

import re
import sys

import pytest

import app.routes
from core.studio.review import sessions
from tests.app.routes.clients import client_of
from tests.conftest import ROOT
from tests.studio.review.conftest import STUDY, room  # noqa: F401
from tests.tools import scripts as _scripts


@pytest.fixture
def added(tmp_path, monkeypatch):
    """The documented file, in a folder that counts as one of the routes'."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "size.py").write_text(next(block for block in blocks if "/api/size" in block))
    monkeypatch.setattr(app.routes, "__path__", [*app.routes.__path__, str(tmp_path)])
    yield
    sys.modules.pop("app.routes.size", None)


@pytest.mark.long
def test_a_route_that_is_added_is_found_everywhere(added, room):  # noqa: F811
    store, _ = room
    client = client_of(store)
    images = store.one("SELECT count(*) AS n FROM cases WHERE study = ?", [STUDY])["n"]
    assert client.get(f"/api/size/{STUDY}").json() == {"ok": True, "images": images}
    sessions.set_blind(store, STUDY, True, "root")
    assert client.get(f"/api/size/{STUDY}").status_code == 403, "who may use it"
    operation = app.routes.openapi()["paths"]["/api/size/{study}"]["get"]
    assert (operation["tags"], operation["summary"]) == (["size"], "How many images a study has")
    assert operation["security"] == [{"session": ["sighted"]}]
    assert _scripts.install() == 0
    types = _scripts.generated()
    assert "export type Size = components['schemas']['Size'];" in types and "images: number;" in types
    assert "(path: `/api/size/${string}${Query}`): Promise<Size>;" in types
