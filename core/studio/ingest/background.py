"""Imports started from the page: each in a thread of its own, its progress to be asked for, its report kept."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from core.studio.db.store import Store


class ImportStopped(ValueError):
    """An import that somebody stopped before anything of it was written."""


class Imports:
    """The imports of one server. States: {"state": "running"|"done"|"failed", "done", "total", "report"|"error"}."""

    KEPT = 50

    def __init__(self, store: Store):
        self._store = store
        self._tasks: dict[str, dict] = {}
        self._lock = threading.Lock()

    def start(self, work: Callable, key: str) -> str:
        """Starts `work(on_progress)`, which gives the report, a dict with "study". Returns a token for `state`.

        key: what is imported, and how; while an import of the same key runs, its token is given, as at a double click.
        """
        token = secrets.token_hex(8)
        task = {"state": "running", "done": 0, "total": 0, "started": time.time(), "key": key}
        with self._lock:
            for running, other in self._tasks.items():
                if other["state"] == "running" and other["key"] == key:
                    return running
            self._tasks[token] = task
            for old in list(self._tasks)[: -self.KEPT]:
                del self._tasks[old]

        def progress(done: int, total: int) -> None:
            if task.get("stop"):
                raise ImportStopped("The import was stopped; nothing was brought in.")
            task["done"], task["total"] = done, total

        def run() -> None:
            try:
                report = work(progress)
                task.update(state="done", report=report)
            except ValueError as error:
                task.update(state="failed", error=str(error))
            except OSError as error:
                task.update(
                    state="failed", error=f"{error.strerror or error}: {Path(error.filename or '').name}".rstrip(": ")
                )
            except Exception as error:
                task.update(state="failed", error=f"the import ended unexpectedly ({type(error).__name__}: {error})")
                raise
            finally:
                self._store.close()

        threading.Thread(target=run, name=f"import-{token}", daemon=True).start()
        return token

    def stop(self, token: str) -> None:
        """Ends an import at its next image. Raises ValueError if it is not known (any more)."""
        self.state(token)
        self._tasks[token]["stop"] = True

    def state(self, token: str) -> dict:
        """Returns how far an import is. Raises ValueError if it is not known (any more)."""
        if token not in self._tasks:
            raise ValueError("this import is not known any more; look whether its study is in the list")
        return {name: value for name, value in self._tasks[token].items() if name != "key"}
