"""Who made what."""

from __future__ import annotations

import importlib

import sqlite_utils

from core.studio.db import owners
from core.studio.db import store as stores

STEP = importlib.import_module("core.studio.db.migrations.0410_sessions_and_owners")


def test_the_first_who_made_a_thing_stays_its_owner_until_the_thing_is_gone(tmp_path):
    store = stores.open(str(tmp_path / "home"))
    owners.set_owner(store, "run", ["a", "b"], "ann")
    owners.set_owner(store, "run", ["b", "c"], "ben")
    owners.set_owner(store, "map", ["a"], "ben")
    assert [owners.owner(store, "run", i) for i in "abcd"] == ["ann", "ann", "ben", None]
    assert owners.owned(store, "run", "ann") == ["a", "b"]
    owners.forget_owner(store, "run", "a")
    assert owners.owner(store, "run", "a") is None and owners.owner(store, "map", "a") == "ben"
    store.close()


def test_views_and_presets_of_an_older_home_keep_their_makers(tmp_path):
    store = stores.open(str(tmp_path / "home"))
    with store.write() as db:
        db.execute("DROP TABLE sessions")
        db.execute("DROP TABLE owners")
        db.execute("INSERT INTO studies (id, name, created) VALUES ('s', 's', '')")
        db["cluster_views"].insert({"id": 7, "study": "s", "name": "v", "reader": "ann", "created": "", "state": "{}"})
        made = {"name": "p", "strong": "medmix", "config": "{}", "created": ""}
        db["presets"].insert_all(made | {"version": v, "reader": r} for v, r in ((1, "ann"), (2, "ben")))
        STEP.apply(sqlite_utils.Database(db.conn))
    assert owners.owner(store, "view", 7) == "ann" and owners.owner(store, "preset", "p") == "ben"
    store.close()
