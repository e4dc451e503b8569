"""Decodes frames with GDCM in a separate process, because a damaged stream may crash or stall GDCM.

The process runs this file by its path, so the file must not import anything from the project.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import subprocess
import sys
import threading
from typing import Any

PATIENCE = 60.0  # seconds for one frame
_LENGTH = struct.Struct("<Q")


class Failed(Exception):
    """Raised if a frame cannot be decoded."""


class _Decoder:
    """Process that decodes frames. `decode` closes the process and raises Failed if it crashes or takes too long."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def decode(self, tags: dict[str, Any], stream: bytes) -> tuple[bytes, str, tuple[int, ...]] | None:
        assert self._process.stdin and self._process.stdout
        late = threading.Timer(PATIENCE, self._process.kill)
        late.start()
        try:
            _send(self._process.stdin, (tags, stream))
            return _receive(self._process.stdout)
        except (OSError, EOFError):
            self.close()
            raise Failed from None
        finally:
            late.cancel()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert pipe
                pipe.close()
        self._process.kill()
        self._process.wait()


_idle: list[_Decoder] = []
_lock = threading.Lock()
_owner = os.getpid()
_slots = threading.BoundedSemaphore(os.cpu_count() or 1)


def decode(tags: dict[str, Any], stream: bytes) -> tuple[bytes, str, tuple[int, ...]]:
    """Decodes one frame; returns (values as bytes, NumPy type of the values, shape).

    `tags` contains the pixel elements of the header and the TransferSyntaxUID. Raises Failed if decoding fails.
    """
    global _idle, _owner
    with _slots:
        with _lock:
            if _owner != os.getpid():  # this process was forked, and the idle decoders belong to the parent process
                _idle, _owner = [], os.getpid()
            decoder = _idle.pop() if _idle else None
        if decoder is None or not decoder.alive:
            decoder = _Decoder()
        answer = decoder.decode(tags, stream)
        with _lock:
            _idle.append(decoder)
    if answer is None:
        raise Failed
    return answer


def _send(pipe: Any, message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def _receive(pipe: Any) -> Any:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    data = pipe.read(_LENGTH.unpack(head)[0])
    return pickle.loads(data)


def _serve() -> None:
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.encaps import encapsulate
    from pydicom.pixels import pixel_array

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries must not mix with the answers
    while True:
        try:
            tags, stream = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            ds = Dataset()
            ds.file_meta = FileMetaDataset()
            ds.file_meta.TransferSyntaxUID = tags.pop("TransferSyntaxUID")
            for keyword, value in tags.items():
                setattr(ds, keyword, value)
            if ds.file_meta.TransferSyntaxUID == "1.2.840.10008.1.2.4.51":
                _send(answers, (_extended(ds, stream), "<u2", (ds.Rows, ds.Columns)))
                continue
            ds.PixelData = encapsulate([stream])
            ds["PixelData"].VR = "OB"
            values = pixel_array(ds, decoding_plugin="gdcm")
            _send(answers, (values.tobytes(), values.dtype.str, values.shape))
        except Exception:
            _send(answers, None)


def _extended(ds: Any, stream: bytes) -> bytes:
    """Decodes a 12-bit JPEG Extended frame, which GDCM supports although pydicom does not use GDCM for such frames."""
    import gdcm

    fragment, sequence = gdcm.Fragment(), gdcm.SequenceOfFragments.New()
    fragment.SetByteStringValue(stream)
    sequence.AddFragment(fragment)
    element, image = gdcm.DataElement(gdcm.Tag(0x7FE0, 0x0010)), gdcm.Image()
    element.SetValue(sequence.__ref__())
    image.SetNumberOfDimensions(2)
    image.SetDimensions((ds.Columns, ds.Rows, 1))
    image.SetDataElement(element)
    kind = gdcm.PhotometricInterpretation.GetPIType(ds.PhotometricInterpretation)
    image.SetPhotometricInterpretation(gdcm.PhotometricInterpretation(kind))
    image.SetTransferSyntax(gdcm.TransferSyntax(gdcm.TransferSyntax.JPEGExtendedProcess2_4))
    image.SetPixelFormat(gdcm.PixelFormat(1, 16, 12, 11, 0))
    return image.GetBuffer().encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file
    _serve()
