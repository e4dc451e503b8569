"""What is refused before any route is asked: malformed hosts, foreign pages, large bodies, sockets."""

import base64
import hashlib

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse

from app import commands, server
from app.access import guard
from app.access.guard import Guard
from tests.loops import run_apart


class Everyone:
    single_user = False
    proxied = False

    def user_of(self, request):
        return "ann"


async def echo(scope, receive, send):
    """Answers with how much it read."""
    body = await Request(scope, receive).body()
    await JSONResponse({"read": len(body)})(scope, receive, send)


def ask(path="/api/x", method="POST", headers=(("host", "localhost:7860"),), parts=(b"",), kind="http"):
    """Status, headers and body of the answer, and how many parts of the request's body were read."""
    sent, left = [], list(parts)

    async def receive():
        if not left:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    scope = {
        "type": kind, "method": method, "path": path, "raw_path": path.encode(), "query_string": b"", "scheme": "http",
        "server": ("localhost", 7860), "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers],
    }  # fmt: skip
    run_apart(Guard(echo, Everyone(), "")(scope, receive, send))
    if kind != "http":
        return sent
    start, *rest = sent
    body = b"".join(m.get("body", b"") for m in rest).decode()
    return start["status"], dict(start["headers"]), body, len(parts) - len(left)


@pytest.mark.parametrize(
    "hosts",
    [(), ("",), ("[",), ("[::1",), ("a b",), ("a:b",), ("a:123456",), ("a/b",), ("user@a",), ("a\tb",), ("\xfc",),
     ("-a",), ("a" * 300,), ("a", "a"), ("a", "b")],
)  # fmt: skip
def test_malformed_hosts_are_refused(hosts):
    status, _, text, _ = ask(headers=[("host", h) for h in hosts])
    assert status == 400 and "Host" in text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:7860", "[::1]:7860", "reading-room.clinic.example", "lab_2."])
def test_hosts_that_browsers_send_pass(host):
    assert ask(headers=[("host", host)])[0] == 200


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "http://[", "", "localhost:7860"])
def test_changes_asked_for_by_another_page_are_refused(origin):
    assert ask(headers=[("host", "localhost:7860"), ("origin", origin)])[0] == 403
    assert ask(headers=[("host", "localhost:7860"), ("origin", "http://localhost:7860")])[0] == 200


def test_a_body_that_says_it_is_too_large_is_not_read():
    limit = guard.largest_body("/api/x")
    for length in (str(limit + 1), "9" * 40, "many"):
        headers = [("host", "localhost"), ("content-length", length)]
        status, _, text, read = ask(headers=headers, parts=[b"x"])
        assert status == 413 and "at most 2 MB" in text and read == 0


def test_a_body_that_grows_too_large_is_cut_off():
    part = b"x" * guard.MB
    status, _, text, read = ask(parts=[part] * 50)
    assert status == 413 and '"ok":false' in text and read == 3
    assert ask(parts=[part] * 2)[0] == 200


@pytest.mark.parametrize(
    "path, limit",
    [("/sign-in", 16 * guard.KB), ("/api/review/settings", 256 * guard.KB), ("/api/review/mask/7", 64 * guard.MB),
     ("/api/study/drop/abc", 8 * guard.GB), ("/api/export/bundle", 8 * guard.GB), ("/queue/join", 2 * guard.MB),
     ("/api/export/colon/annotations", 256 * guard.MB)],
)  # fmt: skip
def test_limits_by_route(path, limit):
    assert guard.largest_body(path) == limit


def test_sockets_are_closed():
    assert ask(kind="websocket") == [{"type": "websocket.close", "code": 1008}]


def test_scripts_in_a_page_are_given_the_nonce_and_text_inside_them_is_left():
    page = b'<head><script type="module" src="a.js"></script><SCRIPT>x = "<script>"</SCRIPT></head><scripted>'
    wanted = b'<head><script nonce="n" type="module" src="a.js"></script><script nonce="n">x = "<script>"</SCRIPT>'
    assert guard.with_nonce(page, "n") == wanted + b"</head><scripted>"


def test_an_own_pages_styles_are_named_by_their_hash():
    found = guard.policy_of_page(b"<style>a{b:c}</style><style>d</style>")
    wanted = [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in (b"a{b:c}", b"d")]
    assert all(f"'sha256-{digest}'" in found for digest in wanted) and "unsafe" not in found


def test_an_answer_that_is_no_page_runs_nothing():
    assert ask()[1][b"content-security-policy"].startswith(b"default-src 'none'; img-src")


def test_what_gradio_has_built_may_be_kept():
    """Its names change with its contents."""
    kept = [ask(path, "GET")[1].get(b"cache-control") for path in ("/assets/index-DphvyggB.js", "/api/x", "/")]
    assert kept == [b"public, max-age=31536000, immutable", None, None]


@pytest.mark.parametrize(
    "prefix, proxied, root",
    [("/studio", True, "/studio"), ("/a/b/", True, "/a/b"), ("/studio", False, ""), ("//evil.example", True, ""),
     ("/a b", True, ""), ("http://x", True, ""), ("/..\r\nx: y", True, ""), ("", True, "")],
)  # fmt: skip
def test_a_path_is_believed_from_a_proxy_alone(monkeypatch, prefix, proxied, root):
    """Redirects lead below it; addresses of other hosts are none."""
    monkeypatch.setattr(Everyone, "proxied", proxied)
    seen = []

    async def away(scope, receive, send):
        seen.append((scope.get("root_path", ""), scope["path"]))
        await RedirectResponse("/sign-in", 303)(scope, receive, send)

    monkeypatch.setitem(globals(), "echo", away)
    _, headers, *_ = ask("/page/x", "GET", headers=[("host", "localhost:7860"), ("x-forwarded-prefix", prefix)])
    assert seen == [(root, f"{root}/page/x")] and headers[b"location"].decode() == f"{root}/sign-in"


def test_the_page_opens_on_the_loopback_address_unless_asked():
    args = commands.parser().parse_args(["app"])
    assert args.host in server.LOOPBACK and not args.readers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_nobody_else_is_served_without_sign_in(tmp_path, host):
    with pytest.raises(ValueError, match="this machine only"):
        server.serve(tmp_path / "home", host=host)
    assert not (tmp_path / "home").exists()
