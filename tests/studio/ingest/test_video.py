"""Recordings: which frames become cases, that each is read back as the frame it is, and what is refused."""

import numpy as np
import pytest

from app.commands import main
from core.studio.ingest import studies, video
from core.studio.ingest.decode import probe, read_image
from core.studio.ingest.unreadable import Unreadable
from core.studio.ingest.video import Sampling
from tests.studio.ingest.recordings import number_in, write_video


@pytest.mark.parametrize(("suffix", "code"), [("mp4", "mp4v"), ("avi", "MJPG"), ("mov", "mp4v"), ("mkv", "MJPG")])
def test_a_recording_becomes_a_series_of_frames(store, tmp_path, suffix, code):
    (tmp_path / "in").mkdir()
    path = write_video(tmp_path / "in" / f"exam.{suffix}", 100, code, rate=25)
    report = studies.import_study(store, "exam", tmp_path / "in", sampling=Sampling(every=9))
    cases = store.query('SELECT * FROM cases ORDER BY "row"')
    assert report.accepted == 12 and not report.rejected
    assert [c["frame"] for c in sorted(cases, key=lambda c: c["frame"])] == list(range(0, 100, 9))
    assert {c["path"] for c in cases} == {str(path)} and cases[0]["name"].startswith(f"exam.{suffix} #")
    assert len({c["split"] for c in cases}) == 1  # frames of one recording never lie on both sides of a split
    for case in np.random.default_rng(0).permutation(cases):  # any order, as a worklist by score has it
        assert number_in(read_image(case["path"], case["frame"])) == case["frame"]


def test_frames_a_second_follow_the_header(tmp_path):
    path = write_video(tmp_path / "a.avi", 75, "MJPG", rate=25)
    head = probe(path)
    assert (head.width, head.height, head.frames, head.rate, head.bits) == (128, 96, 75, 25.0, 8)
    assert Sampling().numbers(head.frames, head.rate) == [0, 25, 50]
    assert Sampling(per_second=5).numbers(head.frames, head.rate) == list(range(0, 75, 5))
    assert Sampling(per_second=400).numbers(head.frames, head.rate) == list(range(75))
    assert Sampling(per_second=10).numbers(head.frames, head.rate)[:4] == [0, 2, 5, 8]
    with pytest.raises(Unreadable, match="every n-th frame"):
        Sampling().numbers(75, 0.0)
    with pytest.raises(Unreadable, match="the maximum is"):
        Sampling(every=1).numbers(10**6, 25.0)
    for wrong in ({"every": 0}, {"per_second": 0}):
        with pytest.raises(ValueError, match="must be"):
            Sampling(**wrong)


def test_what_is_added_later_is_taken_as_the_study_was(store, tmp_path):
    (tmp_path / "in").mkdir()
    write_video(tmp_path / "in" / "first.avi", 30, "MJPG")
    study = studies.import_study(store, "exam", tmp_path / "in", sampling=Sampling(every=10)).study
    later = write_video(tmp_path / "later.avi", 40, "MJPG", first=40)
    report = studies.add_cases(store, study, [later], copy=True)
    cases = store.query("SELECT * FROM cases WHERE split = 'test' ORDER BY frame")
    assert report.accepted == 4 and [c["frame"] for c in cases] == [0, 10, 20, 30]
    later.unlink()  # the copy is the studio's own, and there is one of it
    assert len({c["path"] for c in cases}) == 1
    assert [number_in(read_image(c["path"], c["frame"])) for c in cases] == [40, 50, 60, 70]


def test_broken_recordings_are_left_out_with_the_reason(store, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_video(folder / "good.avi", 20, "MJPG")
    (folder / "text.mp4").write_text("no video")
    (folder / "empty.mkv").touch()
    whole = write_video(tmp_path / "whole.mkv", 200, "MJPG").read_bytes()
    (folder / "cut.mkv").write_bytes(whole[: len(whole) // 3])
    report = studies.import_study(store, "exam", folder, sampling=Sampling(every=5))
    reasons = {r["path"].rsplit("/", 1)[1]: r["reason"] for r in report.rejected}
    assert sorted(reasons) == ["cut.mkv", "empty.mkv", "text.mp4"]
    assert (
        "cut short" in reasons["cut.mkv"] and "empty" in reasons["empty.mkv"] and "despite its" in reasons["text.mp4"]
    )
    assert report.accepted == 4


def test_a_file_whose_frames_cannot_be_found_by_number_is_refused(store, tmp_path, monkeypatch):
    folder = tmp_path / "in"
    folder.mkdir()
    write_video(folder / "a.avi", 60, "MJPG")
    # A decoder that lands one frame late when it seeks, as happens with a varying frame rate.
    real = video._seek
    monkeypatch.setattr(video, "_seek", lambda capture, number: real(capture, number + 1))
    with pytest.raises(ValueError, match="constant frame rate"):
        studies.import_study(store, "exam", folder, sampling=Sampling(every=10))


def test_a_frame_that_is_not_there_is_a_sentence_and_harms_no_other(tmp_path):
    path = write_video(tmp_path / "a.avi", 30, "MJPG")
    with pytest.raises(Unreadable, match="no frame 99"):
        read_image(path, 99)
    assert number_in(read_image(path, 7)) == 7


def test_a_file_that_was_replaced_is_opened_anew(tmp_path):
    path = write_video(tmp_path / "a.avi", 20, "MJPG")
    assert number_in(read_image(path, 3)) == 3
    write_video(path, 30, "MJPG", first=50)
    assert number_in(read_image(path, 3)) == 53


def test_the_verbs_take_recordings(store, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "later").mkdir()
    write_video(tmp_path / "in" / "a.avi", 50, "MJPG")
    write_video(tmp_path / "later" / "b.avi", 50, "MJPG", first=50)
    home = ["--home", str(store.home.path)]
    assert main(["study", "import", "exam", str(tmp_path / "in"), "--every", "10", *home]) == 0
    assert main(["study", "add", "exam", str(tmp_path / "later"), *home]) == 0
    assert main(["study", "add", "exam", str(write_video(tmp_path / "c.avi", 50, "MJPG")), "--fps", "12.5", *home]) == 0
    counts = store.query("SELECT count(*) AS n, path FROM cases GROUP BY path ORDER BY path")
    assert {c["path"].rsplit("/", 1)[1]: c["n"] for c in counts} == {"a.avi": 5, "b.avi": 5, "c.avi": 25}
    assert "5 test cases added" in capsys.readouterr().out
    assert main(["study", "add", "exam", str(tmp_path / "nowhere"), *home]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main(["study", "import", "more", str(tmp_path / "in"), "--fps", "0", *home]) == 2
    assert "frames per second" in capsys.readouterr().err
