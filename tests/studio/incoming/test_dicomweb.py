"""Sending to a named DICOMweb server: as a job, by a name alone, kind by kind; the server itself is not there."""

import threading

import pydicom
import pytest

from app.commands import main
from core.studio.db import audit
from core.studio.incoming import dicomweb
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.review import people
from tests.app.routes.clients import visitor, whole_server
from tests.studio.review.conftest import bare  # noqa: F401
from tests.studio.review.exports.test_dicom_reports import scored  # noqa: F401


@pytest.fixture
def sent(monkeypatch):
    """What the job would have stored: [(address, user, modality)]."""
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: [])
    files: list[tuple] = []

    def send(paths, url, sign_in, on_progress):
        for done, path in enumerate(paths):
            on_progress(done, len(paths))
            files.append((url, sign_in, pydicom.dcmread(path).Modality))
        return len(paths)

    monkeypatch.setattr(dicomweb, "send", send)
    return files


@pytest.mark.slow
def test_an_administrator_sends_to_a_server_that_the_machine_names(scored, sent, monkeypatch, capsys):  # noqa: F811
    store, study, _, run = scored
    home = ["--home", str(store.home.path)]
    for name, role in (("root", "administrator"), ("ann", "reader")):
        people.add_reader(store, name, "a long password", role)
    assert main(["dicom", "server", "pacs", "https://pacs.example/dicom-web", "--user", "studio", *home]) == 0
    server, path = whole_server(store), f"/api/export/{study}"
    root, ann = visitor(server, "root"), visitor(server, "ann")
    assert root.get(f"{path}/warning").json()["servers"] == ["pacs"]
    assert ann.get(f"{path}/warning").json()["servers"] == []
    body = {"server": "pacs", "kinds": ["seg", "map", "sr"], "run": run}
    assert ann.post(f"{path}/send", json=body).status_code == 403
    for wrong in ("https://elsewhere.example", "PACS", ""):
        answer = root.post(f"{path}/send", json=body | {"server": wrong})
        assert answer.status_code in (400, 422) and ("choose from: pacs" in answer.text or not wrong)
    assert root.post(f"{path}/send", json=body | {"kinds": ["x"]}).status_code == 422 and not jobs.list_jobs(store)
    job = root.post(f"{path}/send", json=body).json()["job"]
    worker.run_queue(store)  # without the password
    [row] = jobs.list_jobs(store)
    assert row["status"] == "failed" and dicomweb.PASSWORD in row["message"] and not sent
    monkeypatch.setenv(dicomweb.PASSWORD, "secret")
    jobs.resume(store, job)
    worker.run_queue(store)
    [row] = jobs.list_jobs(store)
    assert row["status"] == "done"
    assert [kind for _, _, kind in sent] == ["SEG", "OT", "SR", "SR", "SR"]
    assert {of[:2] for of in sent} == {("https://pacs.example/dicom-web", ("studio", "secret"))}
    assert "secret" not in str(store.query("SELECT * FROM jobs")) + str(store.query("SELECT * FROM settings"))
    kinds = [
        (event["who"], event["after"].get("format")) for event in audit.trail(store, study) if event["kind"] == "export"
    ]
    assert {("root", "dicom-seg"), ("root", "dicom-map"), ("root", "dicom-sr")} <= set(kinds)
    assert not list(store.home.cache.glob("tmp*"))
    capsys.readouterr()
    assert main(["dicom", "server", "pacs", "--remove", *home]) == 0 and "No servers yet" in capsys.readouterr().out
    assert root.get(f"{path}/warning").json()["servers"] == []
    assert main(["dicom", "server", "pacs", "ftp://x", *home]) == 2 and "https://" in capsys.readouterr().err
    assert main(["dicom", "server", "nobody", "--remove", *home]) == 2


@pytest.mark.slow
def test_what_is_not_there_is_counted_and_nothing_at_all_is_said(scored, sent):  # noqa: F811
    store, study, _, run = scored
    store.execute("DELETE FROM lesion_masks")
    assert dicomweb.send_study(store, study, "https://x", "root", run=run) == {"seg": 0, "map": 1, "sr": 3}
    with pytest.raises(ValueError, match="nothing to export"):
        dicomweb.send_study(store, study, "https://x", "root", ["seg"])


@pytest.fixture
def careless(cases):
    """start(kind) -> (the shared server of that kind, its address)."""
    started = []

    def start(kind):
        server = cases("dicomweb").Server(0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return server, f"http://127.0.0.1:{server.server_address[1]}/{kind}"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", ["plain", "paged", "single", "noinstance"])
def test_fetch_from_careless_servers(careless, watched, kind):
    """One that gives the same page for ever, one that heeds offsets, no multipart answer, no UID."""
    store, study, folder = watched
    server, url = careless(kind)
    done = dicomweb.fetch(store, study, url, "root", {})
    nameless = ["the server does not state the UID of the instance"] if kind == "noinstance" else []
    assert [row["reason"] for row in done["refused"]] == nameless and server.asked < 12
    assert done["fetched"] == len(list(folder.iterdir())) == (kind != "noinstance")


def test_fetch_from_a_sign_in_page_is_refused(careless, watched):
    with pytest.raises(dicomweb.Refusal, match="does not answer as a DICOMweb server"):
        dicomweb.fetch(*watched[:2], careless("html")[1], "root", {})


@pytest.mark.parametrize("answer", ["another", "text", "nothing"])
def test_what_is_retrieved_is_what_was_asked_for(careless, watched, answer):
    store, study, folder = watched
    server, url = careless("paged")
    server.file = {"text": b"no file", "nothing": b""}.get(answer, server.file)
    if answer == "another":
        server.instance = lambda kind: {"00080018": {"vr": "UI", "Value": ["1.2.3.4.6"]}}
    done = dicomweb.fetch(store, study, url, "root", {})
    assert done["fetched"] == 0 and len(done["refused"]) == 1 and not list(folder.iterdir())
