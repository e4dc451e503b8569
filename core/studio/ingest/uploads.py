"""Receives files that users drop on the page, stores each drop in its own folder, and unpacks zip files."""

from __future__ import annotations

import errno
import re
import secrets
import shutil
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from core.studio.db import limits
from core.studio.db.home import Home

LARGEST = 64 * 2**30  # maximum bytes of the unpacked files of a zip
DEEPEST = 32  # maximum number of nested folders
_DAMAGE = (  # errors of `zipfile` for a damaged file; OSError if it seeks to before the start
    zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError, OverflowError, UnicodeError,
    struct.error, zlib.error,
)  # fmt: skip
_OF_NAMES = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.EILSEQ)
_TOKEN = re.compile(r"[0-9a-f]{32}")


class BadDrop(ValueError):
    """Raised if dropped files cannot be imported. The message states the reason."""


def new_drop(home: Home) -> str:
    """Creates an empty folder for a drop (files dropped on the page together); returns the token of the drop."""
    token = secrets.token_hex(16)
    _folder(home, token).mkdir(parents=True)
    return token


def drop_folder(home: Home, token: str) -> Path:
    """Returns the folder with the files of a drop. Raises BadDrop if the token is unknown."""
    folder = _folder(home, token)
    if not folder.is_dir():
        raise BadDrop("these files are no longer here; drop them again")
    return folder


def path_of(home: Home, token: str, name: str) -> Path:
    """Returns the path at which a dropped file is stored, given its relative name. Raises BadDrop if it is invalid."""
    names = [p for p in PurePosixPath(name.replace("\\", "/")).parts if p not in ("/", "")]
    unfit = any(len(p.encode()) > 255 or "\0" in p for p in names)
    if not names or ".." in names or len(names) > DEEPEST or unfit:
        raise BadDrop(f"{name!r} is not a valid file name")
    return drop_folder(home, token).joinpath(*names)


def place(home: Home, token: str, name: str) -> Path:
    """Creates the parent folders of a dropped file; returns the file's path. Raises BadDrop if the name is invalid."""
    target = path_of(home, token, name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _without_place(error, name) from None
    if target.is_dir():
        raise BadDrop(f"{name!r} is already a folder")
    return target


def _without_place(error: OSError, name: str) -> Exception:
    """Returns an error that does not reveal folders of the server, or `error` if the file name is not the cause."""
    if error.errno not in _OF_NAMES:
        return error
    return BadDrop(f"{name[:200]!r} is not a valid file name ({error.strerror})")


def shown(home: Home, token: str, value: Any) -> Any:
    """Returns a report or text with paths relative to the drop, so that no folders of the server are revealed."""
    if isinstance(value, str):
        folder = str(_folder(home, token))
        return value.replace(f"{folder}/", "").replace(folder, "what was dropped")
    if isinstance(value, dict):
        return {key: shown(home, token, inner) for key, inner in value.items()}
    return [shown(home, token, inner) for inner in value] if isinstance(value, list) else value


def size(home: Home, token: str) -> tuple[int, int]:
    """Returns (total bytes of the files in a drop, number of its files and folders)."""
    entries = list(drop_folder(home, token).rglob("*"))
    return sum(p.stat().st_size for p in entries if p.is_file()), len(entries)


class Arriving:
    """Counts the files and bytes that each drop has received, across concurrent uploads.

    All calls must come from the same thread, such as the event loop of a server.
    """

    def __init__(self, home: Home, most: int = 1000):
        self._home, self._most = home, most
        self._held: dict[str, list[int]] = {}

    def place(self, token: str, name: str, limited: bool) -> Path:
        """Counts a file and its new folders, creates the folders, and returns the path of the file.

        Raises BadDrop if the name is invalid, and TooMuch if `limited` is True and there are too many files.
        """
        used, path, root = self._of(token), path_of(self._home, token, name), drop_folder(self._home, token)
        parents = path.parents[: len(path.relative_to(root).parts) - 1]
        try:
            new = 1 + sum(not parent.exists() for parent in parents)
        except OSError as error:
            raise _without_place(error, name) from None
        if limited:
            limits.demand("upload files", used[1], new)
        used[1] += new
        try:
            return place(self._home, token, name)
        except BaseException:
            used[1] -= 1 + sum(not parent.exists() for parent in parents)  # folders that were created still count
            raise

    def add(self, token: str, count: int, limited: bool) -> None:
        """Counts bytes that have arrived. Raises TooMuch if `limited` is True and the total exceeds the limit."""
        used = self._of(token)
        if limited:
            limits.demand("upload bytes", used[0], count)
        used[0] += count

    def forget(self, token: str, count: int) -> None:
        """Subtracts a file of `count` bytes from the counts, because the file was removed."""
        used = self._held.get(token, [0, 0])
        used[0] -= count
        used[1] -= 1

    def _of(self, token: str) -> list[int]:
        if token not in self._held:
            while len(self._held) >= self._most:
                del self._held[next(iter(self._held))]
            self._held[token] = [*size(self._home, token)]
        return self._held[token]


def unpack(home: Home, token: str) -> int:
    """Unpacks and deletes the zip files of a drop; returns the number of files. Raises BadDrop if a zip is damaged."""
    count = 0
    for path in sorted(drop_folder(home, token).rglob("*.zip")):
        try:
            with zipfile.ZipFile(path) as archive:
                files = [m for m in archive.infolist() if not m.filename.endswith("/")]  # is_dir() fails on ""
                members = [m for m in files if not m.filename.startswith("__MACOSX")]
                if sum(m.file_size for m in members) > LARGEST:
                    raise BadDrop(f"{path.name} unpacks to more than {LARGEST >> 30} GiB; import its folder by path")
                for member in members:
                    target = place(home, token, member.filename)
                    with archive.open(member) as source, target.open("wb") as out:
                        shutil.copyfileobj(source, out, 1 << 20)
                    count += 1
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno not in _OF_NAMES:
                raise  # a system error, such as a full disk
            reason = error.strerror if isinstance(error, OSError) else error
            raise BadDrop(f"{path.name} cannot be unpacked: {reason}") from None
        path.unlink()
    return count


def root_of(home: Home, token: str) -> Path:
    """Returns the folder to import. Outer folders that contain only one folder (except train or test) are skipped."""
    folder = drop_folder(home, token)
    while True:
        inside = [p for p in folder.iterdir() if not p.name.startswith(".")]
        if len(inside) != 1 or not inside[0].is_dir() or inside[0].name in ("train", "test"):
            return folder
        folder = inside[0]


def discard(home: Home, token: str) -> None:
    """Deletes a drop and its files. Raises BadDrop if the token is invalid."""
    shutil.rmtree(_folder(home, token), ignore_errors=True)


def _folder(home: Home, token: str) -> Path:
    if not _TOKEN.fullmatch(token):
        raise BadDrop("these files are no longer here; drop them again")
    return home.cache / "dropped" / token
