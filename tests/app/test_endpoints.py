"""Programs: `gradio_client` and an MCP client call the endpoints as nobody, as a reader, as an administrator."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import select
import socket
import urllib.error
import urllib.parse
import urllib.request

import cv2
import httpx
import numpy as np
import pytest
from gradio_client import Client
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

from core.studio.db import opening
from core.studio.ingest import studies
from core.studio.programs.studio import Studio
from core.studio.review import people, sessions
from tests.app.conftest import Served
from tests.conftest import awaited, plain_folder, wait

pytestmark = pytest.mark.slow
STUDY, PASSWORD = "tiny", "a long password"
NAMES = {
    *("studies", "runs", "score_image", "explain", "worklist", "decide", "medmix_preview", "train", "job", "stop"),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """(server with accounts, {role: token}, a scored fit, an image as base64)."""
    base = tmp_path_factory.mktemp("programs")
    with Studio(base / "home", device="cpu") as studio:
        studies.import_study(studio.store, STUDY, plain_folder(base / "images", 8, 2, 2))
        run = studio.fit(studio.pretrained(STUDY, arch="resnet18", size=32, init="random"), "padim")
        studio.score(run)
    store = opening.open(str(base / "home"))
    tokens = {}
    for name, role in {"ann": "reader", "root": "administrator"}.items():
        people.add_reader(store, name, PASSWORD, role)
        tokens[name] = people.make_token(store, name, "tests")
    store.close()
    image = cv2.imencode(".png", np.random.default_rng(0).integers(0, 255, (48, 40, 3), np.uint8))[1]
    served = Served(base / "home", "--readers")
    yield served, tokens, run, base64.b64encode(image).decode()
    served.stop()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def client(served, token: str) -> Client:
    return Client(served.url, headers=bearer(token), verbose=False, download_files=False)


def asked_by_mcp(served, token: str, calls: list[tuple[str, dict]]) -> tuple[set, list]:
    """Names of the tools, and what each call gave: its answer, or its error's sentence."""

    async def ask():
        async with (
            streamablehttp_client(f"{served.url}gradio_api/mcp/", headers=bearer(token)) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = {tool.name for tool in (await session.list_tools()).tools}
            told = [await session.call_tool(name, values) for name, values in calls]
            return tools, [(one.isError, one.content[0].text) for one in told]

    return awaited(ask())


@pytest.mark.long
def test_each_endpoint_is_listed_with_its_types_and_answers_a_reader(programs):
    served, tokens, run, image = programs
    ann = client(served, tokens["ann"])
    listed = ann.view_api(return_format="dict")["named_endpoints"]
    assert {name.lstrip("/") for name in listed} == NAMES
    assert listed["/score_image"]["parameters"][0]["type"] == {"type": "string"}
    assert all(one["description"] and one["returns"][0]["type"]["type"] == "object" for one in listed.values())
    assert ann.predict(api_name="/studies")["studies"] == [STUDY]
    assert run in {row["id"] for row in ann.predict(STUDY, api_name="/runs")["runs"]}
    rows = ann.predict(STUDY, run=run, api_name="/worklist")["rows"]
    assert len(rows) == 4
    score = ann.predict(image, run, heat_map=True, api_name="/score_image")
    assert 0 <= score["percentile"] <= 100 and score["heat_map"].startswith("data:image/png;base64,")
    why = ann.predict(rows[0]["id"], run, heat_map=True, api_name="/explain")
    assert len(why["cases"]) > 1 and why["patch"] is None and "nearest patches" in why["no_patch"]
    assert why["heat_map"].startswith("data:image/png;base64,")
    done = ann.predict(rows[0]["id"], "abnormal", run=run, comment="by a program", api_name="/decide")
    assert done["decision"] == "abnormal" and done["case"] == rows[0]["id"]
    again = ann.predict(STUDY, run=run, decision="abnormal", api_name="/worklist")["rows"]
    assert [row["id"] for row in again] == [rows[0]["id"]]
    assert ann.predict(STUDY, k=2, samples=1, size=64, api_name="/medmix_preview")["picture"].startswith("data:image/")
    assert ann.predict(STUDY, api_name="/job")["jobs"] == []


def test_a_training_is_queued_and_stopped_by_name(programs):
    served, tokens, _, _ = programs
    ann = client(served, tokens["ann"])
    started = ann.predict(STUDY, preset="quick", detectors=["padim"], name="by a program", api_name="/train")
    jobs = ann.predict(STUDY, api_name="/job")["jobs"]
    assert jobs and started
    with pytest.raises(Exception, match="Only an administrator"):
        ann.predict(jobs[0], api_name="/stop")
    for job in jobs:
        client(served, tokens["root"]).predict(job, api_name="/stop")
    wait(lambda: ann.predict(STUDY, api_name="/job")["jobs"] == [])  # the worker ends it at its next step


def every_call(run: str, image: str, case: int, job: int) -> dict[str, dict]:
    """Endpoint -> what it is asked for."""
    return {
        "studies": {}, "runs": {"study": STUDY}, "score_image": {"image": image, "run": run},
        "explain": {"case": case, "run": run}, "worklist": {"study": STUDY, "run": run},
        "decide": {"case": case, "decision": "unsure"}, "job": {"study": STUDY}, "stop": {"job": job},
        "medmix_preview": {"study": STUDY, "k": 1, "samples": 1, "size": 64},
        "train": {"study": STUDY, "preset": "quick", "detectors": ["padim"]},
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("role", ["ann", "root"])
def test_every_endpoint_by_both_clients_is_right_or_refused(programs, role):
    served, tokens, run, image = programs
    own, root = client(served, tokens[role]), client(served, tokens["root"])
    case = own.predict(STUDY, run=run, api_name="/worklist")["rows"][0]["id"]
    root.predict(STUDY, api_name="/train")
    job = root.predict(STUDY, api_name="/job")["jobs"][0]
    calls = every_call(run, image, case, job)
    assert {*calls} == NAMES

    def by_gradio(name: str) -> tuple[bool, str]:
        try:
            return False, json.dumps(own.predict(**calls[name], api_name=f"/{name}"))
        except Exception as error:  # gradio_client's own kinds have no common base
            return True, str(error)

    _, by_mcp = asked_by_mcp(served, tokens[role], list(calls.items()))
    for name, answers in zip(calls, zip(by_mcp, map(by_gradio, calls), strict=True), strict=True):
        for refused, text in answers:
            if name == "stop" and role == "ann":
                assert refused and "Only an administrator" in text
            elif name != "stop":  # a job ends once
                assert not refused and text.startswith("{") and len(text) > 9, (name, text)
    if role == "root":
        assert not by_mcp[list(calls).index("stop")][0]
    for left in root.predict(STUDY, api_name="/job")["jobs"]:
        root.predict(left, api_name="/stop")
    wait(lambda: root.predict(STUDY, api_name="/job")["jobs"] == [])


def streamed(client: httpx.Client, address: str) -> str:
    """All of an answer, also where the server breaks off."""
    parts: list[str] = []
    with client.stream("GET", address) as answer, contextlib.suppress(httpx.RemoteProtocolError):
        parts.extend(answer.iter_text())
    return "".join(parts)


def test_a_session_of_the_queue_belongs_to_whoever_opened_it(programs):
    """Who names another reader's session gets neither its answers nor its end."""
    served, tokens, _, _ = programs
    ann, root = (httpx.Client(base_url=served.url, headers=bearer(tokens[name])) for name in ("ann", "root"))
    number = next(d["id"] for d in root.get("config").json()["dependencies"] if d["api_name"] == "studies")
    asked = {"data": [], "fn_index": number, "session_hash": "guessed"}
    event = root.post("gradio_api/queue/join", json=asked).json()["event_id"]
    ann.post("gradio_api/cancel", json={"fn_index": number, "session_hash": "guessed", "event_id": "x"})
    for address in ("session_hash=guessed", "session%5Fhash=guessed", "session_hash=x&session_hash=guessed"):
        stream = streamed(ann, f"gradio_api/queue/data?{address}")
        assert '"session_not_found":true' in stream and STUDY not in stream
    answer = streamed(root, "gradio_api/queue/data?session_hash=guessed")
    assert event in answer and STUDY in answer and '"msg":"process_completed"' in answer
    broken = ann.post("gradio_api/queue/join", content=b"{" * 9)
    assert (broken.status_code, broken.json()["error"]) == (422, "The request's body is not JSON.")


def test_nobody_gets_in_and_errors_are_sentences(programs):
    served, tokens, run, image = programs
    asked: dict[str, list] = {"gradio_api/info": [None], "config": [None], "api/status": [None]}
    calls = every_call(run, image, 1, 1).items()
    asked["gradio_api/queue/join"] = [
        {"data": [*values.values()], "fn_index": i} for i, (_, values) in enumerate(calls)
    ]
    named = [{"name": name, "arguments": values} for name, values in calls]
    asked["gradio_api/mcp/"] = [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call} for call in named]
    for headers in ({}, bearer("pmsacl_wrong"), {"Authorization": "Basic x"}):
        for address, bodies in asked.items():
            for body in bodies:
                data = None if body is None else json.dumps(body).encode()
                head = headers if body is None else {**headers, "content-type": "application/json"}
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(urllib.request.Request(served.url + address, data, head), timeout=60)
                assert refused.value.code == 401 and b"ign in" in refused.value.read(), (address, body, headers)
    ann = client(served, tokens["ann"])
    wrong = {
        "unknown run": lambda: ann.predict(image, "none", api_name="/score_image"),
        "not base64": lambda: ann.predict("???", run, api_name="/score_image"),
        "unknown case": lambda: ann.predict(10**6, "normal", api_name="/decide"),
        "unknown preset": lambda: ann.predict(STUDY, preset="best", api_name="/train"),
    }
    for words, call in wrong.items():
        with pytest.raises(Exception, match=f"(?i){words}"):
            call()
    _, told = asked_by_mcp(served, tokens["ann"], [("score_image", {"image": "???", "run": run}), ("no_tool", {})])
    assert told[0][0] and "not base64" in told[0][1] and told[1][0] and "no_tool" in told[1][1]


@pytest.mark.parametrize("declared", [True, False])
def test_two_gigabytes_are_refused_at_each_door_and_nothing_of_them_stays(programs, declared):
    """By their length before a byte is read; without one as soon as they are more than the door takes."""
    served, tokens, _, _ = programs
    doors = {"api/programs/score": 17, "gradio_api/mcp/": 17, "gradio_api/queue/join": 17}
    if declared:  # what may be large itself is not sent, for the time that it takes
        doors |= {f"api/export/{STUDY}/annotations?tool=coco": 256}
    before = sorted(path for path in served.home.rglob("*") if path.is_file() and "cache" in path.parts)
    for door, most in doors.items():
        method = "PUT" if "annotations" in door else "POST"
        host, port = urllib.parse.urlsplit(served.url).netloc.split(":")
        head = f"{method} /{door} HTTP/1.1\r\nhost: {host}:{port}\r\nauthorization: Bearer {tokens['root']}\r\n"
        head += "content-type: application/json\r\n"
        head += f"content-length: {2 << 30}\r\n\r\n" if declared else "transfer-encoding: chunked\r\n\r\n"
        chunk, sent = b"100000\r\n" + b" " * (1 << 20) + b"\r\n", 0
        with socket.create_connection((host, int(port)), timeout=60) as wire:
            wire.sendall(head.encode())
            try:
                while not declared and sent < 2048 and not select.select([wire], [], [], 0)[0]:
                    wire.sendall(chunk)
                    sent += 1
                answer = wire.recv(1 << 16).decode()
            except ConnectionError:  # it hung up on what was still being sent
                answer = ""
        assert sent < most + 64, door  # what the network holds besides
        if declared:
            assert answer.startswith("HTTP/1.1 413"), (door, answer)
        else:
            assert answer == "" or "413" in answer.splitlines()[0], (door, answer)
    after = sorted(path for path in served.home.rglob("*") if path.is_file() and "cache" in path.parts)
    assert after == before and client(served, tokens["ann"]).predict(api_name="/studies")["studies"] == [STUDY]


def test_tools_of_an_mcp_client_are_the_same_and_obey_the_same_permissions(programs):
    served, tokens, run, image = programs
    calls = [("worklist", {"study": STUDY, "run": run}), ("score_image", {"image": image, "run": run})]
    tools, told = asked_by_mcp(served, tokens["root"], calls)
    assert tools == NAMES and not any(error for error, _ in told)
    assert "score" in told[1][1]
    store = opening.open(str(served.home))
    sessions.set_blind(store, STUDY, True, "root")
    try:
        _, told = asked_by_mcp(served, tokens["ann"], calls)
        assert told[1][0] and "reading a study blind" in told[1][1]
        rows = client(served, tokens["ann"]).predict(STUDY, run=run, api_name="/worklist")["rows"]
        unread = [row for row in rows if not row["decision"]]
        assert len(unread) >= 3 and all(row.get("percentile") is row.get("label") is None for row in unread)
        _, told = asked_by_mcp(served, tokens["root"], calls)
        assert not any(error for error, _ in told)
    finally:
        sessions.set_blind(store, STUDY, False, "root")
        store.close()


def test_a_token_is_made_once_seen_once_revoked_and_makes_no_other(programs):
    served, tokens, _, _ = programs
    jar = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    form = urllib.parse.urlencode
    jar.open(f"{served.url}sign-in", form({"name": "ann", "password": PASSWORD}).encode(), timeout=60).close()
    page = jar.open(f"{served.url}tokens", form({"name": "a <notebook>", "act": "make"}).encode(), timeout=60)
    token = re.search(r'value="(pmsacl_[\w-]+)"', page.read().decode())[1]
    listed = jar.open(f"{served.url}tokens", timeout=60).read().decode()
    assert token not in listed and "a &lt;notebook&gt;" in listed
    answer = urllib.request.urlopen(
        urllib.request.Request(f"{served.url}api/status", headers=bearer(token)), timeout=60
    )
    assert json.load(answer)["studies"] == [STUDY]
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(
            urllib.request.Request(f"{served.url}tokens", form({"name": "x"}).encode(), bearer(token)), timeout=60
        )
    assert refused.value.code == 403
    number = re.search(r'name="revoke" value="(\d+)"', listed)[1]
    jar.open(f"{served.url}tokens", form({"revoke": number}).encode(), timeout=60).close()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(f"{served.url}api/status", headers=bearer(token)), timeout=60)
    assert refused.value.code == 401
    store = opening.open(str(served.home))
    (roots,) = people.list_tokens(store, "root")
    with pytest.raises(urllib.error.HTTPError) as refused:
        jar.open(f"{served.url}tokens", form({"revoke": roots["id"]}).encode(), timeout=60)
    assert refused.value.code == 400 and people.list_tokens(store, "root") == [roots]
    store.close()
