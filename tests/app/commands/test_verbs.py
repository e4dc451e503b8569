"""The verbs, as a user meets them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.commands import main, parser
from app.commands._common import options_of, table
from app.commands.training import pretrain_config
from core.engine.augment.config import MEDMIX_PRESETS
from core.studio.db import audit, opening

ROOT = Path(__file__).resolve().parents[3]
VERBS = ("app", "demo", "setup", "study", "pretrain", "fit", "score", "evaluate", "jobs", "doctor")


def call(capsys, *argv):
    """(status, stdout, stderr)"""
    try:
        status = main(list(argv))
    except SystemExit as end:
        status = end.code
    return status, *capsys.readouterr()


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help(capsys, verb):
    status, out, _ = call(capsys, verb, "--help")
    assert status == 0 and "usage" in out
    status, out, _ = call(capsys, *([verb, "import"] if verb == "study" else [verb]), "--help")
    assert all(option in out for option in ("--home", "--device", "--json"))


def test_without_a_verb_the_page_opens(monkeypatch):
    seen = []
    monkeypatch.setattr("app.commands.page.open_page", lambda args, tour=False: seen.append(args.port) or 0)
    assert main([]) == 0 and main(["--port", "7999"]) == 0
    assert seen == [7860, 7999]


def test_import_list_and_show(capsys, tiny_folder, home):
    (tiny_folder / "train/normal/bad.png").write_text("x")
    status, out, err = call(capsys, "study", "import", "tiny", str(tiny_folder), "--json", "--home", str(home.path))
    report = json.loads(out.splitlines()[-1])
    assert status == 0 and report["accepted"] == 36 and len(report["rejected"]) == 1
    assert "bad.png" in err and "looks like text" in err
    status, out, _ = call(capsys, "study", "list", "--json", "--home", str(home.path))
    assert [s["id"] for s in json.loads(out)["studies"]] == ["tiny"]
    status, out, _ = call(capsys, "study", "show", "tiny", "--home", str(home.path))
    assert status == 0 and "6 test abnormal" in out


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["study", "show", "nobody"], "unknown study 'nobody'"),
        (["study", "import", "x", "/nowhere/at/all"], "does not exist"),
        (["pretrain", "nobody"], "unknown study"),
        (["fit", "nobody"], "unknown run"),
        (["score", "nobody"], "unknown run"),
        (["evaluate", "nobody"], "unknown study"),
        (["jobs", "pause"], "number of a job"),
        (["jobs", "pause", "7"], "unknown job 7"),
        (["demo", "--device", "abacus"], "not one of auto, cpu"),
    ],
)
def test_a_users_mistake_is_a_sentence_and_status_2(capsys, argv, sentence):
    status, out, err = call(capsys, *argv, "--json")
    assert status == 2
    assert sentence in json.loads(out.splitlines()[-1])["error"] and sentence in err
    assert "Traceback" not in err


def test_options_and_their_mistakes(capsys, tiny_study, home):
    def mistake(*argv):
        status, _, err = call(capsys, "pretrain", tiny_study, "--home", str(home.path), *argv)
        assert status == 2
        return err

    assert "KEY=VALUE" in mistake("--set", "lr")
    assert "has no nonsense" in mistake("--set", "nonsense=1")
    assert "must be of type float" in mistake("--set", "lr=fast")
    assert "unknown preset" in mistake("--preset", "grand")
    assert "choose from: paper, quick" in mistake("--medmix", "grand")
    assert options_of(["lr=0.1", "medmix.k=2", "centres=random"]) == {"lr": 0.1, "medmix.k": 2, "centres": "random"}


def test_what_is_pasted_is_a_preset_with_changes(store):
    line = ["pretrain", "any", "--medmix", "fundus", "--set", "medmix.p_noise=0.5"]
    found = pretrain_config(parser().parse_args(line), store).medmix
    assert found == MEDMIX_PRESETS["fundus"].replace(p_noise=0.5) != MEDMIX_PRESETS["quick"].replace(p_noise=0.5)


def test_what_is_broken_is_kept_in_a_file_and_is_status_1(capsys, monkeypatch, home):
    monkeypatch.setattr("core.studio.ingest.studies.list_studies", lambda store: 1 / 0)
    status, _, err = call(capsys, "study", "list", "--home", str(home.path))
    assert status == 1 and "Traceback" not in err and "errors.log" in err
    assert "ZeroDivisionError" in (home.path / "errors.log").read_text()


@pytest.mark.long
def test_the_untrained_way_by_verbs(capsys, tiny_study, home):
    def verb(*argv):
        status, out, err = call(capsys, *argv, "--home", str(home.path), "--device", "cpu", "--json")
        assert status == 0, err
        return json.loads(out.splitlines()[-1])

    encoder = verb("pretrain", tiny_study, "--objective", "untrained", "--size", "32")["run"]
    fit = verb("fit", encoder, "--detector", "padim", "--set", "channels=20", "--score")["run"]
    found = verb("evaluate", fit, "--bootstrap", "20", "--roi", "yes", "--protocol", "both")
    assert set(found) == {"study", "seconds", "rows"}
    detectors = [(r["detector"], r["protocol"]) for r in found["rows"]]
    assert detectors == [(d, p) for d in ("padim", "mean-colour") for p in ("held-out", "paper")]
    assert [j["status"] for j in verb("jobs")["jobs"]] == ["done", "done"]
    text = call(capsys, "evaluate", tiny_study, "--format", "csv", "--bootstrap", "20", "--home", str(home.path))[1]
    assert "auroc_ci_low" in text.splitlines()[0] and len(text.splitlines()) == 5


@pytest.mark.slow
def test_the_demo_is_there_where_a_verb_names_it(capsys, home):
    for _ in range(2):  # once is enough; what else is asked for is wrong, so that no job begins
        line = ["report", "--study", "demo", "--tables", "none", "--home", str(home.path)]
        status, _, err = call(capsys, *line)
        assert status == 2 and "none" in err
    _, out, _ = call(capsys, "study", "list", "--json", "--home", str(home.path))
    assert [s["id"] for s in json.loads(out)["studies"]] == ["demo"]
    status, _, err = call(capsys, "report", "--study", "demo-1", "--home", str(home.path))
    assert status == 2 and "unknown study 'demo-1'" in err


def test_doctor(capsys, tiny_study, tiny_folder, home):
    assert call(capsys, "doctor", "--home", str(home.path), "--device", "cpu")[0] == 0
    assert call(capsys, "doctor", "--home", str(home.path), "--device", "cuda:77")[0] == 1, "a finding, no refusal"
    (tiny_folder / "train/normal/n001.png").unlink()
    status, out, _ = call(capsys, "doctor", "--home", str(home.path), "--device", "cpu", "--json")
    found = json.loads(out.splitlines()[-1])
    assert status == 1 and not found["well"]
    assert [f["check"] for f in found["findings"] if f["level"] == "bad"] == ["images"]


def test_a_table_has_aligned_columns():
    lines = table([{"a": 0.12345, "b": True}, {"a": None, "b": "x"}], ["a", "b"]).splitlines()
    assert lines == ["a      b", "0.123  yes", "-      x"]


@pytest.mark.slow
def test_the_parser_is_light():
    """`--help` must not wait for large libraries."""
    code = "import sys; from app.commands import parser; parser(); print({*sys.argv[1:]} & {*sys.modules})"
    line = [sys.executable, "-c", code, "torch", "gradio", "numpy", "pandas", "sqlite_utils"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr
    assert set(VERBS) <= set(parser()._subparsers._group_actions[0].choices)


# The door itself.


def test_the_page_of_verbs_names_every_verb_detector_and_experiment():
    from core.engine.registry import DETECTORS
    from tests.benches.experiments.plans import EXPERIMENTS

    page = (ROOT / "app/README.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    verbs = set(" ".join(rows).replace("`", " ").replace(",", " ").split())
    assert set(parser()._subparsers._group_actions[0].choices) <= verbs
    assert [name for name in (*DETECTORS.names(), *EXPERIMENTS) if f"`{name}`" not in page] == []


def test_an_option_declared_in_one_place_is_a_flag_with_its_words():
    from argparse import ArgumentParser
    from dataclasses import dataclass

    from app.commands._common import option_flags
    from core.engine.config import Config, option

    @dataclass(frozen=True)
    class Sample(Config):
        how_many: int = option(3, "At 50 %, fewer are enough.", low=1, high=7, unit="pixels", label="How many")

    command = ArgumentParser()
    option_flags(Sample, "how_many")(command)
    assert "How many, in pixels, within 1..7. At 50 %, fewer are enough." in " ".join(command.format_help().split())
    assert command.parse_args(["--how-many", "5"]).how_many == 5


@pytest.fixture
def reader(capsys, home, monkeypatch):
    """reader("add", "Ada", given="what is typed") -> status, the JSON printed, stderr."""

    def run(*words: str, given: str = "") -> tuple[int, dict, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        status, out, err = call(capsys, "reader", *words, "--home", str(home.path), "--json")
        return status, json.loads(out.splitlines()[-1]), err

    return run


def test_reader_add_list_remove(reader):
    assert reader("add", "Ada", "--password-stdin", given="a long password\n")[0] == 0
    code, found, _ = reader("list")
    assert code == 0 and [(r["name"], r["role"], r["active"]) for r in found["readers"]] == [("Ada", "reader", 1)]
    assert reader("remove", "Ada")[0] == 0
    assert [r["active"] for r in reader("list")[1]["readers"]] == [0]


def test_the_last_administrator_stays_and_each_act_is_in_the_audit_trail(reader, home):
    def add(name: str, role: str) -> int:
        return reader("add", name, "--role", role, "--password-stdin", given="a long password\n")[0]

    assert add("Root", "administrator") == 0
    for words in (("remove", "Root"), ("add", "Root", "--password-stdin")):
        code, _, said = reader(*words, given="another password\n")
        assert code == 2 and "the last administrator" in said and "Traceback" not in said
    assert add("Ada", "administrator") == 0 and add("Root", "reader") == 0
    assert reader("remove", "Root")[0] == 0
    store = opening.open(home)
    kinds = [(event["kind"], event["who"]) for event in audit.trail(store)]
    assert audit.verify(store)["ok"]
    store.close()
    acts = ["invite", "invite", "password-reset", "role", "account-removed"]
    assert sorted(kinds) == sorted((kind, "command line") for kind in acts)


def test_a_short_password_is_named_in_a_sentence(reader):
    code, _, said = reader("add", "Ada", "--password-stdin", given="short\n")
    assert code == 2 and "at least 8" in said and "Traceback" not in said
