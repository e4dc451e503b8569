"""Reads and writes the SQLite database of a home (WAL mode, foreign keys). `opening.open` creates and migrates it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from core.studio.db.home import Home

# sqlite-utils would load pandas for time stamps, which are not used here; that takes two thirds of the start-up time of
# a command or worker. A module that is marked as absent is not searched for.
_PANDAS = sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]
import sqlite_utils  # noqa: E402

if _PANDAS is None:
    del sys.modules["pandas"]

BUSY_SECONDS = 30

Row: TypeAlias = dict[str, Any]
Params: TypeAlias = Sequence[Any] | dict[str, Any]


_CUT = re.compile(r"\d+ requested and \d+ written")  # error message of ndarray.tofile, which has no errno


class NotFound(ValueError):
    """Raised if a requested study, run, case, job or trial is unknown."""


def now() -> str:
    """Returns the current UTC time in ISO 8601 with milliseconds; such times can be sorted as text."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _opened(conn: sqlite3.Connection) -> sqlite_utils.Database:
    """Returns the database of a connection, and closes the connection when the database is no longer referenced.

    A connection and its statement cache refer to each other, so the connection would otherwise keep its files and pages
    (2 MB) until the next full garbage collection, which may take hours in a server.
    """
    db = sqlite_utils.Database(conn)
    weakref.finalize(db, _close, conn).atexit = False
    return db


def _close(conn: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.ProgrammingError):  # another thread's connection is closed by garbage collection
        conn.close()


def _log_ahead(conn: sqlite3.Connection) -> None:
    """Sets the journal mode WAL, so that readers do not wait for writers.

    The mode is stored in the file. If several processes set the mode in a new file at once, SQLite reports the file as
    locked to all but one of them, regardless of the busy timeout, so they try again.
    """
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            conn.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)


class Store:
    """Database of a home. `opening.open` returns a store whose database has the latest schema.

    Each thread has its own connection, which is closed when the thread ends. Threads can share a store, but forked
    processes cannot.
    """

    def __init__(self, home: Home):
        self.home = home
        self._local = threading.local()
        self._opened = False
        # Threads of one process take turns by this lock, each woken by the previous one. With SQLite alone they would
        # retry after pauses of up to 100 ms, which are longest for threads that have already waited long.
        self._turn = threading.Lock()

    @classmethod
    def reading(cls, file: Path) -> Store:
        """Opens a database file read-only, without migrating it."""
        store = cls(Home(file.parent))
        store._opened = True
        store._local.db = _opened(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True))
        return store

    @property
    def db(self) -> sqlite_utils.Database:
        """The database connection of this thread, opened on first use."""
        db = getattr(self._local, "db", None)
        if db is None:
            if not self._opened:
                # Created here because SQLite would let other accounts read it; -wal and -shm get the same permissions.
                # An existing file is not opened: closing it would release all locks of this process on it (POSIX).
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(self.home.db, os.O_CREAT | os.O_EXCL, 0o600))
            # mode=rw does not create a database that was deleted meanwhile: a deleted home stays deleted.
            conn = sqlite3.connect(f"{self.home.db.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)
            self._opened = True
            _log_ahead(conn)
            conn.execute("PRAGMA synchronous=FULL")  # reviews confirmed as saved survive a power failure
            conn.execute("PRAGMA foreign_keys=ON")
            db = self._local.db = _opened(conn)
        return db

    def query(self, sql: str, params: Params = ()) -> list[Row]:
        """Executes a statement and returns its rows as dictionaries. A statement that also writes is committed."""
        db = self.db
        if not sql.startswith("SELECT "):
            return list(db.query(sql, params))
        # sqlite-utils wraps each query in a savepoint, which makes three statements, each of which releases the
        # interpreter lock. The page makes about fifty queries per decision, so plain reads are executed directly.
        cursor = db.conn.execute(sql, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def columns(self, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """Returns a query's result as one tuple per column; for many rows, this is ten times as fast as `query`."""
        cursor = self.db.conn.execute(sql, params)
        rows = cursor.fetchall()
        return [tuple(map(itemgetter(i), rows)) for i in range(len(cursor.description))]

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """Returns the first row of a query, or None if there is no row."""
        rows = self.query(sql, params)
        return rows[0] if rows else None

    def first(self, sql: str, params: Params = ()) -> Row:
        """Returns the first row of a query. Raises NotFound if there is no row."""
        row = self.one(sql, params)
        if row is None:
            raise NotFound(f"no row matches the query: {sql}")
        return row

    def execute(self, sql: str, params: Params = ()) -> sqlite3.Cursor:
        """Executes a statement that writes. It is committed immediately or, inside `write()`, with that transaction."""
        with self.write() as db:
            return db.execute(sql, params)

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite_utils.Database]:
        """Opens a transaction that holds the write lock from the start, so that nobody can change what it has read.

        Nested calls join the outer transaction. Raises RuntimeError inside `snapshot`, because another writer may have
        committed since the snapshot began.
        """
        db = self.db
        if db.conn.in_transaction:
            if self.in_snapshot:
                raise RuntimeError("a read transaction (`snapshot`) cannot write: call `write` outside of it")
            with db.atomic():
                yield db
            return
        acts: list[Callable[[], object]] = []
        self._local.after = acts
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise sqlite3.OperationalError("database is locked")
        try:
            with self._transaction(db, "BEGIN IMMEDIATE"):
                yield db
        finally:
            self._turn.release()
        for act in acts:
            act()

    def after(self, act: Callable[[], object]) -> None:
        """Calls `act` after this thread's transaction has been committed, but not if it is rolled back.

        Outside of a transaction, `act` is called immediately.
        """
        if self.db.conn.in_transaction:
            self._local.after.append(act)
        else:
            act()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Opens a read transaction in which all queries see the same state. Nested calls join the outer transaction."""
        db = self.db
        if db.conn.in_transaction:
            yield
            return
        with self._transaction(db, "BEGIN"):
            self._local.snapshot = True
            try:
                yield
            finally:
                self._local.snapshot = False

    @property
    def in_snapshot(self) -> bool:
        """Whether this thread is inside `snapshot`."""
        return getattr(self._local, "snapshot", False)

    @staticmethod
    @contextlib.contextmanager
    def _transaction(db: sqlite_utils.Database, begin: str) -> Iterator[None]:
        db.conn.execute(begin)
        try:
            yield
        except BaseException:
            db.rollback()
            raise
        db.conn.execute("COMMIT")

    def setting(self, key: str, default: Any = None) -> Any:
        """Returns the value of a setting, or `default` if the setting does not exist."""
        row = self.one("SELECT value FROM settings WHERE key = ?", [key])
        return default if row is None else json.loads(row["value"])

    def set_setting(self, key: str, value: Any) -> None:
        """Sets the setting `key` to a JSON-compatible value."""
        with self.write() as db:
            db.table("settings").upsert({"key": key, "value": json.dumps(value)}, pk="key")

    def close(self) -> None:
        """Closes this thread's connection."""
        db = getattr(self._local, "db", None)
        if db is not None:
            db.conn.close()
            self._local.db = None


def is_full(error: BaseException) -> bool:
    """Returns whether an error, or one of its causes, means that the disk is full."""
    text = str(error)
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in text
    if full or os.strerror(errno.ENOSPC) in text or _CUT.search(text):
        return True
    before = error.__cause__ or error.__context__
    return before is not None and is_full(before)


def parsed(row: Row, *columns: str) -> Row:
    """Returns a copy of a row in which the JSON text of the given columns is parsed."""
    return {k: json.loads(v) if k in columns and isinstance(v, str) else v for k, v in row.items()}
