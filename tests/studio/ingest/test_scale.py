"""Images of one scanner keep one scale from stored values to 8 bits."""

import cv2
import numpy as np
import pytest

from core.studio.ingest.decode import read_image
from core.studio.ingest.originals import Source, shown
from core.studio.ingest.studies import add_cases, import_study, load_arrays
from tests.studio.ingest.dicoms import write_dicom


def deep(folder, name, bright):
    """A 16-bit PNG of value 200 with one pixel of `bright`."""
    pixels = np.full((40, 48), 200, np.uint16)
    pixels[3, 3] = bright
    (folder / "train/normal").mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(folder / "train/normal" / name), pixels)
    return folder / "train/normal" / name


def cases(store, study):
    return store.query('SELECT * FROM cases WHERE study = ? ORDER BY "row"', [study])


def test_one_pixel_does_not_change_how_bright_an_image_is(store, tmp_path):
    deep(tmp_path / "x", "a.png", 255)
    brighter = deep(tmp_path / "x", "b.png", 256)
    assert read_image(brighter)[20, 20, 0] == 50 and read_image(brighter.with_name("a.png"))[20, 20, 0] == 200
    import_study(store, "x", tmp_path / "x")
    levels = {int(shown(case)[20, 20, 0]) for case in cases(store, "x")}
    assert levels == {round(200 / 1023 * 255)}
    arrays = load_arrays(store, "x", 32)
    assert set(np.unique(arrays.images[:, 16, 16])) == levels


def test_what_comes_later_is_shown_by_the_scale_of_the_study(store, tmp_path):
    deep(tmp_path / "x", "a.png", 4000)
    import_study(store, "x", tmp_path / "x")
    kept = store.query("SELECT config, fingerprint FROM studies")[0]
    add_cases(store, "x", [deep(tmp_path / "y", "later.png", 60_000)])
    assert store.query("SELECT config FROM studies")[0]["config"] == kept["config"]
    first, later = (shown(case) for case in cases(store, "x"))
    assert first[20, 20, 0] == later[20, 20, 0] == round(200 / 4095 * 255) and later[3, 3, 0] == 255


def test_images_of_8_bits_have_none(store, tmp_path):
    (tmp_path / "x/train/normal").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "x/train/normal/a.png"), np.full((40, 48, 3), 77, np.uint8))
    import_study(store, "x", tmp_path / "x")
    assert [case["scale"] for case in cases(store, "x")] == [None]


def test_dicom_without_a_window_has_the_scale_of_its_scanner(store, tmp_path):
    ramp = np.linspace(0, 1000, 40 * 48).reshape(40, 48).astype(np.uint16)
    folder = tmp_path / "x"
    for name, values, device in (("a.dcm", ramp, "1"), ("b.dcm", ramp + 1000, "1"), ("c.dcm", 4 * ramp, "2")):
        (folder / "train/normal").mkdir(parents=True, exist_ok=True)
        write_dicom(folder / "train/normal" / name, values, Manufacturer="A", DeviceSerialNumber=device)
    import_study(store, "x", folder)
    assert sorted(c["device"] for c in cases(store, "x")) == ["A, 1", "A, 1", "A, 2"], "what drift is told apart by"
    by_name = {case["name"][0]: shown(case)[..., 0].astype(int) for case in cases(store, "x")}
    assert by_name["b"].mean() - by_name["a"].mean() == pytest.approx(127.5, abs=2), "twice as bright, and so shown"
    assert by_name["c"].max() == 255 and by_name["c"].min() == 0, "another device has a scale of its own"


def test_a_window_in_the_file_comes_first(store, tmp_path):
    ramp = np.linspace(0, 1000, 40 * 48).reshape(40, 48).astype(np.uint16)
    (tmp_path / "x/train/normal").mkdir(parents=True)
    path = write_dicom(tmp_path / "x/train/normal/a.dcm", ramp, WindowCenter=100, WindowWidth=200)
    import_study(store, "x", tmp_path / "x")
    (case,) = cases(store, "x")
    assert case["scale"] is None and np.array_equal(shown(case), read_image(path))


def test_a_row_without_its_scale_is_refused_and_a_source_keeps_it(store, tmp_path):
    deep(tmp_path / "x", "a.png", 255)
    deep(tmp_path / "x", "b.png", 256)
    import_study(store, "x", tmp_path / "x")
    for case in cases(store, "x"):
        assert np.array_equal(Source.of(case).image(), shown(case))
    with pytest.raises(KeyError, match="scale"):
        shown({"path": case["path"], "frame": 0})
