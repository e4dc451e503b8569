"""The context of every tab and route: the home, the store, the shared study picker, the current reader."""

from __future__ import annotations

import hashlib
import html
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import gradio as gr

    from core.studio.review.context import RequestContext

T = TypeVar("T")
APP = Path(__file__).parent
SINGLE_USER = "reader"
_LOCK = threading.Lock()
BEARER = "bearer "


def token_of(request) -> str:
    """Returns the token that a program sends (`Authorization: Bearer ...`); "" without one."""
    header = str((getattr(request, "headers", None) or {}).get("authorization") or "")
    return header[len(BEARER) :].strip() if header.lower().startswith(BEARER) else ""


@dataclass
class Context:
    """State shared by the server's parts, one per server. Building the page sets `demo`, `tabs` and `study_picker`."""

    home: Any
    single_user: bool = True
    proxied: bool = False  # a proxy on this machine names the client and the path
    demo: gr.Blocks | None = None
    tabs: gr.Tabs | None = None
    study_picker: gr.Dropdown | None = None
    sessions: Any = None
    _store: Any = field(default=None, repr=False)
    _held: dict[type, Any] = field(default_factory=dict, repr=False)

    def store(self):
        """Returns the store, opened once; it manages one SQLite connection per thread."""
        if self._store is None:
            from core.studio.db import opening

            self._store = opening.open(self.home)
        return self._store

    def held(self, kind: type[T], *arguments: Any) -> T:
        """Returns the server's only instance of a class that keeps state between requests.

        It is created on first use.
        """
        with _LOCK:
            if kind not in self._held:
                self._held[kind] = kind(*arguments)
            return self._held[kind]

    def user_of(self, request) -> str | None:
        """Returns the name of the reader who sent a FastAPI or Gradio request, or None if not signed in."""
        state = (getattr(request, "scope", None) or {}).get("state") or {}
        if "user" in state:  # set by Guard once per request
            return state["user"]
        return self.signed_in(request)

    def signed_in(self, request) -> str | None:
        """Returns the reader who is signed in now, or None if the request's session or token has ended.

        Unlike `user_of` it checks at each call, which requests that last long need.
        """
        if self.single_user:
            return SINGLE_USER
        if token := token_of(request):
            from core.studio.review import people

            return people.reader_of_token(self.store(), token)
        cookies = getattr(request, "cookies", None) or {}
        return self.sessions.name_of(cookies.get(self.sessions.COOKIE))

    def reading(self, request, **asked) -> AbstractContextManager[RequestContext]:
        """Opens a read transaction and yields the request's context (core/studio/review/context.py).

        asked: `study`, `run`, and `number` (the case number on the page) or `case_id`, as far as the request has them.
        """
        from core.studio.review import context

        return context.reading(self.store(), self.user_of(request) or "", single_user=self.single_user, **asked)

    def writing(self, request, **asked) -> AbstractContextManager[RequestContext]:
        """Opens a write transaction and yields the context as `reading` does; it stays valid until the commit."""
        from core.studio.review import context

        return context.writing(self.store(), self.user_of(request) or "", single_user=self.single_user, **asked)

    def demand(self, request, right: str) -> str:
        """Returns the reader's name. Raises NotAllowed if the reader lacks the right ('administer' or 'adjudicate')."""
        from core.studio.review import people

        name = self.user_of(request) or ""
        people.demand(self.store(), name, self.single_user, right)
        return name

    @contextmanager
    def making(self, reader: str, kind: str, adding: int = 1) -> Iterator[Callable[[Sequence[str | int]], None]]:
        """Opens a transaction in which a reader creates `adding` items of a kind, such as runs.

        Yields a function that takes the items' ids and records their owner. Raises TooMuch if the reader's limits would
        be exceeded; administrators have no limits.
        """
        from core.studio.db import limits, owners
        from core.studio.review import people

        store = self.store()
        limited = not people.rights(store, reader, self.single_user)["administer"]
        if limited:
            limits.demand_room(store, kind, reader)
        with store.write():
            if limited:
                limits.demand_owned(store, kind, reader, adding)
            yield lambda ids: owners.set_owner(store, kind, ids, reader)

    def demand_root(self, path: str) -> None:
        """Raises NotNamed unless `path` lies in a folder of this machine that may be imported from."""
        from core.studio.ingest import roots

        roots.demand(self.store(), path, self.single_user)

    def files_of(self, reader: str) -> Any:
        """Returns the folders whose files an administrator may name (`ingest.roots.Within`); None for other readers."""
        from core.studio.ingest import roots
        from core.studio.review import people

        administers = people.rights(self.store(), reader, self.single_user)["administer"]
        return roots.allowed(self.store(), self.single_user) if administers else None

    def study_choices(self) -> list[tuple[str, str]]:
        """Returns (label, id) of every study, newest first."""
        from core.studio.ingest import studies

        return [(row["name"] or row["id"], row["id"]) for row in studies.list_studies(self.store())]

    def widget(self, name: str, **props: Any) -> gr.HTML:
        """Makes the component of a hand-written widget from app/widgets/NAME: NAME.html is its frame, NAME.js runs it.

        NAME.js is an ES module that exports `mount(element, studio, props)`. The frame is static: Python never
        re-renders it, so canvas, sliders and selection stay. The page's head links its style sheet NAME.css.
        """
        import gradio as gr  # imported here: it takes seconds to load, and the routes do not need it

        folder = APP / "widgets" / name
        frame = (folder / f"{name}.html").read_text()
        encoded = html.escape(json.dumps(props), quote=True)
        load = f"""
            const root = element.querySelector('.widget-{name}');
            window.Studio.mount(root, '{self.asset(f"widgets/{name}/{name}.js")}', JSON.parse(root.dataset.props));
        """
        return gr.HTML(
            value="",
            html_template=f'<div class="widget widget-{name}" data-props="{encoded}">{frame}</div>',
            js_on_load=load,
            apply_default_css=False,
            padding=False,
            elem_id=f"widget-{name}",
        )

    @staticmethod
    def asset(path: str) -> str:
        """Returns the address of a file below app/static or app/widgets.

        It contains the file's version, so browsers may cache it permanently.
        """
        digest = hashlib.sha256((APP / path).read_bytes()).hexdigest()[:10]
        return f"./page/{path}?v={digest}"
