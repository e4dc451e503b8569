"""Reads TIFF files: tifffile parses the headers of the pages, a decoder returns the samples, and both must agree.

Pillow decodes samples of up to 8 bits. Samples of more bits are decoded by tifffile, or by OpenCV if tifffile lacks the
codec. Pictures are rotated and inverted here, not by the decoders.
"""

from __future__ import annotations

import io
import logging
import struct
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from core.studio.ingest.unreadable import Unreadable, limit

_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_SUBFILE, _PHOTOMETRIC, _ORIENTATION = 254, 262, 274
# Tags that are needed to read a picture: size, bits, compression, photometric, offsets, samples, planes, tables.
_NEEDED = {254, 256, 257, 258, 259, 262, 266, 273, 274, 277, 278, 279, 284, 317, 320, 322, 323, 324, 325, 338, 339}
_SMALLER = 1 | 4  # flags of pages that are not separate pictures: smaller copies, masks
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _CMYK = 0, 1, 2, 3, 5
_ALPHA = (1, 2)  # types of alpha samples: colours already multiplied by alpha, or not yet


def is_tiff(path: Path) -> bool:
    """Returns whether a file is TIFF, judged by its first bytes."""
    with path.open("rb") as file:
        return file.read(4) in _MAGIC


def probe(path: Path) -> tuple[int, int, int, int]:
    """Returns (displayed width, displayed height, bits per sample, number of pictures) of a TIFF file."""
    with _file(path) as file:
        pages = _pictures(file)
        page = pages[0]
        width, height = int(page.imagewidth), int(page.imagelength)
        limit(width, height)
        size = (height, width) if _tag(page, _ORIENTATION, 1) >= 5 else (width, height)
        bits = page.bitspersample
        return *size, max(bits) if isinstance(bits, tuple) else int(bits), len(pages)


def read(path: Path, frame: int = 0) -> np.ndarray:
    """Reads an upright picture with 0 as black, uint8 `(H, W, 3)` or, above 8 bits, `(H, W)` or `(H, W, 3)`."""
    with _file(path) as file:
        pages = _pictures(file)
        if not 0 <= frame < len(pages):
            raise Unreadable(f"it has no frame {frame}")
        page = pages[frame]
        limit(int(page.imagewidth), int(page.imagelength))
        plain = int(page.sampleformat or 1) == 1 and np.max(page.bitspersample) <= 8 and page.samplesperpixel <= 4
        image = _by_pillow(path, page) if plain else None
        if image is None:
            image = _colours(_samples(path, page), page)
        return turned(image, _tag(page, _ORIENTATION, 1))


def turned(image: np.ndarray, orientation: int) -> np.ndarray:
    """Rotates or flips an image according to the orientation tag (1 to 8) of EXIF or TIFF."""
    turns = {
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.swapaxes(0, 1),
        6: lambda a: a.swapaxes(0, 1)[:, ::-1],
        7: lambda a: a.swapaxes(0, 1)[::-1, ::-1],
        8: lambda a: a.swapaxes(0, 1)[::-1],
    }
    return np.ascontiguousarray(turns.get(orientation, lambda a: a)(image))


def flat(image: Image.Image) -> np.ndarray:
    """Converts a Pillow image of any mode to uint8 `(H, W, 3)`; transparent pixels become black."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _file(path: Path):
    import tifffile

    logging.getLogger("tifffile").setLevel(logging.CRITICAL)  # damaged files are reported here instead
    return tifffile.TiffFile(path)


def _pictures(file) -> list:
    """Returns the pages that are separate pictures. Raises Unreadable if a needed tag of a page cannot be read."""
    pages = list(file.pages)
    pages = [page for page in pages if not _tag(page, _SUBFILE, 0) & _SMALLER] or pages[:1]
    count, entry = ("H", 12) if not file.is_bigtiff else ("Q", 20)
    for page in pages:
        file.filehandle.seek(page.offset)
        [entries] = struct.unpack(file.byteorder + count, file.filehandle.read(struct.calcsize(count)))
        table = file.filehandle.read(min(entries, 1000) * entry)
        codes = {struct.unpack_from(file.byteorder + "H", table, at)[0] for at in range(0, len(table) - 1, entry)}
        if (lost := codes & _NEEDED - set(page.tags.keys())) or not {256, 257} <= codes:
            raise Unreadable(f"damaged: the tags {sorted(lost)} of its header cannot be read")
    return pages


def _tag(page, code: int, usual: int) -> int:
    tag = page.tags.get(code)
    return int(tag.value) if tag is not None and tag.count == 1 else usual


def _plainly(path: Path, page) -> bytes:
    """Returns the bytes of the file with the tags of the page changed to an upright picture with 0 as black."""
    data = bytearray(path.read_bytes())
    for code in (_ORIENTATION, _PHOTOMETRIC):
        tag = page.tags.get(code)
        if tag is not None and tag.dtype == 3 and (code == _ORIENTATION or tag.value == _WHITE_IS_ZERO):
            data[tag.valueoffset : tag.valueoffset + 2] = struct.pack(f"{page.parent.byteorder}H", 1)
    return bytes(data)


def _by_pillow(path: Path, page) -> np.ndarray | None:
    """Decodes a page of up to 8 bits as uint8 `(H, W, 3)`, or returns None if Pillow does not support the page."""
    upright, white = _tag(page, _ORIENTATION, 1) == 1, _tag(page, _PHOTOMETRIC, 1) == _WHITE_IS_ZERO
    try:
        image = Image.open(path if upright and not white else io.BytesIO(_plainly(path, page)))
        image.seek(page.index)
    except (OSError, SyntaxError, ValueError, TypeError, EOFError):
        return None
    with image:
        try:
            image.load()
        except Exception:  # Pillow's plugins raise errors of any kind on a damaged stream
            raise Unreadable("damaged or cut short") from None
        plain = _checked(flat(image), page)
        return 255 - plain if white else plain


def _samples(path: Path, page) -> np.ndarray:
    """Returns the stored samples of a page, `(H, W)` or `(H, W, samples)`."""
    try:
        samples = page.asarray()
        samples = np.moveaxis(samples, 0, -1) if page.axes == "SYX" else samples
        if page.axes in ("YX", "YXS", "SYX"):
            return _checked(samples, page)
    except MemoryError:
        raise
    except Exception:  # a missing codec or an unknown form: tifffile raises many kinds of errors
        pass
    data = np.frombuffer(_plainly(path, page), np.uint8)
    done, pages = cv2.imdecodemulti(data, cv2.IMREAD_UNCHANGED, range=(page.index, page.index + 1))
    if not done or len(pages) != 1 or pages[0].dtype != page.dtype:
        how, bits = page.compression.name, page.bitspersample
        raise Unreadable(f"damaged, or of an unsupported format: {bits} bits, compressed as {how}")
    image = pages[0]
    if image.size != int(page.imagewidth) * int(page.imagelength) * page.samplesperpixel:
        raise Unreadable(f"its header says {page.samplesperpixel} values per pixel, but {image.shape} were decoded")
    return _checked(image[..., [2, 1, 0, 3][: image.shape[2]]] if image.ndim == 3 else image, page)


def _checked(image: np.ndarray, page) -> np.ndarray:
    """Returns the decoded page. Raises Unreadable if the size of the page differs from the header."""
    width, height = int(page.imagewidth), int(page.imagelength)
    if image.shape[:2] != (height, width):
        raise Unreadable(f"its header says {width} x {height} pixels, not {image.shape[1]} x {image.shape[0]}")
    return image


def _colours(samples: np.ndarray, page) -> np.ndarray:
    """Converts stored samples to grey `(H, W)` or RGB `(H, W, 3)`, with 0 as black."""
    kind = _tag(page, _PHOTOMETRIC, _BLACK_IS_ZERO)
    extra = [int(e) for e in page.extrasamples]
    extra = extra if set(extra) <= {*_ALPHA} or (kind == _RGB and len(extra) == 1) else []  # others are channels
    count = (1 if samples.ndim == 2 else samples.shape[2]) - len(extra)
    if kind == _PALETTE and count == 1 and page.colormap is not None:
        return np.moveaxis(page.colormap[:, samples.reshape(samples.shape[:2])], 0, -1)
    is_supported = samples.dtype.kind in "uif" and kind in (_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _CMYK)
    if not is_supported or count != {_RGB: 3, _CMYK: 4}.get(kind, 1):
        name = str(page.photometric.name)
        raise Unreadable(f"it has {count} channels of {page.dtype} as {name}; only grey and colours are supported")
    colours = samples.reshape(*samples.shape[:2], -1)[..., :count]
    if kind == _CMYK:
        if samples.dtype.kind != "u":
            raise Unreadable("its CMYK colours have an unsupported type")
        top = float(np.iinfo(samples.dtype).max)
        inks = colours.astype(np.float64) / top
        colours = ((1 - inks[..., :3]) * (1 - inks[..., 3:]) * top).round().astype(samples.dtype)
    if kind == _WHITE_IS_ZERO:
        colours = -colours if colours.dtype.kind == "f" else np.invert(colours)
    if extra[:1] == [_ALPHA[1]]:
        top = 1.0 if samples.dtype.kind == "f" else float(np.iinfo(samples.dtype).max)
        alpha = samples[..., count : count + 1].astype(np.float64) / top
        colours = (colours * alpha).astype(samples.dtype)
    return colours[..., 0] if colours.shape[2] == 1 else colours
