"""Runs imports that users start on the page, each in its own thread, and keeps their progress and reports."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from core.studio.db.store import NotFound, Store
from core.studio.ingest.layouts import Question


class ImportStopped(ValueError):
    """Raised if a user stops an import before anything is stored."""


@dataclass
class Reply:
    """Answers of a user to the questions that an import asks."""

    answers: dict[str, str] = field(default_factory=dict)  # class of each group
    again: bool | None = None  # whether erased images are imported again, or None if that is not answered
    given: bool = False  # whether the user has answered


class Imports:
    """Runs the imports of a server. An import in the state "asked" waits for a call of `answer`, then starts again."""

    KEPT = 50
    _HIDDEN = ("key", "work", "reply", "forget", "samples")

    def __init__(self, store: Store):
        self._store = store
        self._tasks: dict[str, dict] = {}
        self._lock = threading.Lock()

    def start(
        self, work: Callable, key: str, reply: Reply | None = None, forget: Callable[[], object] = lambda: None
    ) -> str:
        """Starts an import in a thread and returns its token. `work(on_progress)` does the import and returns a report.

        key: Key of the import. If an import with this key is running (after a double click), its token is returned.
        reply: Object that passes the user's answers to `work`.
        forget: Function that is called if the import is stopped or discarded while it waits for an answer.
        """
        token = secrets.token_hex(8)
        task = {"state": "running", "done": 0, "total": 0, "started": time.time(), "key": key}
        task |= {"work": work, "reply": reply or Reply(), "forget": forget}
        with self._lock:
            for running, other in self._tasks.items():
                if other["state"] == "running" and other["key"] == key:
                    return running
            self._tasks[token] = task
            old = [self._tasks.pop(name) for name in list(self._tasks)[: -self.KEPT]]
        for other in old:
            if other["state"] == "asked":
                other["forget"]()
        self._run(token, task)
        return token

    def answer(self, token: str, answers: dict[str, str], again: bool | None) -> None:
        """Stores answers and restarts the import. Raises ValueError if the import is not waiting for an answer."""
        with self._lock:
            task = self._asked(token)
            reply = task["reply"]
            reply.answers |= answers
            reply.again, reply.given = reply.again if again is None else again, True
            task.update(state="running", done=0, total=0)
        self._run(token, task)

    def sample(self, token: str, group: int, number: int) -> Path:
        """Returns the path of a sample image by the indices `group` and `number`. Raises NotFound if it is missing."""
        try:
            return self._asked(token)["samples"][group][number]
        except IndexError:
            raise NotFound("there is no such image in this import") from None

    def _asked(self, token: str) -> dict:
        if self.state(token)["state"] != "asked":
            raise ValueError("this import no longer waits for an answer")
        return self._tasks[token]

    def _run(self, token: str, task: dict) -> None:
        def progress(done: int, total: int) -> None:
            if task.get("stop"):
                raise ImportStopped("The import was stopped; nothing was imported.")
            task["done"], task["total"] = done, total

        def run() -> None:
            try:
                report = task["work"](progress)
                task.update(state="done", report=report)
            except Question as question:
                listed = [{**vars(g), "samples": len(g.samples)} for g in question.groups]
                question_fields = {"layout": question.layout, "groups": listed, "erased": question.erased}
                task.update(samples=[g.samples for g in question.groups], question=question_fields, state="asked")
                if task.get("stop"):
                    self.stop(token)
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

    def stop(self, token: str) -> None:
        """Stops an import at the next file, or at once if it waits. Raises ValueError if the import is unknown."""
        with self._lock:
            self.state(token)
            task = self._tasks[token]
            task["stop"] = True
            if task["state"] != "asked":
                return
            task.update(state="failed", error="The import was cancelled; nothing was stored.")
        task["forget"]()

    def state(self, token: str) -> dict:
        """Returns the state of an import. Raises ValueError if the import is unknown or no longer stored.

        "state" is "running", "asked", "done" or "failed". "done" and "total" are numbers of files. A finished import
        also has a "report", a failed one an "error", and one that waits for an answer a "question".
        """
        if token not in self._tasks:
            raise ValueError("this import is unknown or too old; check whether its study is in the list")
        task = self._tasks[token]
        hidden = self._HIDDEN if task["state"] == "asked" else (*self._HIDDEN, "question")
        return {name: value for name, value in task.items() if name not in hidden}
