"""Recordings of capture cards, browsers and cutting programs: each image is the frame that it is called, or none is."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from core.studio.ingest import video
from core.studio.ingest.decode import read_image
from core.studio.ingest.layouts import Entry
from core.studio.ingest.reader import read_all
from tests.studio.ingest.recordings import number_in, write_video

SHOWN = {"browser": [0, 25, 50, 75], "cut": [33, 58, 83]}


@pytest.fixture
def recordings(cases):
    """The shared module, where there is an ffmpeg."""
    module = cases("recordings")
    try:
        module.ffmpeg()
    except ImportError:
        pytest.skip("there is no ffmpeg: pip install -r tests/requirements.txt")
    return module


def numbers(module, path) -> list[int | None] | str:
    """The frames that an import takes, as they are read again, last first; the reason if it takes none."""
    found, rejected = read_all([Entry(path)], None)
    return [module.number_of(read_image(path, f.frame)) for f in found[::-1]][::-1] or rejected[0]["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["interlaced_mpeg2", "interlaced_mpeg4", "interlaced_h264", "interlaced_ffv1"])
def test_interlaced_recordings_are_right_or_named_and_always_the_same(recordings, tmp_path, case):
    recordings.CASES[case](tmp_path)
    [path] = tmp_path.iterdir()
    first = numbers(recordings, path)
    assert first == [0, 25, 50, 75] or "interlaced" in first
    assert numbers(recordings, path) == first


@pytest.mark.slow
@pytest.mark.parametrize("case", SHOWN)
def test_streams_without_a_length_and_cut_recordings(recordings, tmp_path, case):
    recordings.CASES[case](tmp_path)
    [path] = tmp_path.iterdir()
    assert numbers(recordings, path) == SHOWN[case]


@pytest.mark.slow
@pytest.mark.parametrize("code", ["libx264", "mpeg4", "libvpx-vp9", "ffv1", "mjpeg"])
@pytest.mark.parametrize("suffix", ["mkv", "mov", "mp4", "webm", "avi"])
def test_a_recording_in_each_form_shows_its_frames(recordings, tmp_path, code, suffix):
    path = tmp_path / f"a.{suffix}"
    try:
        recordings.encode("-c:v", code, "-b:v", "2M", *(["-pix_fmt", "yuv420p"] if code != "mjpeg" else []), str(path))
    except Exception:
        pytest.skip(f"{suffix} holds no {code}")
    found = numbers(recordings, path)
    assert found == [0, 25, 50, 75] or isinstance(found, str)


@pytest.mark.slow
def test_a_file_cut_off_is_no_cut_recording(recordings, tmp_path):
    whole = tmp_path / "whole.mp4"
    recordings.encode("-c:v", "mpeg4", "-movflags", "+faststart", str(whole))
    (tmp_path / "half.mp4").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert numbers(recordings, whole) == [0, 25, 50, 75]
    assert "cut short" in numbers(recordings, tmp_path / "half.mp4")


def test_a_recording_that_shows_one_picture_is_named(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.avi", 30, "MJPG")
    assert not video.is_still(path)
    monkeypatch.setattr(video, "_image", lambda read: np.zeros((8, 8, 3), np.uint8))
    assert video.is_still(path)


def test_without_an_index_frames_are_met_in_any_order(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.avi", 30, "MJPG")
    shutil.copy(path, tmp_path / "b.avi")
    reader = video._Reader(tmp_path / "b.avi")
    reader.seeks = False
    monkeypatch.setattr(video, "_seek", lambda *_: pytest.fail("it was looked for"))
    assert [number_in(reader.read(number)) for number in (20, 3, 29, 0)] == [20, 3, 29, 0]
