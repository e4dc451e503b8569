import sqlite3
import subprocess
import sys
import threading

import pytest

from core.studio.db import opening, owners
from core.studio.db.home import BadHome, Home
from tests.conftest import ROOT


def test_a_store_is_wal_with_foreign_keys_and_a_busy_timeout(store):
    assert store.one("PRAGMA journal_mode")["journal_mode"] == "wal"
    assert store.one("PRAGMA foreign_keys")["foreign_keys"] == 1
    assert store.one("PRAGMA busy_timeout")["timeout"] >= 5000


@pytest.mark.slow
def test_processes_may_open_a_new_home_at_once(tmp_path):
    code = "import sys; from core.studio.db.opening import open; print(len(open(sys.argv[1]).db.table_names()))"
    line = [sys.executable, "-c", code, str(tmp_path / "new")]
    started = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [p.communicate() for p in started]
    assert [p.returncode for p in started] == [0] * 4, answers
    assert len({out for out, _ in answers}) == 1


def test_a_new_home_waits_for_who_has_its_file_locked(home):
    home.db.parent.mkdir(parents=True, exist_ok=True)
    other = sqlite3.connect(home.db, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE early (x)")
    other.execute("BEGIN IMMEDIATE")  # for whom SQLite does not wait when the mode is to change
    leaves = threading.Timer(0.3, other.execute, ["COMMIT"])
    leaves.start()
    store = opening.open(home)
    leaves.join()
    assert store.one("PRAGMA journal_mode")["journal_mode"] == "wal"


def test_a_connection_is_closed_with_its_thread(store):
    opened = []

    def ask():
        with store.write():
            store.set_setting("asked", store.setting("asked", 0) + 1)
        opened.append(store.db.conn)

    for _ in range(3):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    for connection in opened:  # held here, so that no garbage collection has closed one
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            _ = connection.total_changes
    assert store.setting("asked") == 3


def test_a_failed_write_leaves_nothing(store):
    with pytest.raises(RuntimeError), store.write():
        store.set_setting("a", 1)
        raise RuntimeError
    assert store.setting("a") is None


def test_writes_nest_and_an_inner_failure_can_be_survived(store):
    with store.write():
        store.set_setting("outer", 1)
        with pytest.raises(RuntimeError), store.write():
            store.set_setting("inner", 1)
            raise RuntimeError
    assert store.setting("outer") == 1
    assert store.setting("inner") is None


def test_counting_up_from_many_threads_loses_nothing(store):
    store.set_setting("n", 0)

    def count():
        for _ in range(20):
            with store.write():
                store.set_setting("n", store.setting("n") + 1)
        store.close()

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.setting("n") == 120


def test_threads_that_write_are_woken_by_the_one_before_and_do_not_ask_again(store):
    """SQLite's busy timeout asks again after pauses of up to 100 ms: where it is 0, whoever would need it fails."""
    start, failed = threading.Barrier(8), []

    def write(name: str) -> None:
        store.db.execute("PRAGMA busy_timeout = 0")
        start.wait()
        try:
            for value in range(20):
                store.set_setting(name, value)
        except sqlite3.OperationalError as error:
            failed.append(error)
        store.close()

    threads = [threading.Thread(target=write, args=[f"writer {n}"]) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and [store.setting(f"writer {n}") for n in range(8)] == [19] * 8


def test_a_home_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadHome, match="--home"):
        Home.at(tmp_path / "file" / "home")


def test_a_read_is_one_statement(store):
    said: list[str] = []
    store.db.conn.set_trace_callback(said.append)
    assert store.query("SELECT 1 AS a, ? AS b", ["c"]) == [{"a": 1, "b": "c"}]
    assert len(said) == 1, "a savepoint around each read cost a decision two thirds of its time under load"


def test_a_statement_that_returns_what_it_wrote_is_committed(store):
    sql = "INSERT INTO settings (key, value) VALUES ('k', '1') RETURNING key"
    assert store.query(sql) == [{"key": "k"}] and not store.db.conn.in_transaction


@pytest.mark.slow
def test_a_second_store_of_a_process_leaves_the_locks_of_the_first(home):
    """POSIX locks are of the process: whoever opens and closes the file by hand lets go of all of them, and another
    process then takes itself for the last one and removes the log that the first still reads."""
    first, second = opening.open(home), opening.open(home)
    assert first.setting("x") is None and second.setting("x") is None
    code = (
        "import sys; from core.studio.db.opening import open; s = open(sys.argv[1]); s.set_setting('x', 1); s.close()"
    )
    subprocess.run([sys.executable, "-c", code, str(home.path)], check=True, cwd=ROOT)
    assert home.db.with_name(home.db.name + "-wal").exists()
    assert first.setting("x") == 1 and second.setting("x") == 1
    second.close()
    first.close()


@pytest.mark.slow
def test_a_worker_starts_without_pandas_which_can_be_loaded_later():
    code = "import sys, core.studio.jobs.worker; print('pandas' in sys.modules); import pandas; print(pandas.Series)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.split("\n")[0] == "False"


def test_the_first_who_made_a_thing_stays_its_owner_until_the_thing_is_gone(store):
    owners.set_owner(store, "run", ["a", "b"], "ann")
    owners.set_owner(store, "run", ["b", "c"], "ben")
    owners.set_owner(store, "map", ["a"], "ben")
    assert [owners.owner(store, "run", i) for i in "abcd"] == ["ann", "ann", "ben", None]
    assert owners.owned(store, "run", "ann") == ["a", "b"]
    owners.forget_owner(store, "run", "a")
    assert owners.owner(store, "run", "a") is None and owners.owner(store, "map", "a") == "ben"
