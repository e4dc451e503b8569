"""Files and folders are whole or absent, whoever writes them at once and whenever a writer is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from core.engine import files

SPAWN = multiprocessing.get_context("spawn")
LONG_NAME = "a" * 251 + ".npy"
NAMES = ("a.npy", LONG_NAME, ".hidden", "with space", "e\u0301\u6f22.png")


def write_one_of(path: Path, times: int, value: int) -> None:
    """Replaces a mapped array `times` times by one of another length, and reads what is there in between."""
    for i in range(times):
        with files.replacing(path) as own, own.open("wb") as out:
            np.save(out, np.full(1000 + 500 * (value + i) % 5000, value))
        assert len(set(files.mapped(path).tolist())) == 1


def build_once(path: Path, log: Path) -> bytes:
    def make(own: Path) -> None:
        with log.open("a") as out:
            out.write("made\n")
        own.write_bytes(b"content")

    return files.built(path, path.read_bytes, make)


@pytest.mark.parametrize("name", NAMES)
def test_replacing_gives_the_name_to_what_is_whole(tmp_path, name):
    for content in (b"first", b"second, longer"):
        with files.replacing(tmp_path / name) as own:
            own.write_bytes(content)
            assert own.name == name and (tmp_path / name).exists() == (content != b"first")
        assert (tmp_path / name).read_bytes() == content
    assert os.listdir(tmp_path) == [name]


def test_replacing_leaves_all_as_it_was_when_the_block_fails_or_writes_nothing(tmp_path):
    files.write_bytes(tmp_path / "a", b"first")
    with pytest.raises(RuntimeError), files.replacing(tmp_path / "a") as own:
        own.write_bytes(b"second")
        raise RuntimeError
    with files.replacing(tmp_path / "a"):
        pass
    assert (tmp_path / "a").read_bytes() == b"first" and os.listdir(tmp_path) == ["a"]


def test_replacing_takes_what_is_written_beside_along(tmp_path):
    with files.replacing(tmp_path / "a.npy") as own:
        own.write_bytes(b"array")
        own.with_name("a.npy.seal").write_bytes(b"seal")
    assert sorted(os.listdir(tmp_path)) == ["a.npy", "a.npy.seal"]


def test_replacing_gives_a_file_the_rights_that_it_was_written_with(tmp_path):
    with files.replacing(tmp_path / "key") as own:
        own.touch(0o600)
    files.write_bytes(tmp_path / "plain", b"")
    (tmp_path / "other").touch()
    rights = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("key", "plain", "other")}
    assert rights["key"] == 0o600 and rights["plain"] == rights["other"]


def test_replacing_a_folder_whose_files_are_mapped(tmp_path):
    mapped = []
    for value in range(3):
        with files.replacing(tmp_path / "set") as own:
            own.mkdir()
            np.save(own / "a.npy", np.full(100_000 // (value + 1), value))
        mapped.append(files.mapped(tmp_path / "set/a.npy"))
    assert [int(array.sum()) for array in mapped] == [0, 50_000, 66_666] and os.listdir(tmp_path) == ["set"]


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.asfortranarray(np.ones((3, 2), np.float32))])
def test_mapped_is_the_array_that_was_saved(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    found = files.mapped(tmp_path / "a.npy")
    assert isinstance(found, np.memmap) and not found.flags.writeable and found.flags.fnc == array.flags.fnc
    np.testing.assert_array_equal(found, array)


def test_replacing_by_threads_and_processes(tmp_path):
    path = tmp_path / "a.npy"
    processes = [SPAWN.Process(target=write_one_of, args=(path, 15, value)) for value in range(2)]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(write_one_of, path, 15, value) for value in range(2, 8)]:
            done.result()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0] and os.listdir(tmp_path) == ["a.npy"]


def test_built_makes_once_for_threads_and_processes(tmp_path):
    path, log = tmp_path / "made/a", tmp_path / "log"
    with ThreadPoolExecutor(8) as threads, SPAWN.Pool(2) as processes:
        asked = [processes.apply_async(build_once, (path, log)) for _ in range(4)]
        found = [done.result() for done in [threads.submit(build_once, path, log) for _ in range(8)]]
        found += [done.get() for done in asked]
    assert set(found) == {b"content"} and log.read_text() == "made\n" and os.listdir(path.parent) == ["a"]


def test_built_lets_the_next_one_make_it_when_the_first_fails(tmp_path):
    calls: list[Path] = []

    def make(own: Path) -> None:
        calls.append(own)
        if len(calls) == 1:
            raise RuntimeError
        own.write_text("made")

    with pytest.raises(RuntimeError):
        files.built(tmp_path / "a", (tmp_path / "a").read_text, make)
    assert files.built(tmp_path / "a", (tmp_path / "a").read_text, make) == "made" and calls[0] != calls[1]
    with pytest.raises(FileNotFoundError, match="cannot be read"):
        files.built(tmp_path / "b", lambda: None, Path.touch)


def test_locked_is_one_at_a_time(tmp_path):
    inside, most = 0, 0
    guard = threading.Lock()

    def enter() -> None:
        nonlocal inside, most
        for _ in range(10):
            with files.locked(tmp_path / "a"):
                with guard:
                    inside += 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(enter) for _ in range(8)]:
            done.result()
    assert most == 1 and os.listdir(tmp_path) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from core.engine import files
with files.replacing(Path(sys.argv[1])) as own:
    own.write_bytes(b"half")
    print("writing", flush=True)
    sys.stdin.read() if len(sys.argv) > 2 else os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("by", ["sweep", "the next writer"])
def test_what_a_killed_writer_left_is_removed(tmp_path, by):
    target = tmp_path / "cache/a.npy"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(target)], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists() and len(os.listdir(target.parent)) == 1
    if by == "sweep":
        assert files.sweep(tmp_path) == ["a.npy"] and os.listdir(target.parent) == []
    else:
        files.write_bytes(target, b"whole")
        assert os.listdir(target.parent) == ["a.npy"]


@pytest.mark.slow
def test_sweep_leaves_a_writer_at_work(tmp_path):
    line = [sys.executable, "-c", KILLED, str(tmp_path / "a"), "wait"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"writing\n"
        assert files.sweep(tmp_path) == []
        writer.communicate()
    assert writer.returncode == 0 and (tmp_path / "a").read_bytes() == b"half" and os.listdir(tmp_path) == ["a"]
