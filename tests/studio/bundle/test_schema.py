"""What a bundle holds follows from the database: every table and every column travels, or a reason says why not."""

import hashlib
import json
import re
import zlib
from dataclasses import fields

import numpy as np
import pytest

from core.studio.bundle import export_bundle, import_bundle, maps
from core.studio.bundle.contents import KINDS, SETTINGS, STAYS, Report, stays, tables
from core.studio.clusters.config import MapConfig
from core.studio.ingest.masks import encode_mask
from core.studio.ingest.studies import ImportReport
from core.studio.medmix.presets import get_preset, save_preset
from core.studio.runs import marks
from core.studio.trials.options import TrialPlan
from tests.studio.bundle.conftest import use
from tests.studio.review.conftest import fill

NOW = "2026-01-02T03:04:05.678Z"


def test_every_table_is_of_a_study_or_stays_with_a_reason(bare):
    """A new table that no reference ties to a study, and that nobody gives a reason for, is an error here."""
    there = {row["name"] for row in bare.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    travels = tables(bare)
    assert {name for name in there if not stays(name)} == set(travels)
    assert all(len(reason) > 10 for reason in STAYS.values())
    columns = {f"{table.name}.{column.name}" for table in travels.values() for column in table.columns}
    assert set(KINDS) <= columns
    bare.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, words TEXT)")
    with pytest.raises(ValueError, match="notes"):
        tables(bare)
    bare.execute("DROP TABLE notes")
    bare.execute(
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, case_id INTEGER NOT NULL REFERENCES cases(id), words TEXT)"
    )
    assert [column.name for column in tables(bare)["notes"].columns] == ["id", "case_id", "words"]


def _row(store, table: str, **values) -> int:
    return store.db.table(table).insert(values, pk=None).last_rowid


def everything(store, run: str) -> None:
    """Uses all that a study can hold: each table has a row, and each column a value."""
    use(store, run)
    study, test = "room", [c["id"] for c in store.query("SELECT id FROM cases WHERE split = 'test' ORDER BY id")]
    case = test[0]
    size = store.one("SELECT width, height FROM cases WHERE id = ?", [case])
    png = encode_mask(np.eye(size["height"], size["width"]))
    with store.write() as db:
        db.execute(
            "UPDATE cases SET modality = 'CT', phash = 'f0', tags = '[\"odd\"]', burned_in = 1, series = 's', "
            "place = 1.5, slice = 2, patient = 'p', scale = '[0, 255]', device = 'scope', frame = 3 WHERE id = ?",
            [case],
        )  # fmt: skip
        db.execute("UPDATE studies SET layout = 'table', config = '{\"a\": 1}', fingerprint = 'f'")
        about = {"code": "c", "packages": json.dumps({"torch": "2"}), "device": "cpu", "note": "n", "archived": 1,
                 "finished": NOW, "seconds": 3.0, "created": NOW, "status": "done", "study": study}  # fmt: skip
        taught = {"marks": marks.chosen(store, study), "size": 32, "epochs": 0, "seed": 1,
                  "encoder": {"arch": "resnet18", "init": str(store.home.path / "runs/gone-1"), "seed": 1}}  # fmt: skip
        _row(store, "runs", id="x-1", kind="pretrain", name="first", method="x", config=json.dumps(taught),
             folder="runs/x-1", summary='{"message": "done", "collapsed": false, "images": 3}', **about)  # fmt: skip
        scores = {"scores": [0.1, 0.2], "pixels": {"lo": 0.0, "hi": 1.0, "threshold": 0.5}}
        summary = {"calibration": {"plain": scores, "roi": scores}, "threshold": 0.2, "scored": 2, "score_seconds": 1.0}
        db.execute(
            "UPDATE runs SET parent = 'x-1', summary = ?, code = 'c', packages = '{}', device = 'cpu', note = 'n', "
            "archived = 1, finished = ?, seconds = 1.5 WHERE id = ?", [json.dumps(summary), NOW, run],
        )  # fmt: skip
        _row(store, "lesion_masks", case_id=case, version=7, source="run", reader="ann", created=NOW, run=run,
             threshold=0.5, png=png, note="n")  # fmt: skip
        drawn = store.one("SELECT max(id) AS id FROM lesion_masks")["id"]
        _row(store, "reference_masks", case_id=case, mask=drawn, reader="ann", created=NOW)
        _row(store, "metrics", run="x-1", step=3, name="loss", value=0.25)
        _row(store, "logs", run="x-1", at=NOW, line="a line")
        extra = {"outline": 0.5, "maps": [[0.5, 1], [2, 0.25]], "nearest": [[3, 0.25]]}
        db.execute("UPDATE readings SET extra = ? WHERE case_id = ?", [json.dumps(extra), case])
        unseen = zlib.compress(np.packbits(np.eye(16, dtype=bool)).tobytes())
        db.execute("UPDATE readings SET not_judged = ? WHERE case_id = ?", [unseen, case])
        _row(store, "operating_points", run=run, source="dragged", threshold=0.7, labels=1, reader="ann", created=NOW)
        _row(store, "next_marks", run=run, case_id=case, value=0.5, why="unlike others")
        row = {"run": run, "roi": True, "protocol": "held-out", "detector": "padim", "encoder": "x", "auroc": 0.9,
               "auroc_ci": [0.8, 1.0]}  # fmt: skip
        _row(store, "evaluations", study=study, run=run, created=NOW, row=json.dumps(row))
        _row(store, "cluster_maps", key="k1", study=study, run="x-1", config=MapConfig(method="pca").to_json(),
             created=NOW, points=3, epochs="[0, 1]", seconds=2.0)  # fmt: skip
        _row(store, "cluster_views", study=study, name="mine", reader="ann", created=NOW, state='{"map": "k1"}')
        _row(store, "findings", case_id=case, mask_version=7, label="polyp", comment="c", box="[1, 2, 3, 4]",
             reader="ann", created=NOW)  # fmt: skip
        _row(store, "case_marks", case_id=case, reader="ann", finished=1, normal=png, updated=NOW)
        session = _row(store, "reading_sessions", study=study, reader="ann", blind=1, neutral=1, shuffled=1,
                       choice="all", run=run, first_review=2, last_review=4, created=NOW, ended=NOW)  # fmt: skip
        if "secret" in tables(store)["reading_sessions"].names:
            db.execute("UPDATE reading_sessions SET secret = 'ab'")
        _row(store, "reading_session_cases", session=session, position=1, case_id=case)
        _row(store, "reviews", case_id=case, reader="cleo", decision="unsure", comment="c", created=NOW, seconds=2.5,
             run=run, shown="{}", stage="adjudication", active=1)  # fmt: skip
        plan = TrialPlan(name="t", readers=("ann", "ben"), design="crossover", run=run, panel=("cleo",)).to_json()
        trial = _row(store, "trials", study=study, name="t", plan=plan, run=run, digest="d", made_by="ann", created=NOW,
                     started=NOW, frozen=NOW, closed=NOW)  # fmt: skip
        mask = store.one("SELECT max(id) AS id FROM lesion_masks")["id"]
        _row(store, "trial_cases", trial=trial, position=1, case_id=case, truth="abnormal", mask=mask, repeated=1)
        part = _row(store, "trial_parts", trial=trial, reader="ann", number=1, arm="aided", session=session)
        _row(store, "trial_reads", review=3, part=part, rating=70.0, marks="[[1, 2, 3, 4, 50]]")
        _row(store, "trial_marks", finding=store.one("SELECT max(id) AS id FROM findings")["id"], rating=60.0)
    save_preset(store, "ours", "medmix", {**get_preset(store, "paper")["config"], "k": 2}, "a note", "ann")
    values = {"adopted": run, "blind": True, "kind": "endoscopy", "labels": ["polyp"], "tags": ["odd"],
              "import": store.setting("import:room")}  # fmt: skip
    assert set(values) == set(SETTINGS)
    for key, value in values.items():
        store.set_setting(f"{key}:room", value)


def _rows(store) -> dict[str, list[str]]:
    """The rows of the study by table, with what each refers to in place of numbers, names of runs for their ids."""
    names = {r["id"]: f"RUN {r['name']}" for r in store.query("SELECT id, name FROM runs WHERE study = 'room'")}
    names |= {r["key"]: "MAP" for r in store.query("SELECT key FROM cluster_maps")} | {str(store.home.path): "HOME"}
    known: dict[str, dict] = {}
    found: dict[str, list[str]] = {}
    for name, table in tables(store).items():
        listed, known[name] = [], {}
        columns = ", ".join(f'"{c}"' for c in table.names)
        for row in store.query(f'SELECT {columns} FROM "{name}" WHERE {table.where}', {"study": "room"}):
            key, texts = row.get(table.key), []
            for column in table.columns:
                value = row[column.name]
                if column.refers and column.refers not in ("studies", "runs"):
                    value = value and known[column.refers][value]
                elif column.name in ("first_review", "last_review"):
                    value = known["reviews"][value]
                elif isinstance(value, bytes):
                    value = hashlib.sha256(value).hexdigest()
                elif column.name == table.key or column.name == "path":
                    continue
                for old, new in names.items():
                    value = value.replace(old, new) if isinstance(value, str) else value
                if value and isinstance(KINDS.get(f"{name}.{column.name}"), tuple):
                    value = json.dumps(_numberless(json.loads(value)), sort_keys=True)
                texts.append(f"{column.name}={value}")
            known[name][key] = " ".join(texts)
            listed.append(" ".join(texts))
        found[name] = sorted(listed)
    return found


def _numberless(value):
    """Settings of a run whose marks are told by their content: their numbers, and what is made of them, differ."""
    if isinstance(value, dict) and isinstance(value.get("marks"), dict):
        had = value["marks"]
        value = {**value, "marks": {k: len(v) for k, v in had.items() if k not in ("sha256", "reader")}}
    return value


def test_what_an_import_reports_travels_whole():
    assert set(Report.model_fields) == {field.name for field in fields(ImportReport)}


def test_a_home_in_which_everything_was_used_comes_whole(room, other, tmp_path, monkeypatch):
    store, run = room
    everything(store, run)
    before = _rows(store)
    assert [name for name, rows in before.items() if not rows] == []
    for name, rows in before.items():
        for column in tables(store)[name].names:
            said = [re.search(rf"(?:^| ){column}=(.*?)(?: \w+=|$)", row) for row in rows]
            assert column in ("id", "key", "path", "study") or any(m and m[1] != "None" for m in said), (name, column)
    export_bundle(store, "room", tmp_path / "all.zip", "root")
    fill(other, 20)  # so that numbers move
    save_preset(other, "ours", "medmix", get_preset(other, "paper")["config"])
    monkeypatch.setattr(maps, "adopt", lambda *args: ([], []))  # this map has no files; test_maps.py has one that does
    done = import_bundle(other, tmp_path / "all.zip", "root")
    after = _rows(other)
    assert get_preset(other, "ours (room)")["config"]["k"] == 2
    presets = before.pop("presets")
    assert len(after.pop("presets")) == len(presets) + 1
    config = json.loads(other.one("SELECT config FROM runs WHERE name = 'first'")["config"])
    assert config["encoder"]["init"] == str(other.home.path / "weights/elsewhere.safetensors")
    assert marks.repeat_problem(other, {"id": "x", "config": config}) is None
    before["runs"] = [row.replace("HOME/runs/gone-1", "HOME/weights/elsewhere.safetensors") for row in before["runs"]]
    for name, rows in before.items():
        assert after[name] == rows, name
    assert done["rows"]["trial_reads"] == 1
