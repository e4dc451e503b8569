"""Connections that send no whole request are closed, and keep nobody out."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
import urllib.request

import pytest
import uvicorn

from app.access import connections
from tests.app.conftest import Served
from tests.conftest import awaited

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BEGUN = b"GET / HTTP/1.1\r\nHost: local"
UPLOAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n"


async def answering(scope, receive, send):
    body, more = b"", scope["type"] == "http"
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": b"%d" % len(body)})


async def served(asks, proxy: bool = False):
    """What `asks(open)` gives, where `open()` connects to a server in this loop."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        answering, http=connections.Connection, lifespan="off", log_level="error", proxy_headers=proxy
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        return await asks(lambda: asyncio.open_connection(*listening.getsockname()))
    finally:
        server.should_exit = True
        await task


async def sent(stream, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What is answered to pieces that are sent one after the other; b"" if the connection is closed instead."""
    reader, writer = stream
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        return head + await reader.readexactly(1)
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""


def test_a_head_or_a_body_that_does_not_come_is_not_awaited(monkeypatch):
    monkeypatch.setattr(connections, "HEAD", 0.6)
    monkeypatch.setattr(connections, "BODY", 1.2)

    async def asks(connect):
        tries = {
            "nothing": sent(await connect()),
            "half a head": sent(await connect(), BEGUN),
            "a head by letters": sent(await connect(), *(BEGUN[i : i + 1] for i in range(20)), pause=0.1),
            "half a body": sent(await connect(), UPLOAD, b"1234"),
            "a slow body": sent(await connect(), UPLOAD, *[b"1"] * 8, pause=0.3),
            "a slow head": sent(await connect(), BEGUN, WHOLE[len(BEGUN) :], pause=0.2),
            "whole": sent(await connect(), WHOLE),
        }
        return dict(zip(tries, await asyncio.gather(*tries.values()), strict=True))

    answers = awaited(served(asks))
    assert {name for name, answer in answers.items() if answer} == {"a slow body", "a slow head", "whole"}
    assert answers["a slow body"].endswith(b"8")


def test_a_connection_is_used_again_and_its_second_head_is_awaited_no_longer(monkeypatch):
    monkeypatch.setattr(connections, "HEAD", 0.6)

    async def asks(connect):
        stream = await connect()
        first = await sent(stream, WHOLE)
        second = await sent(stream, WHOLE)
        return first, second, await sent(stream, BEGUN)

    first, second, third = awaited(served(asks))
    assert first and second and not third


@pytest.mark.parametrize("proxy", [False, True])
def test_the_one_that_waits_longest_makes_room(monkeypatch, proxy):
    monkeypatch.setattr(connections, "OF_ADDRESS", 4 if not proxy else 1)
    monkeypatch.setattr(connections, "most", lambda: 50 if not proxy else 4)

    async def asks(connect):
        silent = [await connect() for _ in range(6)]
        for _, writer in silent:
            writer.write(BEGUN)
        honest = await sent(await connect(), WHOLE)
        await asyncio.sleep(0.2)
        return honest, [reader.at_eof() or reader.exception() is not None for reader, _ in silent]

    honest, ended = awaited(served(asks, proxy))
    assert honest and ended == [True] * 3 + [False] * 3


@pytest.mark.long
def test_eleven_hundred_half_sent_requests_keep_nobody_out(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = Served(tmp_path / "home", "--readers")
    assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1024, hard))[0] >= 1024
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    host, port = server.url.removeprefix("http://").rstrip("/").split(":")
    half = []
    try:
        for _ in range(1100):
            half.append(socket.create_connection((host, int(port)), timeout=20))
            half[-1].sendall(BEGUN)
        begun = time.monotonic()
        assert urllib.request.urlopen(server.url + "sign-in", timeout=20).status == 200
        assert time.monotonic() - begun < 10, "seconds"
    finally:
        for each in half:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        server.stop()
