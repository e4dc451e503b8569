"""One drawn picture in every form that is accepted comes back equal: kinds, depths, polarities, turns, compressions."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from core.studio.ingest.decode import probe, read_image, read_raw
from core.studio.ingest.layouts import Entry
from core.studio.ingest.reader import assign_scales, read_all
from tests.conftest import picture

COLOUR = picture(3)[0]
GREY = COLOUR[..., 0]
TURNS = {  # the tag's value: what a viewer does with the stored pixels
    1: lambda a: a, 2: lambda a: a[:, ::-1], 3: lambda a: a[::-1, ::-1], 4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1), 6: lambda a: a.swapaxes(0, 1)[:, ::-1],
    7: lambda a: a.swapaxes(0, 1)[::-1, ::-1], 8: lambda a: a.swapaxes(0, 1)[::-1],
}  # fmt: skip


def shown(path) -> tuple[np.ndarray | None, str]:
    """The first picture of a file as an import shows it, by its scale; (None, reason) if it is left out."""
    found, rejected = read_all([Entry(path)], None)
    if not found:
        return None, rejected[0]["reason"]
    assign_scales(found, {})
    scale = found[0].row["scale"]
    image = read_image(path, 0, tuple(json.loads(scale)) if scale else None)
    assert image.dtype == np.uint8 and image.shape == (found[0].row["height"], found[0].row["width"], 3)
    return image, ""


def alike(image: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether it is the same picture, its grey levels perhaps stretched."""
    wanted = np.repeat(wanted[..., None], 3, 2) if wanted.ndim == 2 else wanted
    if image.shape != wanted.shape:
        return False
    return float(np.corrcoef(image.ravel().astype(float), wanted.ravel().astype(float))[0, 1]) > 0.97


@pytest.mark.slow
@pytest.mark.parametrize("case", ["turned", "tiffs", "others"])
def test_pictures_of_the_shared_cases(cases, tmp_path, case):
    wrong = {}
    for name, wanted in cases("pictures").CASES[case](tmp_path).items():
        image, reason = shown(tmp_path / name)
        if image is None:
            assert reason and "Error" not in reason and "0x" not in reason
        if wanted is not None and (image is None or not alike(image, wanted)):
            wrong[name] = reason or "another picture"
    assert wrong == {}


KINDS = {  # how the samples of a TIFF are kept: of values 0 to 255
    "uint8": lambda a: a.astype(np.uint8), "uint16": lambda a: a.astype(np.uint16) * 257,
    "uint32": lambda a: a.astype(np.uint32) * 16843009, "int16": lambda a: a.astype(np.int16) * 100 - 9000,
    "float16": lambda a: (a / 255).astype(np.float16), "float32": lambda a: a.astype(np.float32) * 1e6,
    "float64": lambda a: a / 1e9,
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["minisblack", "miniswhite", "rgb", "planes"])
@pytest.mark.parametrize(
    "options", [{}, {"compression": "zlib"}, {"byteorder": ">"}, {"tile": (32, 32)}, {"bigtiff": True}]
)
def test_tiff(tmp_path, kind, form, options):
    base = GREY if form.startswith("min") else COLOUR
    stored = KINDS[kind](np.moveaxis(base, 2, 0).copy() if form == "planes" else base)
    look = {"photometric": "rgb", "planarconfig": "separate"} if form == "planes" else {"photometric": form}
    for turn in (1, 3, 6) if not options else (8,):
        tag = [(274, "H", 1, turn, True)]
        tifffile.imwrite(tmp_path / "a.tif", stored, **look, **options, extratags=tag)
        image, reason = shown(tmp_path / "a.tif")
        wanted = TURNS[turn](255 - base if form == "miniswhite" else base)
        assert image is not None, reason
        assert alike(image, wanted)
        if kind == "uint8":
            assert (image == (wanted if wanted.ndim == 3 else wanted[..., None])).all()


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("compression", [1, 5, 8, 32773])  # none, LZW, deflate, PackBits
def test_tiff_as_opencv_compresses_it(tmp_path, deep, colour, compression):
    base = COLOUR if colour else GREY
    stored = base.astype(np.uint16) * 257 if deep else base
    pixels = stored[..., ::-1] if colour else stored
    assert cv2.imwrite(str(tmp_path / "a.tif"), pixels, [cv2.IMWRITE_TIFF_COMPRESSION, compression])
    assert probe(tmp_path / "a.tif").bits == (16 if deep else 8)
    wanted = stored if colour or deep else np.repeat(base[..., None], 3, 2)
    assert np.array_equal(read_raw(tmp_path / "a.tif"), wanted)


@pytest.mark.parametrize("compression", ["tiff_lzw", "jpeg", "tiff_adobe_deflate", "packbits", None])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "P", "RGBA"])
def test_tiff_as_pillow_compresses_it(tmp_path, mode, compression):
    if compression == "jpeg" and mode in ("P", "RGBA"):
        pytest.skip("TIFF has no JPEG of these")
    image = Image.fromarray(COLOUR).convert(mode)
    image.save(tmp_path / "a.tif", compression=compression)
    read, reason = shown(tmp_path / "a.tif")
    assert read is not None, reason
    assert alike(read, np.asarray(image.convert("RGB")))


def test_pages_are_cases_smaller_copies_are_not(tmp_path):
    with tifffile.TiffWriter(tmp_path / "a.tif") as out:
        for number in range(3):
            out.write(np.roll(GREY, number * 8, 1), photometric="minisblack")
        out.write(GREY[::2, ::2].copy(), photometric="minisblack", subfiletype=1)
    assert probe(tmp_path / "a.tif").frames == 3
    assert (read_image(tmp_path / "a.tif", 2)[..., 0] == np.roll(GREY, 16, 1)).all()


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.webp", "a.tif"])
def test_turns(tmp_path, turn, name):
    exif = Image.Exif()
    exif[0x0112] = turn
    Image.fromarray(COLOUR).save(tmp_path / name, exif=exif, quality=95)
    wanted, head = TURNS[turn](COLOUR), probe(tmp_path / name)
    assert (head.height, head.width) == wanted.shape[:2] and alike(shown(tmp_path / name)[0], wanted)


def test_what_cannot_be_shown_is_left_out_with_the_true_reason(tmp_path):
    tifffile.imwrite(tmp_path / "five.tif", np.stack([GREY] * 5, -1), photometric="minisblack", planarconfig="contig")
    tifffile.imwrite(tmp_path / "complex.tif", GREY.astype(np.complex64))
    tifffile.imwrite(tmp_path / "nan.tif", np.full((32, 32), np.nan, np.float32))
    reasons = {name: shown(tmp_path / f"{name}.tif")[1] for name in ("five", "complex", "nan")}
    assert "5 channels" in reasons["five"] and "complex64" in reasons["complex"] and "NaN" in reasons["nan"]
