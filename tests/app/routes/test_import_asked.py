"""Imports that ask: what a folder means, and whether images that were erased come in again."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from core.engine.files import file_sha256
from core.studio.ingest import erased, roots, studies
from tests.app.routes.clients import client_of
from tests.conftest import picture, plain_folder, wait, write


class Importing:
    """An administrator who imports; `start` and `answer` return the state once the import no longer runs."""

    def __init__(self, store):
        self.store, self.client = store, client_of(store, single_user=True)

    def post(self, address: str, body: dict | None = None) -> dict:
        answer = self.client.post(address, json=body or {})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ended(self) -> dict:
        return wait(lambda: (now := self.client.get(self.task).json())["state"] != "running" and now)

    def start(self, address: str = "/api/study/import", **body) -> dict:
        self.task = f"/api/study/import/{self.post(address, body)['task']}"
        return self.ended()

    def answer(self, **body) -> dict:
        self.post(f"{self.task}/answer", body)
        return self.ended()

    def drop(self, files: dict[str, bytes]) -> str:
        """Drops a zip that holds the files."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        drop = self.post("/api/study/drop")["drop"]
        sent = self.client.put(f"/api/study/drop/{drop}?path=images.zip", content=packed.getvalue())
        assert sent.status_code == 200
        return drop


@pytest.fixture
def importing(store):
    return Importing(store)


def unclear(root: Path) -> Path:
    """Writes a folder of two classes whose names say nothing."""
    for i in range(4):
        write(root / f"train/one/{i}.png", picture(i)[0])
        write(root / f"train/two/{i}.png", picture(100 + i)[0])
    return root


def question_of(state: dict) -> dict[str, dict]:
    """Returns the groups that are asked about, by name."""
    assert state["state"] == "asked", state
    return {group["name"]: group for group in state["question"]["groups"] if not group["meaning"]}


def test_a_folder_that_is_unclear_is_asked_about_then_imported(importing, tmp_path):
    root = unclear(tmp_path / "images")
    state = importing.start(name="odd", folder=str(root))
    asked = question_of(state)
    assert {name: g["images"] for name, g in asked.items()} == {
        "train/one": 4,
        "train/two": 4,
    } and not studies.list_studies(importing.store)
    groups = state["question"]["groups"]
    for index, group in enumerate(groups):
        for number in range(group["samples"]):
            answer = importing.client.get(f"{importing.task}/sample.png?group={index}&number={number}")
            assert answer.content.startswith(b"\x89PNG")
        outside = importing.client.get(f"{importing.task}/sample.png?group={index}&number={group['samples']}")
        assert outside.status_code in (400, 404)
    first, *rest = asked
    report = importing.answer(answers={first: "normal", **dict.fromkeys(rest, "out")})["report"]
    assert report["counts"]["train normal"] + report["counts"]["holdout normal"] >= asked[first]["images"]
    assert importing.client.get(f"{importing.task}/sample.png?group=0&number=0").status_code == 400
    assert importing.client.post(f"{importing.task}/answer", json={}).status_code == 400, "it was answered"


def test_a_drop_is_kept_while_it_is_asked_about(importing, tmp_path):
    root = unclear(tmp_path / "images")
    files = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*.png")}
    drop = importing.drop(files)
    asked = question_of(importing.start(name="dropped", drop=drop))
    kept = importing.store.home.cache / "dropped" / drop
    assert kept.is_dir() and all("/" not in (g["why"] or "") for g in asked.values())
    assert importing.answer(answers=dict.fromkeys(asked, "normal"))["report"]["accepted"] == len(files)
    assert not kept.exists()


def test_what_lies_outside_of_the_roots_is_not_shown(importing, tmp_path, monkeypatch):
    root = unclear(tmp_path / "images")
    write(tmp_path / "elsewhere/secret.png", picture(7)[0])
    (root / "train/one/link.png").symlink_to(tmp_path / "elsewhere/secret.png")
    monkeypatch.setattr(roots, "allowed", lambda *_: roots.Within([root]))
    groups = importing.start(name="odd", folder=str(root))["question"]["groups"]
    assert [(g["images"], g["samples"]) for g in groups if g["meaning"] == "left out"] == [(1, 0)]


def test_a_cancelled_import_leaves_nothing(importing, tmp_path):
    root = unclear(tmp_path / "images")
    drop = importing.drop({p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*.png")})
    question_of(importing.start(name="dropped", drop=drop))
    importing.post(f"{importing.task}/stop")
    state = importing.ended()
    assert state["state"] == "failed" and "nothing was stored" in state["error"]
    assert not list((importing.store.home.cache / "dropped").iterdir()) and not studies.list_studies(importing.store)
    assert not importing.store.query("SELECT * FROM owners WHERE kind = 'drop'")
    assert importing.client.post(f"{importing.task}/answer", json={}).status_code == 400


def test_what_was_understood_is_confirmed_once_unless_it_is_plain(importing, tmp_path):
    plain = plain_folder(tmp_path / "plain", 4, 2, 2)
    assert importing.start(name="plain", folder=str(plain), ask=True)["state"] == "done"
    for i, place in enumerate(("train/good", "train/good", "test/good", "test/hole")):
        write(tmp_path / f"mvtec/{place}/{i}.png", picture(900 + i)[0])
    body = {"folder": str(tmp_path / "mvtec"), "ask": True}
    state = importing.start(name="mvtec", **body)
    assert not question_of(state) and state["question"]["layout"] == "mvtec"
    found = {g["meaning"]: g["images"] for g in state["question"]["groups"]}
    assert found == {"train normal": 2, "test normal": 1, "test abnormal": 1}
    assert importing.answer()["report"]["accepted"] == 4
    assert importing.start(name="not asked", folder=body["folder"])["state"] == "done", "programs need not answer"


@pytest.mark.parametrize("again", [False, True])
def test_images_that_were_erased_are_asked_about(importing, tmp_path, again):
    folder, store = plain_folder(tmp_path / "plain", 4, 2, 2), importing.store
    gone = folder / "train/normal" / sorted(p.name for p in (folder / "train/normal").iterdir())[0]
    with store.write() as db:
        rows = [(digest,) for digest in erased.digests(store, [file_sha256(gone)])]
        db.conn.executemany("INSERT INTO erased (digest) VALUES (?)", rows)
    state = importing.start(name="plain", folder=str(folder), ask=True)
    assert state["state"] == "asked" and state["question"]["erased"] == 1 and not state["question"]["groups"]
    report = importing.answer(again=again)["report"]
    assert report["accepted"] == (8 if again else 7) and len(report["rejected"]) == (0 if again else 1)
    assert erased.known(store, file_sha256(gone)) is not again
