"""The reader verb, by its door."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from core.studio.db import audit, opening

ROOT = Path(__file__).resolve().parents[3]


def reader(home, *words: str, given: str = "") -> tuple[int, dict, str]:
    command = [sys.executable, "launch.py", "reader", *words, "--home", str(home), "--json"]
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, timeout=240)
    return done.returncode, json.loads((done.stdout.strip().splitlines() or ["{}"])[-1]), done.stderr


@pytest.mark.long
def test_add_list_remove(tmp_path):
    assert reader(tmp_path, "add", "Ada", "--password-stdin", given="a long password\n")[0] == 0
    code, found, _ = reader(tmp_path, "list")
    assert code == 0 and [(r["name"], r["role"], r["active"]) for r in found["readers"]] == [("Ada", "reader", 1)]
    assert reader(tmp_path, "remove", "Ada")[0] == 0
    assert [r["active"] for r in reader(tmp_path, "list")[1]["readers"]] == [0]


@pytest.mark.long
def test_the_last_administrator_stays_and_each_act_is_in_the_audit_trail(tmp_path):
    def add(name: str, role: str) -> int:
        return reader(tmp_path, "add", name, "--role", role, "--password-stdin", given="a long password\n")[0]

    assert add("Root", "administrator") == 0
    for words in (("remove", "Root"), ("add", "Root", "--password-stdin")):
        code, _, said = reader(tmp_path, *words, given="another password\n")
        assert code == 2 and "the last administrator" in said and "Traceback" not in said
    assert add("Ada", "administrator") == 0 and add("Root", "reader") == 0
    assert reader(tmp_path, "remove", "Root")[0] == 0
    store = opening.open(str(tmp_path))
    kinds = [(event["kind"], event["who"]) for event in audit.trail(store)]
    assert audit.verify(store)["ok"]
    store.close()
    acts = ["invite", "invite", "password-reset", "role", "account-removed"]
    assert sorted(kinds) == sorted((kind, "command line") for kind in acts)


@pytest.mark.slow
def test_a_short_password_is_named_in_a_sentence(tmp_path):
    code, _, said = reader(tmp_path, "add", "Ada", "--password-stdin", given="short\n")
    assert code == 2 and "at least 8" in said and "Traceback" not in said
