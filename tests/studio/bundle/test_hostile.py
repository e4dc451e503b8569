"""A bundle is data from a stranger: nothing outside its own study is written, read or believed."""

import errno
import zipfile
from pathlib import Path

import pytest

from core.studio.bundle import Limits, import_bundle
from core.studio.bundle.contents import tables
from core.studio.db.foreign import Refused
from core.studio.review.people import add_reader, list_readers
from core.studio.runs.records import delete_run, run_folder
from tests.studio.bundle.conftest import files_of, rewrite

pytestmark = pytest.mark.slow


def test_readers_become_names_without_a_door(sent, other, tmp_path):
    _, _, bundle = sent
    add_reader(other, "ann", "long enough", "administrator")
    evil = rewrite(bundle, tmp_path / "evil.zip", [
        'CREATE TABLE "readers" ("name", "role", "password_hash", "created")',
        "INSERT INTO readers VALUES ('eve', 'administrator', 'x', '2026-01-01')",
    ])  # fmt: skip
    done = import_bundle(other, evil, "root")
    assert [r["name"] for r in list_readers(other)] == ["ann"]
    assert done["readers"]["ann"] == "ann (room)" and done["readers"]["ben"] == "ben"
    assert {r["reader"] for r in other.query("SELECT reader FROM reviews")} == {"ann (room)"}


def test_a_study_named_as_a_path_stays_in_the_home(sent, other, tmp_path):
    _, _, bundle = sent
    name = "../../../escape"
    evil = rewrite(bundle, tmp_path / "evil.zip", [f"UPDATE studies SET name = '{name}'"], {"study": name})
    before = {f for f in tmp_path.rglob("*") if not f.is_relative_to(other.home.path)}
    assert import_bundle(other, evil, "root")["study"] == "escape"
    assert {f for f in tmp_path.rglob("*") if not f.is_relative_to(other.home.path)} == before
    assert (other.home.files / "escape").is_dir()


def test_files_of_other_studies_are_not_touched(sent, other, tmp_path):
    """A bundle that names a run of another study gets a run of its own; one with files of unlisted runs is refused."""
    store, run, bundle = sent
    import_bundle(other, bundle, "root")
    [mine] = other.query("SELECT id FROM runs")
    weights = run_folder(other, mine["id"]) / "weights.bin"
    evil = rewrite(
        bundle, tmp_path / "evil.zip", [f"UPDATE runs SET id = '{mine['id']}'", 
         f"UPDATE readings SET run = '{mine['id']}'", "UPDATE studies SET name = 'b'"],
        {"study": "b"}, [(f"runs/{run}", f"runs/{mine['id']}")],
    )  # fmt: skip
    weights.write_bytes(b"mine")
    import_bundle(other, evil, "root")
    assert weights.read_bytes() == b"mine" and len(other.query("SELECT 1 FROM runs")) == 2
    evil = rewrite(
        bundle, tmp_path / "evil2.zip", [], {"study": "c"}, extra={f"runs/{mine['id']}/weights.bin": b"evil"}
    )
    with pytest.raises(Refused, match="an unlisted run"):
        import_bundle(other, evil, "root")
    assert weights.read_bytes() == b"mine"


def test_a_runs_folder_is_never_taken_from_a_bundle(sent, other, tmp_path):
    _, _, bundle = sent
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    columns = ", ".join(f'"{c}"' for c in [*tables(other)["runs"].names, "folder"])
    evil = rewrite(bundle, tmp_path / "evil.zip", [
        "ALTER TABLE runs RENAME TO r", f'CREATE TABLE "runs" ({columns})',
        f"INSERT INTO runs SELECT *, '{precious}' FROM r",
    ])  # fmt: skip
    import_bundle(other, evil, "root")
    [run] = other.query("SELECT id, folder FROM runs")
    assert run["folder"] == f"runs/{run['id']}"
    delete_run(other, run["id"])
    assert (precious / "thesis.txt").exists()


def test_cases_never_point_out_of_the_studys_folder(sent, other, tmp_path):
    """A path is no way to read a file of this machine; one inside the bundle that it holds no file for is missing."""
    _, _, bundle = sent
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"secret")
    evil = rewrite(bundle, tmp_path / "evil.zip", [f"UPDATE cases SET path = '{secret}' WHERE id = 1"])
    with pytest.raises(Refused, match="an unsafe name"):
        import_bundle(other, evil, "root")
    less = rewrite(bundle, tmp_path / "less.zip", ["UPDATE cases SET path = 'images/9/none.png' WHERE id = 1"])
    assert import_bundle(other, less, "root")["missing"]["images"] == ["t00.png"]
    assert all(Path(c["path"]).is_relative_to(other.home.files) for c in other.query("SELECT path FROM cases"))


BAD_ROWS = {
    "not a plain table": ["DROP TABLE metrics", "CREATE VIEW metrics AS SELECT 1 AS run"],
    "cases.added has an invalid value": ["UPDATE cases SET added = 'yesterday'"],
    "cases.width cannot be used": ["UPDATE cases SET width = 'wide' WHERE id = 2"],
    "reviews.case_id refers to a row that is not": ["UPDATE reviews SET case_id = 99999"],
    "runs.config has an invalid value": ["UPDATE runs SET config = '{'"],
    "summary has an invalid value": ["UPDATE runs SET summary = '" + "[" * 100_000 + "'"],
    "no detector is called": ["UPDATE runs SET method = '../x'"],
    "not have the size of its image": ["UPDATE cases SET width = 20 WHERE label = 'abnormal'"],
    "does not match its size": ["UPDATE readings SET map_h = 17"],
    "height and width of a heat map": ["UPDATE readings SET map_h = 1000000"],
    "exactly one study": ["DELETE FROM studies"],
    "damaged": ["UPDATE cases SET split = 'all'"],
    "an event in the bundle": ["UPDATE events SET hash = 'x'"],
    "the range of a heat map": ["UPDATE readings SET map_lo = 9e999"],
    "the same id": ["UPDATE cases SET id = 2 WHERE id = 3"],
    "size": ["""UPDATE runs SET config = json_set(config, '$.size', 1000000000)"""],
}  # fmt: skip


@pytest.mark.parametrize("words", BAD_ROWS)
def test_rows_that_no_studio_wrote_are_refused_and_leave_nothing(sent, other, tmp_path, words):
    _, _, bundle = sent
    before = files_of(other.home)
    with pytest.raises(Refused, match=words):
        import_bundle(other, rewrite(bundle, tmp_path / "evil.zip", BAD_ROWS[words]), "root")
    assert other.query("SELECT 1 FROM studies") == [] == other.query("SELECT 1 FROM events")
    assert files_of(other.home) == before and not list(other.home.path.glob("bundle-*"))


def test_sizes_are_limited(sent, other, tmp_path):
    _, _, bundle = sent
    bomb = rewrite(bundle, tmp_path / "bomb.zip", extra={"images/000000/zeros.bin": bytes(300 << 20)})
    assert bomb.stat().st_size < 1 << 20
    with pytest.raises(Refused, match="would unpack to"):
        import_bundle(other, bomb, "root")
    for limits, words in ((Limits(entries=3), "at most 3"), (Limits(bytes=1000, always=0), "at most 1,000"),
                          (Limits(spare=1 << 60), "are free"), (Limits(manifest=10), "is too large")):  # fmt: skip
        with pytest.raises(Refused, match=words):
            import_bundle(other, bundle, "root", limits)
    assert other.query("SELECT 1 FROM studies") == [] and not list(other.home.path.glob("bundle-*"))


def _flipped(bundle: Path, target: Path, name: str) -> Path:
    with zipfile.ZipFile(bundle) as good, zipfile.ZipFile(target, "w") as out:
        for entry in good.namelist():
            data = good.read(entry)
            out.writestr(entry, data[:-1] + bytes([data[-1] ^ 1]) if entry == name else data)
    return target


def test_every_file_is_checked_against_the_list_of_hashes(sent, other, tmp_path):
    _, run, bundle = sent
    for name in (f"runs/{run}/weights.bin", "rows.sqlite"):
        with pytest.raises(Refused, match="list of contents"):
            import_bundle(other, _flipped(bundle, tmp_path / "flipped.zip", name), "root")
    with zipfile.ZipFile(bundle) as good, zipfile.ZipFile(tmp_path / "more.zip", "w") as out:
        for entry in good.namelist():
            out.writestr(entry, good.read(entry))
        out.writestr("images/000000/more.png", b"")
    with pytest.raises(Refused, match="list of contents"):
        import_bundle(other, tmp_path / "more.zip", "root")


def test_mistakes_are_sentences_and_leave_nothing(sent, other, tmp_path):
    store, _, bundle = sent
    with pytest.raises(Refused, match="already a study"):
        import_bundle(store, bundle, "root")
    (tmp_path / "bad.zip").write_text("no zip")
    with pytest.raises(Refused, match="damaged, or was not"):
        import_bundle(other, tmp_path / "bad.zip", "root")
    for new in ("images/../../../", "images/000000//", "/images/0/", "images/..\\\\..\\\\"):
        evil = rewrite(bundle, tmp_path / "evil.zip", rename=[("images/000000/", new)])
        with pytest.raises(Refused, match="an unsafe name"):
            import_bundle(other, evil, "root")
    for manifest, words in (
        ({"format": 2}, "format 2"),
        ({"study": 1}, "study must be text"),
        ({"study": "///"}, "no valid name"),
    ):
        with pytest.raises(Refused, match=words):
            import_bundle(other, rewrite(bundle, tmp_path / "evil.zip", manifest=manifest), "root")
    half = tmp_path / "half.zip"
    half.write_bytes(bundle.read_bytes()[: bundle.stat().st_size // 2])
    with pytest.raises(Refused, match="damaged"):
        import_bundle(other, half, "root")
    assert other.query("SELECT 1 FROM studies") == [] and files_of(other.home) == set()


def test_a_failure_at_the_last_moment_takes_the_files_back(sent, other, monkeypatch):
    _, _, bundle = sent
    rename, calls = Path.rename, []

    def full(self, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        import_bundle(other, bundle, "root")
    assert files_of(other.home) == set() and other.query("SELECT 1 FROM studies") == []


def test_a_full_disk_is_not_the_bundles_fault(sent, other, monkeypatch):
    _, _, bundle = sent

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("core.studio.bundle.read.unpack", full)
    with pytest.raises(OSError, match="No space left"):
        import_bundle(other, bundle, "root")
