"""Faults of files: imports cut short, damaged arrays and weights, hostile bundles, sessions that ended."""

from __future__ import annotations

import errno
import shutil
import zipfile
from pathlib import Path

import cv2
import numpy as np

from core.engine.files import MAKING
from core.studio.bundle import export_bundle, import_bundle
from core.studio.db import leftovers, opening
from core.studio.db.home import Home
from core.studio.db.seals import Damaged
from core.studio.db.store import Store
from core.studio.ingest.cache import load_arrays
from core.studio.ingest.studies import import_study
from core.studio.review import people
from core.studio.runs import records as runs
from core.studio.runs import weights
from tests.benches._fault import Outcome, Place, killed

IMPORTING = """
import sys
from core.studio.db.home import Home
from core.studio.db import opening
from core.studio.db.store import Store
from core.studio.ingest.studies import import_study
store = opening.open(Home.at(sys.argv[1]))
print("ready", flush=True)
import_study(store, "s", sys.argv[2], copy=True, size=32)
"""


def _images(place: Place, count: int = 24) -> Path:
    folder = place.folder / "images"
    folder.mkdir(exist_ok=True)
    for i in range(count):
        pixels = np.frombuffer(place.draw.randbytes(48 * 64 * 3), np.uint8).reshape(48, 64, 3)
        cv2.imwrite(str(folder / f"{i:03}.png"), pixels)
    return folder


def _files(store: Store) -> set[str]:
    """Names of all files of a home but the database's."""
    inside = (p.relative_to(store.home.path).as_posix() for p in store.home.path.rglob("*") if p.is_file())
    return {name for name in inside if not name.startswith("studio.sqlite")}


def killed_while_importing(place: Place) -> Outcome:
    """Kills an import at a random moment: the study is whole or not there, and what is left over goes."""
    outcome = Outcome("killed while importing")
    folder = _images(place)
    for number in range(place.tries):
        home = place.folder / f"home-{number}"
        wait = place.draw.uniform(0.0, 0.6)
        killed(IMPORTING, [str(home), str(folder)], lambda n: n == 1, wait)
        with outcome.timed():
            store = opening.open(Home.at(home))  # not place's, which makes a study `s` where there is none
            leftovers.sweep(store, older=0)
            there = store.first("SELECT count(*) AS n FROM cases WHERE path LIKE '%/files/s/%'")["n"]
            files = len([name for name in _files(store) if name.startswith("files/")])
            outcome.lost += there not in (0, 24)
            outcome.leaked += abs(files - there) + len(list(store.home.path.rglob(f"{MAKING}*")))
        store.close()
        shutil.rmtree(home)
    return outcome


def disk_full_while_importing(place: Place) -> Outcome:
    """Fills the disk up at a random file of an import.

    Nothing of the import is left, and it succeeds once there is room.
    """
    outcome = Outcome("disk full while importing")
    folder = _images(place)
    store = place.home()
    before, real = _files(store), shutil.copy2
    for number in range(place.tries):
        left = [place.draw.randrange(24)]

        def copy2(source: Path, target: Path, left=left) -> object:
            if not left[0]:
                Path(target).write_bytes(b"half")
                raise OSError(errno.ENOSPC, "No space left on device", str(target))
            left[0] -= 1
            return real(source, target)

        shutil.copy2 = copy2  # type: ignore[assignment]
        try:
            import_study(store, f"n{number}", folder, copy=True)
            outcome.leaked += 1
        except OSError:
            pass
        finally:
            shutil.copy2 = real
        outcome.leaked += len(_files(store) - before) + bool(store.one("SELECT 1 FROM studies WHERE id != 's'"))
        with outcome.timed():
            outcome.lost += import_study(store, f"m{number}", folder, copy=True).accepted != 24
        store.execute("DELETE FROM studies WHERE id != 's'")
        shutil.rmtree(store.home.files / f"m{number}")
    store.close()
    return outcome


def damaged_arrays(place: Place) -> Outcome:
    """Changes or cuts prepared images at a random byte: they are made again, and are what they were."""
    outcome = Outcome("prepared images damaged")
    store = place.home()
    import_study(store, "n", _images(place))
    whole = np.array(load_arrays(store, "n", 32).images)
    for _ in range(place.tries):
        file = next(store.home.cache.glob("n/32-*/images.npy"))
        content = bytearray(file.read_bytes())
        at = place.draw.randrange(len(content))
        content[at] ^= place.draw.randrange(1, 256)
        file.write_bytes(content if at % 2 else content[:at])
        with outcome.timed():
            outcome.lost += not np.array_equal(load_arrays(store, "n", 32).images, whole)
    store.close()
    return outcome


def damaged_weights(place: Place) -> Outcome:
    """Changes or cuts a detector's file at a random byte: it is refused before it is used."""
    outcome = Outcome("weights damaged")
    store = place.home()
    run = runs.create_run(store, "s", "fit", "padim", {})
    file = runs.run_folder(store, run) / "padim.safetensors"
    whole = place.draw.randbytes(300_000)
    for _ in range(place.tries):
        file.write_bytes(whole)
        weights.seal(file.parent)
        at = place.draw.randrange(len(whole))
        file.write_bytes(whole[:at] + (bytes([whole[at] ^ 1]) + whole[at + 1 :] if at % 2 else b""))
        with outcome.timed():
            try:
                weights.check(store, run)
                outcome.leaked += 1
            except Damaged:
                pass
    store.close()
    return outcome


def hostile_bundles(place: Place) -> Outcome:
    """Brings in bundles with one entry changed, cut or added outside their folder.

    Each is refused, and the home is as it was.
    """
    outcome = Outcome("hostile bundle brought in")
    store = place.home()
    import_study(store, "n", _images(place))
    export_bundle(store, "n", place.folder / "n.zip", "bench")
    with zipfile.ZipFile(place.folder / "n.zip") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    target = place.home("other")
    before = (_files(target), set(place.folder.rglob("*")), list(target.db.conn.iterdump()))
    for number in range(place.tries):
        name = place.draw.choice(sorted(entries))
        content, extra = entries[name], {}
        if number % 3 == 0:
            content = content[: place.draw.randrange(len(content))]
        elif number % 3 == 1:
            at = place.draw.randrange(len(content))
            content = content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]
        else:
            extra = {place.draw.choice(("../out.png", "/tmp/pmsacl-out.png", "images/../../out", "C:\\out")): b"x"}
        hostile = place.folder / "hostile.zip"
        with zipfile.ZipFile(hostile, "w") as archive:
            for other, data in (entries | {name: content} | extra).items():
                archive.writestr(other, data)
        with outcome.timed():
            try:
                import_bundle(target, hostile, "bench")
                outcome.leaked += 1
            except ValueError:
                pass
        hostile.unlink()
    after = (_files(target), set(place.folder.rglob("*")), list(target.db.conn.iterdump()))
    outcome.leaked += sum(a != b for a, b in zip(before, after, strict=True)) + Path("/tmp/pmsacl-out.png").exists()
    store.close()
    target.close()
    return outcome


def ended_sessions(place: Place) -> Outcome:
    """Signs readers out, gives them a new password or removes them: the cookie's secret opens nothing any more."""
    outcome = Outcome("session ended")
    store = place.home()
    for number in range(place.tries):
        name = f"reader{number}"
        people.add_reader(store, name, "a long password", "reader")
        secret = people.start_sign_in(store, name, 12)
        outcome.lost += people.reader_of_sign_in(store, secret) != name
        with outcome.timed():
            if number % 3 == 0:
                people.end_sign_in(store, secret)
            elif number % 3 == 1:
                people.add_reader(store, name, "another long password", "reader")
            else:
                people.remove_reader(store, name)
            outcome.leaked += people.reader_of_sign_in(store, secret) is not None
    store.close()
    return outcome


FAULTS = (
    killed_while_importing,
    disk_full_while_importing,
    damaged_arrays,
    damaged_weights,
    hostile_bundles,
    ended_sessions,
)
