"""What holds for every route: GET never writes, the start is quick, one declaration is enough."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import app.routes
from core.studio.review import sessions
from tests.app.routes.clients import client_of
from tests.conftest import ROOT
from tests.studio.review.conftest import STUDY, room  # noqa: F401
from tests.tools import scripts as _scripts

QUERY = {
    "heat": "run=RUN", "nearest": "run=RUN", "open": f"study={STUDY}", "list": f"study={STUDY}&run=RUN",
    "step": f"study={STUDY}&run=RUN", "counts": f"study={STUDY}", "runs": f"study={STUDY}", "maps": f"study={STUDY}",
    "pack": "run=RUN", "{case_id}": "run=RUN", "compare": "run=RUN",
}  # fmt: skip


@pytest.mark.slow
def test_reading_routes_never_write(room):  # noqa: F811
    store, run = room
    client = client_of(store)
    found = app.routes.every_route()
    case = store.one("SELECT id FROM cases WHERE split = 'test' AND label = 'abnormal'")["id"]
    filled = {"study": STUDY, "case_id": str(case), "run_id": run, "point": "0", "new": "0"}
    wrong, well = [], 0
    for hidden in (False, True):
        store.set_setting(f"blind:{STUDY}", hidden)
        client.get(f"/api/review/counts?study={STUDY}")  # draws the neutral order of a reader who is new to the study
        for route in found:
            if "GET" not in route.methods:
                continue
            path = re.sub(r"\{(\w+)\}", lambda m: filled.get(m[1], "none"), route.path)
            before = store.first("PRAGMA data_version")
            answer = client.get(f"{path}?{QUERY.get(route.path.rsplit('/')[-1], '').replace('RUN', run)}")
            well += answer.status_code == 200
            assert answer.status_code < 500, (path, answer.text)
            if store.first("PRAGMA data_version") != before:
                wrong.append(route.path)
    assert not wrong and well > 40, (wrong, well)


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


SECONDS = ("torchvision", "torch._dynamo", "sklearn", "scipy.stats", "umap", "matplotlib")


def loaded(code: str, *modules: str) -> str:
    """Which of `modules` a fresh Python has after `code`."""
    code = f"import sys; {code}; print([m for m in {modules} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr


@pytest.mark.long
def test_the_routes_start_without_what_takes_seconds_to_load():
    """Trainings, maps and figures load these where they are asked for."""
    assert loaded("import app.routes; app.routes.routers()", *SECONDS) == "[]"


@pytest.mark.slow
def test_decisions_need_neither_torch_nor_the_page():
    assert loaded("import app.routes.reviews", "torch", "gradio", *SECONDS) == "[]"
