"""Whatever another installation sends: taken in or refused with one sentence, and every page still answers.

Each example is what this program writes itself, with hostile values put in places drawn at random: paths that lead
outside, other types, huge and infinite numbers, halves of characters, deep and large documents.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.studio.bundle import export_bundle, import_bundle, maps
from core.studio.bundle.contents import KINDS, tables
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.ingest import studies
from core.studio.medmix.presets import built_in, from_yaml, to_yaml
from core.studio.runs import exported, screen, screened
from core.studio.runs import records as runs
from tests.app.routes.clients import client_of
from tests.conftest import plain_folder, scored_padim
from tests.studio.bundle.conftest import rewrite
from tests.studio.bundle.test_schema import everything
from tests.studio.review.conftest import add_readings, draw_folder

pytestmark = pytest.mark.longest
PATHS = ["../x", "../../weights/x.safetensors", "detector/../../OTHER/members.json", "/etc/passwd", "..\\x", "~/x", "."]
ODD = [None, True, -1, 0, 10**9, 10**30, -(10**400), 1e300, float("nan"), float("inf"), "", "x", "\0", "\ud800",
       "x" * 5000, [], [1], {}, {"a": {}}, [[]] * 1000, {"../x": "../x"}]  # fmt: skip
TEXTS = st.one_of(st.sampled_from(PATHS), st.text(max_size=20))
HOSTILE = st.one_of(TEXTS, st.sampled_from(ODD), st.integers(), st.floats())
EXAMPLES = settings(
    max_examples=int(os.environ.get("PMSACL_EXAMPLES", "120")), database=None, deadline=None, derandomize=True,
    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip


def changed(draw, document):
    """The document with one to three of its values, or names of them, replaced by hostile ones."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        at = document
        while True:
            keys = sorted(at) if isinstance(at, dict) else range(len(at))
            key = draw(st.sampled_from(list(keys)))
            if not isinstance(at[key], (dict, list)) or not at[key] or draw(st.integers(0, 3)) == 0:
                break
            at = at[key]
        value = draw(HOSTILE)
        if isinstance(at, dict) and draw(st.integers(0, 4)) == 0:
            at[value if isinstance(value, str) else str(value)] = at.pop(key)
        elif isinstance(at, dict) and draw(st.integers(0, 6)) == 0:
            del at[key]
        else:
            at[key] = value
        if not at:
            at |= {"a": 1} if isinstance(at, dict) else {}
    return document


class Watched:
    """A home that takes in what strangers send, and all that lies around it."""

    def __init__(self, around: Path) -> None:
        self.around, self.store = around, opening.open(Home.at(around / "home"))
        self.client, self.taken, self.refused = client_of(self.store, single_user=True), 0, 0

    def files(self) -> dict[str, int]:
        """Every file around the home and in it, but the database's own, with its size."""
        return {
            str(file.relative_to(self.around)): file.lstat().st_size
            for file in self.around.rglob("*") if not file.is_dir() and "sqlite" not in file.name
        }  # fmt: skip

    def rows(self) -> list[int]:
        return [self.store.first(f'SELECT count(*) AS n FROM "{t}"')["n"] for t in tables(self.store)]

    def takes(self, bring) -> bool:
        """Whether `bring()` is taken in. One that is refused is refused with a sentence, and leaves nothing."""
        files, rows = self.files(), self.rows()
        try:
            bring()
        except ValueError as error:
            said = str(error)
            assert type(error).__module__.startswith("core."), repr(error)
            assert said and "\n" not in said.strip() and "Traceback" not in said and len(said) < 2000, said
            assert self.files() == files and self.rows() == rows, said
            self.refused += 1
            return False
        new = self.files().keys() - files.keys()
        outside = [name for name in new if name.split("/")[:2] not in (["home", "runs"], ["home", "files"])]
        assert not outside and {name: size for name, size in self.files().items() if name in files} == files, outside
        self.taken += 1
        return True

    def asked(self, study: str) -> None:
        """Asks each page that lists runs, and each page of a run and of a case."""
        pages = ["/api/status", "/api/medmix/presets", f"/api/results/{study}", f"/api/learn/{study}",
                 f"/api/study/{study}/overview", f"/api/trials/of/{study}"]  # fmt: skip
        pages += [f"{page}?study={study}" for page in (
            "/api/training/runs", "/api/review/open", "/api/review/list", "/api/review/counts", "/api/clusters/maps",
            "/api/clusters/runs", "/api/reading")]  # fmt: skip
        pages += [f"/api/training/run/{run['id']}" for run in runs.list_runs(self.store, study, archived=None)]
        cases = self.store.query("SELECT id FROM cases WHERE study = ? AND split = 'test' LIMIT 2", [study])
        pages += [f"/api/review/case/{case['id']}" for case in cases]
        for page in pages:
            answer = self.client.get(page)
            assert answer.status_code < 500, f"{page}: {answer.text[:500]}"


@pytest.fixture
def here(tmp_path):
    watched = Watched(tmp_path / "here")
    yield watched
    watched.client.close()
    watched.store.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """(a model's folder, a table of its scores, the images)"""
    tmp = tmp_path_factory.mktemp("model")
    store = opening.open(Home.at(tmp / "home"))
    study = studies.import_study(store, "tiny", plain_folder(tmp / "images")).study
    _, fit = scored_padim(store, study)
    exported.export_run(store, fit, tmp / "model")
    screened.screen_here(tmp / "model", tmp / "images/test", tmp / "scores")
    store.close()
    return tmp / "model", sorted((tmp / "scores").glob("*.parquet"))[0], tmp / "images"


def test_no_model_of_another_installation_reaches_beyond_its_runs(here, model, tmp_path):
    folder, _, images = model
    studies.import_study(here.store, "tiny", images)
    bad = shutil.copytree(folder, tmp_path / "bad")
    inner = sorted(file.relative_to(bad).as_posix() for file in (bad / "detector").rglob("*.json"))
    card = json.loads((bad / "card.json").read_text())

    @EXAMPLES
    @given(st.data())
    def one(data):
        which = data.draw(st.sampled_from(["card.json", "card.json", *inner]))
        document = changed(data.draw, json.loads((folder / which).read_text()))
        (bad / which).write_text(json.dumps(document))
        if which != "card.json":
            digests = {**card["digests"], which: screen.digest_of(bad / which)}
            (bad / "card.json").write_text(json.dumps({**card, "digests": digests}))
        if here.takes(lambda: exported.import_model(here.store, bad, "tiny")):
            here.asked("tiny")
        for name in ("card.json", which):
            shutil.copyfile(folder / name, bad / name)

    one()
    assert here.taken and here.refused > here.taken


def test_no_table_of_scores_of_another_installation_spoils_a_run(here, model, tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    folder, scores, images = model
    studies.import_study(here.store, "tiny", images)
    fit = exported.import_model(here.store, folder, "tiny")["fit"]
    table = parquet.read_table(scores)
    good = table.to_pylist()

    @EXAMPLES
    @given(st.data())
    def one(data):
        rows = copy.deepcopy(good)
        for _ in range(data.draw(st.integers(1, 3))):
            column = data.draw(st.sampled_from(sorted(screened.Scored.model_fields)))
            value = data.draw(st.one_of(HOSTILE, st.binary(max_size=50), st.just(b"\0" * 10**6)))
            rows[data.draw(st.integers(0, len(rows) - 1))][column] = value
        try:
            odd = pyarrow.Table.from_pylist(rows, schema=table.schema)
        except (pyarrow.ArrowException, ValueError, TypeError, OverflowError):
            names = [field.name for field in table.schema]
            odd = pyarrow.table(
                {name: [str(row[name])[:99].encode(errors="replace") for row in rows] for name in names}
            )
            odd = odd.replace_schema_metadata(table.schema.metadata)
        parquet.write_table(odd, tmp_path / "odd.parquet")
        if here.takes(lambda: screened.import_readings(here.store, fit, tmp_path / "odd.parquet")):
            here.asked("tiny")

    one()
    assert here.taken and here.refused


def test_no_bundle_of_another_installation_spoils_a_page(here, tmp_path, monkeypatch):
    """Each column of each table, each value of each JSON column, and the list of contents."""
    monkeypatch.setattr(maps, "adopt", lambda *args: ([], []))  # test_maps.py sends maps
    sender = opening.open(Home.at(tmp_path / "sender"))
    studies.import_study(sender, "room", draw_folder(tmp_path / "images"), copy=True)
    everything(sender, add_readings(sender, "room", "padim"))
    export_bundle(sender, "room", tmp_path / "good.zip", "root")
    columns = [(t.name, c.name) for t in tables(sender).values() for c in t.columns]
    sender.close()
    with zipfile.ZipFile(tmp_path / "good.zip") as good:
        listed = json.loads(good.read("manifest.json"))
        rows = good.read("rows.sqlite")
    work = tmp_path / "work.sqlite"
    work.write_bytes(rows)
    was = sqlite3.connect(work)
    number = 0

    @EXAMPLES
    @given(st.data())
    def one(data):
        nonlocal number
        number += 1
        manifest, statements = {"study": f"s{number}"}, [f"UPDATE studies SET name = 's{number}'"]
        for _ in range(data.draw(st.integers(1, 2))):
            table, column = data.draw(st.sampled_from(columns))
            if data.draw(st.sampled_from([False] * 9 + [True])):
                manifest |= changed(data.draw, {k: v for k, v in listed.items() if k not in ("files", "study")})
            found = was.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()
            place, old = data.draw(st.sampled_from(found))
            alike = {str: TEXTS, int: st.integers(0, 9), float: st.floats(0, 9)}.get(type(old), HOSTILE)
            value = data.draw(data.draw(st.sampled_from([alike, HOSTILE])))
            if isinstance(KINDS.get(f"{table}.{column}"), tuple) and old and data.draw(st.booleans()):
                document = json.loads(old)
                value = (
                    json.dumps(changed(data.draw, document)) if isinstance(document, (dict, list)) and document else "{"
                )
            if isinstance(value, (dict, list)) or (isinstance(value, int) and abs(value) > 2**62):
                value = json.dumps(value)
            if isinstance(value, str):
                value = value.encode(errors="surrogatepass").decode(errors="replace")
            statements.append((f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', [value, place]))
        rewrite(tmp_path / "good.zip", tmp_path / "evil.zip", statements, manifest)
        if here.takes(lambda: import_bundle(here.store, tmp_path / "evil.zip", "root")):
            here.asked(f"s{number}")

    one()
    was.close()
    assert here.taken and here.refused > here.taken


def test_no_file_of_a_preset_is_read_as_another_thing():
    good = yaml.safe_load(to_yaml(built_in()[0]))

    @EXAMPLES
    @given(st.data())
    def one(data):
        text = yaml.safe_dump(changed(data.draw, good))
        try:
            from_yaml(text)
        except ValueError as error:
            assert type(error).__module__.startswith("core.") and "\n" not in str(error), repr(error)

    one()
