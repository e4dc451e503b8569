"""Every kind of file that should be read, and each way in which one can be bad."""

import io
import struct
import zlib

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from core.studio.ingest.decode import probe, read_image, read_raw
from core.studio.ingest.unreadable import Unreadable
from tests.conftest import picture, write
from tests.studio.ingest.dicoms import write_dicom

IMAGE = picture(1)[0]


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff", "webp", "jpg"])
def test_eight_bit_colour(tmp_path, suffix):
    options = {"lossless": True} if suffix == "webp" else {"quality": 100, "subsampling": 0} if suffix == "jpg" else {}
    Image.fromarray(IMAGE).save(tmp_path / f"a.{suffix}", **options)
    read = read_image(tmp_path / f"a.{suffix}")
    assert read.dtype == np.uint8 and read.shape == IMAGE.shape
    assert np.abs(read.astype(int) - IMAGE).max() <= (4 if suffix == "jpg" else 0)
    assert (probe(tmp_path / f"a.{suffix}").width, probe(tmp_path / f"a.{suffix}").bits) == (64, 8)


def test_grey_and_palette_and_one_bit(tmp_path):
    for mode in ("L", "P", "1"):
        source = Image.fromarray(IMAGE).convert(mode)
        source.save(tmp_path / "a.png")
        assert (read_image(tmp_path / "a.png") == np.asarray(source.convert("RGB"))).all()


def test_what_is_transparent_is_black(tmp_path):
    alpha = np.zeros(IMAGE.shape[:2], np.uint8)
    alpha[:10] = 255
    Image.fromarray(np.dstack([IMAGE, alpha])).save(tmp_path / "a.png")
    read = read_image(tmp_path / "a.png")
    assert (read[:10] == IMAGE[:10]).all() and (read[10:] == 0).all()


@pytest.mark.parametrize("top, shift", [(65535, 8), (4095, 4), (1023, 2), (255, 0)])
def test_sixteen_bit_grey_is_scaled_by_the_bits_in_use(tmp_path, top, shift):
    deep = np.linspace(0, top, 48 * 64).reshape(48, 64).astype(np.uint16)
    cv2.imwrite(str(tmp_path / "a.png"), deep)
    cv2.imwrite(str(tmp_path / "a.tiff"), deep)
    for name in ("a.png", "a.tiff"):
        assert probe(tmp_path / name).bits == 16
        assert (read_raw(tmp_path / name) == deep).all()
        assert (read_image(tmp_path / name)[..., 1] == deep >> shift).all()


def test_sixteen_bit_colour_keeps_its_order_and_its_depth(tmp_path):
    deep = IMAGE.astype(np.uint16) * 257
    write(tmp_path / "a.png", deep)
    assert probe(tmp_path / "a.png").bits == 16
    assert (read_raw(tmp_path / "a.png") == deep).all()
    assert (read_image(tmp_path / "a.png") == IMAGE).all()


def test_float_tiff_is_scaled_by_its_range(tmp_path):
    tifffile.imwrite(tmp_path / "a.tiff", np.linspace(-1, 3, 48 * 64, dtype=np.float32).reshape(48, 64))
    read = read_image(tmp_path / "a.tiff")
    assert (read.min(), read.max()) == (0, 255)


def huge_png() -> bytes:
    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    end = struct.pack(">I", 0) + b"IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)) + end


def jpeg() -> bytes:
    out = io.BytesIO()
    Image.fromarray(IMAGE).save(out, "JPEG")
    return out.getvalue()


def test_a_missing_file_a_dead_link_and_a_folder_say_why(tmp_path):
    (tmp_path / "link.png").symlink_to(tmp_path / "gone.png")
    (tmp_path / "folder.png").mkdir()
    for name, reason in (("gone.png", "not exist"), ("link.png", "link is broken"), ("folder.png", "regular file")):
        with pytest.raises(Unreadable, match=reason):
            read_image(tmp_path / name)


def test_dicom_window_and_rescale(tmp_path):
    stored = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64)
    extra = {"RescaleSlope": 2, "RescaleIntercept": -1000, "WindowCenter": 1000, "WindowWidth": 1000}
    path = write_dicom(tmp_path / "a.dcm", stored, **extra)
    assert (read_raw(path) == stored * 2.0 - 1000).all()
    shown = read_image(path)[..., 0].astype(float)
    expected = np.clip(((stored * 2.0 - 1000) - 999.5) / 999 + 0.5, 0, 1) * 255  # PS3.3 C.11.2.1.2.1
    assert np.abs(shown - expected).max() <= 1
    assert probe(path).modality == "CT"


def test_frames_of_a_dicom(tmp_path):
    stored = np.stack([np.full((48, 64), 500 * i, np.uint16) for i in range(1, 4)])
    stored[:, 0, 0] = 0
    path = write_dicom(tmp_path / "a.dcm", stored, WindowCenter=1000, WindowWidth=2000)
    assert probe(path).frames == 3
    middles = [int(read_image(path, i)[20, 20, 0]) for i in range(3)]
    assert middles == sorted(set(middles))
    with pytest.raises(Unreadable, match="no frame 3"):
        read_image(path, 3)


def test_colour_dicom(tmp_path):
    assert (read_image(write_dicom(tmp_path / "a.dcm", IMAGE)) == IMAGE).all()
