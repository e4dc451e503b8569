"""The context that all routes and the page share: the home, the store, the current reader."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from core.studio.db import limits, opening, owners
from core.studio.ingest import roots
from core.studio.review import context, people
from core.studio.review.context import RequestContext

if TYPE_CHECKING:
    import gradio as gr

T = TypeVar("T")
APP = Path(__file__).parent
SINGLE_USER = "reader"
_LOCK = threading.Lock()
BEARER = "bearer "


def token_of(request) -> str:
    """Returns the access token in the request's header `Authorization: Bearer ...`, or "" if there is none."""
    header = str((getattr(request, "headers", None) or {}).get("authorization") or "")
    return header[len(BEARER) :].strip() if header.lower().startswith(BEARER) else ""


@dataclass
class Context:
    """State that the routes and the page of a server share. `demo` is Gradio's page, which `build_page` sets."""

    home: Any
    single_user: bool = True
    proxied: bool = False  # whether a proxy on this machine sends the client's address and the path
    demo: gr.Blocks | None = None
    sessions: Any = None
    _store: Any = field(default=None, repr=False)
    _held: dict[type, Any] = field(default_factory=dict, repr=False)

    def store(self):
        """Returns the store, which is opened on first use and manages one SQLite connection per thread."""
        if self._store is None:
            self._store = opening.open(self.home)
        return self._store

    def held(self, kind: type[T], *arguments: Any) -> T:
        """Returns the server's only instance of the class `kind`, which is created from `arguments` on first use."""
        with _LOCK:
            if kind not in self._held:
                self._held[kind] = kind(*arguments)
            return self._held[kind]

    def user_of(self, request) -> str | None:
        """Returns the name of the reader who sent a FastAPI or Gradio request, or None if nobody is signed in."""
        state = (getattr(request, "scope", None) or {}).get("state") or {}
        if "user" in state:  # set by Guard once per request
            return state["user"]
        return self.signed_in(request)

    def signed_in(self, request) -> str | None:
        """Returns the name of the reader who is signed in now, or None if the session or token has ended.

        Unlike `user_of`, this method checks again on every call. Long requests such as event streams need this.
        """
        if self.single_user:
            return SINGLE_USER
        if token := token_of(request):
            return people.reader_of_token(self.store(), token)
        cookies = getattr(request, "cookies", None) or {}
        return self.sessions.name_of(cookies.get(self.sessions.COOKIE))

    def reading(self, request, **asked) -> AbstractContextManager[RequestContext]:
        """Returns a context manager that opens a read transaction and yields the RequestContext of a request.

        asked: Arguments of `RequestContext.read`: `study`, `run`, and a case as `number` (on the page) or `case_id`.
        """
        return context.reading(self.store(), self.user_of(request) or "", single_user=self.single_user, **asked)

    def writing(self, request, **asked) -> AbstractContextManager[RequestContext]:
        """Returns a context manager that works as that of `reading`, but opens a write transaction."""
        return context.writing(self.store(), self.user_of(request) or "", single_user=self.single_user, **asked)

    def demand(self, request, right: str) -> str:
        """Returns the reader's name. Raises NotAllowed if the reader lacks the right ('administer' or 'adjudicate')."""
        name = self.user_of(request) or ""
        people.demand(self.store(), name, self.single_user, right)
        return name

    @contextmanager
    def making(self, reader: str, kind: str, adding: int = 1) -> Iterator[Callable[[Sequence[str | int]], None]]:
        """Opens a transaction in which a reader creates `adding` items of a kind, such as runs.

        Yields a function that records the reader as the owner of items, given their ids. Raises TooMuch if the reader
        would exceed a limit; administrators have no limits.
        """
        store = self.store()
        limited = not self.administers(reader)
        if limited:
            limits.demand_room(store, kind, reader)
        with store.write():
            if limited:
                limits.demand_owned(store, kind, reader, adding)
            yield lambda ids: owners.set_owner(store, kind, ids, reader)

    def administers(self, reader: str) -> bool:
        """Returns whether the reader is an administrator."""
        return people.rights(self.store(), reader, self.single_user)["administer"]

    def demand_root(self, path: str) -> None:
        """Raises NotNamed if `path` is outside the folders that `roots add` allows; never in single-user mode."""
        roots.demand(self.store(), path, self.single_user)

    def files_of(self, reader: str) -> Any:
        """Returns the folders whose files an administrator may use (`roots.Within`), or None for other readers."""
        return roots.allowed(self.store(), self.single_user) if self.administers(reader) else None

    @staticmethod
    def asset(path: str) -> str:
        """Returns the URL of a file in app/static or app/widgets, given its path relative to app.

        The URL contains a hash of the file's content, so that browsers may cache the file permanently.
        """
        digest = hashlib.sha256((APP / path).read_bytes()).hexdigest()[:10]
        return f"./page/{path}?v={digest}"
