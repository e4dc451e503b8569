"""The server: sign-in, sessions and routes of the studio, with Gradio's page mounted behind them.

`gr.Server` (Gradio 6) would not be simpler: it creates and launches a page without components, so it could not show
the studio's page, and its `launch` would replace the orderly shutdown below.

python -m app.server --home DIR --port 7860
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gradio as gr
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from gradio.route_utils import FnIndexInferError

from app import routes
from app.access.connections import Connection
from app.access.guard import LOOPBACK, Guard
from app.access.sessions import Sessions
from app.access.sign_in import Door, password_router, sign_in_router, tokens_router
from app.context import APP, Context
from app.endpoints import Routes
from app.page import build_page, head
from app.routes import errors
from app.routes._changes import Changes
from app.theme import theme


class Cached(StaticFiles):
    """Static files. Browsers may cache a URL with a version permanently, and must revalidate all other URLs."""

    async def get_response(self, path, scope):
        if not path.endswith((".js", ".css", ".svg", ".png", ".jpg", ".html")):
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        versioned = scope["query_string"].startswith(b"v=")
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable" if versioned else "no-cache"
        return response


def build(home, single_user: bool = True) -> FastAPI:
    """Builds the server of a home (a Home, or its folder): the studio's routes, and Gradio's page behind them.

    single_user: Whether to answer on loopback only, without sign-in; otherwise readers sign in with their accounts.
    """
    from core.studio.db.home import Home
    from core.studio.jobs import orphans

    home = home if isinstance(home, Home) else Home.at(home)
    ctx = Context(home=home, single_user=single_user)
    orphans.mark(ctx.store())  # opens the store, which applies pending migrations before the first request
    ctx.sessions = Sessions(ctx.store())
    server = FastAPI(title="PMSACL Studio", docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    server.state.ctx = ctx

    errors.add_handlers(server, Path(home.path))

    @server.get("/favicon.ico", include_in_schema=False)
    @server.get("/favicon.svg", include_in_schema=False)
    def favicon():
        return FileResponse(APP / "static" / "mark.svg", media_type="image/svg+xml")

    for folder in ("static", "widgets"):  # below /page, because Gradio uses /static
        server.mount(f"/page/{folder}", Cached(directory=APP / folder))
    door = Door(ctx)
    server.include_router(sign_in_router(door))
    server.include_router(password_router(door))
    server.include_router(tokens_router(ctx))
    routes.include_all(server, ctx)
    demo = build_page(ctx)

    def no_function(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"ok": False, "error": "There is no such function."}, 404)

    gr.mount_gradio_app(
        server,
        demo,
        path="/",
        auth_dependency=ctx.user_of,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        theme=theme(),
        ssr_mode=False,
        mcp_server=True,
        app_kwargs={"exception_handlers": {error: no_function for error in (KeyError, FnIndexInferError)}},
    )
    ctx.held(Routes).server = server
    server.add_middleware(Guard, ctx=ctx, head=head())
    return server


def free_port(host: str, wanted: int) -> int:
    """Returns the port `wanted` if it is free, else any free one. Raises ValueError if `host` is not available."""
    for port in (wanted, 0):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, port))
                return s.getsockname()[1]
            except OSError as error:
                if port == 0:
                    raise ValueError(f"cannot listen on {host}: {error.strerror}; use --host 127.0.0.1") from None
    raise AssertionError


class _Server(uvicorn.Server):
    """uvicorn's server, which also shuts down cleanly on SIGHUP.

    Signals are not raised again afterwards, because messages are still to be printed.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        caught = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        # Under nohup, SIGHUP is ignored and must stay so.
        before = {s: signal.signal(s, self.handle_exit) for s in caught if signal.getsignal(s) != signal.SIG_IGN}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        ctx = self.config.app.state.ctx  # type: ignore[union-attr]
        ctx.held(Changes, ctx.store()).close()  # ends the streams, for which the shutdown would wait
        await super().shutdown(sockets)


def config_of(server: FastAPI, host: str, port: int, proxy: bool) -> uvicorn.Config:
    """Returns uvicorn's configuration.

    proxy: Whether a proxy on this machine sends the client's address in X-Forwarded-For. Otherwise the header is
        ignored, because a program could use it to avoid the delays after wrong passwords.
    """
    return uvicorn.Config(
        server, host=host, port=port, log_level="warning", timeout_graceful_shutdown=2, proxy_headers=proxy,
        http=Connection,
    )  # fmt: skip


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def serve(
    home,
    host: str = "127.0.0.1",
    port: int = 7860,
    single_user: bool = True,
    ready: Callable[[str], None] | None = None,
    stop_jobs: bool = False,
    say: Callable[[str], None] = _say,
    proxy: bool = False,
) -> None:
    """Builds the server of a home and runs it until it is interrupted or receives SIGTERM or SIGHUP.

    If `port` is taken, a free port is used. `ready(url)` is called once the address is known. `proxy` is explained in
    `config_of`. When the server stops, the demo's jobs (with `stop_jobs`, all jobs) are paused and `say` gets a message
    about them; if an image embedding is still being computed, the process exits with status 0. Raises ValueError if the
    server cannot listen on `host`, or if `single_user` is True and `host` is not a loopback address.
    """
    if single_user and host not in LOOPBACK:
        raise ValueError(f"without sign-in the studio listens on this machine only; add --readers to use {host}")
    port = free_port(host, port)
    server = build(home, single_user)
    server.state.ctx.proxied = proxy
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    from core.studio.db import leftovers
    from core.studio.db.backup import DailyBackup
    from core.studio.demo import study as demo
    from core.studio.incoming.watch import Lookout
    from core.studio.ingest import copies
    from core.studio.jobs import stopping
    from core.studio.review import erasing
    from core.studio.review.boxes import EMBEDDINGS
    from core.studio.runs import bin

    config = config_of(server, host, port, proxy)
    if ready is not None:
        ready(url)
    store = server.state.ctx.store()

    def tidy() -> None:
        for problem in erasing.go_on(store):
            say(problem)
        bin.empty(store)
        leftovers.sweep(store)
        copies.sweep(store)
        store.close()  # this thread's connection

    threading.Thread(target=tidy, name="tidy", daemon=True).start()
    demo.go_on(store)
    with DailyBackup(store.home, also=tidy):
        with Lookout(store):
            _Server(config).run()
        paused = demo.pause(store)
        if stop_jobs:
            paused += stopping.pause(store)
        with contextlib.suppress(OSError):  # the terminal may be gone
            if text := stopping.sentence(store, paused):
                say(text)
    if not EMBEDDINGS.close(1.0):  # it could take another minute on a busy machine, and is no longer needed
        sys.stdout.flush()
        os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=7860)
    parser.add_argument("--readers", action="store_true", help="readers sign in with their accounts")
    parser.add_argument("--stop-jobs", action="store_true", help="pause all jobs at a checkpoint when the server stops")
    parser.add_argument("--proxy", action="store_true", help="requests come from a proxy on this machine")
    args = parser.parse_args()
    serve(
        args.home, args.host, args.port, not args.readers, lambda url: print(url, flush=True), args.stop_jobs,
        proxy=args.proxy,
    )  # fmt: skip


if __name__ == "__main__":
    main()
