"""The routes of the Report tab: the board, one report at a time, and the files that were written."""

import pytest

from core.studio.report import board
from tests.app.routes.clients import client_of
from tests.studio.review.conftest import STUDY, room  # noqa: F401


@pytest.fixture
def client(room):  # noqa: F811
    return client_of(room[0], single_user=True), room[0]


@pytest.mark.slow
def test_the_board_counts_what_is_missing(client):
    ask, _ = client
    shown = ask.get(f"/api/report/{STUDY}?seeds=1").json()
    assert shown["done"] == 0 and shown["wanted"] == sum(len(t["rows"]) for t in shown["tables"]) > 40
    assert [t["name"] for t in shown["choices"]["tables"]] == [t["name"] for t in shown["tables"]]
    assert ask.get("/api/report/nobody").status_code == 400
    assert ask.get(f"/api/report/{STUDY}?seeds=0").status_code == 422
    assert "budgets" in ask.get(f"/api/report/{STUDY}?budget=lavish").json()["error"]


@pytest.mark.slow
def test_the_network_of_all_rows_is_said_and_chosen(client):
    ask, store = client
    shown = ask.get(f"/api/report/{STUDY}?seeds=1").json()
    networks = shown["choices"]["networks"]
    assert [(network["name"], network["budget"]) for network in networks] == [
        ("narrow", "quick"), ("lite0", None), ("resnet18", "paper"),
    ]  # fmt: skip
    assert shown["network"] == f"All rows: {networks[0]['title']}."
    chosen = ask.get(f"/api/report/{STUDY}?seeds=1&network=lite0").json()
    assert networks[1]["title"] == "EfficientNet-lite0, from ImageNet's weights"
    assert chosen["network"] == f"All rows: {networks[1]['title']}."
    rows = {row["label"]: row["starred"] for table in chosen["tables"] for row in table["rows"]}
    assert rows["DAE"] and not rows["PMSACL - IGD"]
    assert "networks" in ask.get(f"/api/report/{STUDY}?network=vgg").json()["error"]
    assert ask.post(f"/api/report/{STUDY}", json={"tables": ["ssl"], "network": "lite0"}).json()["ok"]
    assert board.job_of(store, STUDY)["args"]["network"] == "lite0"


@pytest.mark.slow
def test_a_report_is_queued_once(client):
    ask, store = client
    body = {"tables": ["ssl"], "seeds": 3, "protocol": "held-out"}
    job = ask.post(f"/api/report/{STUDY}", json=body).json()["job"]
    args = board.job_of(store, STUDY)["args"]
    assert args["tables"] == ["ssl"] and args["seeds"] == [0, 1, 2] and args["protocol"] == "held-out"
    assert ask.get(f"/api/report/{STUDY}").json()["job"]["id"] == job
    again = ask.post(f"/api/report/{STUDY}", json=body)
    assert again.json()["job"] == job


def test_files_are_there_when_they_are_written(client):
    ask, store = client
    assert ask.get(f"/api/report/{STUDY}/file.html").status_code == 400
    assert ask.get(f"/api/report/{STUDY}/file.exe").status_code == 400
    folder = board.folder(store, STUDY)
    folder.mkdir(parents=True)
    for name in board.FILES.values():
        (folder / name).write_text("{}")
    page, table = (ask.get(f"/api/report/{STUDY}/file.{kind}") for kind in ("html", "csv"))
    assert page.headers["content-disposition"].startswith("inline") and page.text == "{}"
    assert table.headers["content-disposition"].startswith("attachment")
