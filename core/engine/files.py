"""Files that are either whole or absent: written beside their place, flushed, then renamed over it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch  # which takes seconds to load, and only tensors need


def write_bytes(path: Path | str, data: bytes) -> None:
    """Replace `path` by `data` in one step: a reader, or a crash at any moment, finds the old file or the new one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}"
    try:
        # Opened by mode, not by tempfile: the file then has the rights the user's umask gives.
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path | str, value: object) -> None:
    """Writes `value` as indented JSON; NaN and infinity are refused, since not every reader of JSON takes them."""
    write_bytes(path, (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode())


def write_tensors(path: Path | str, tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes tensors of any device and memory format as one safetensors file; each is stored contiguous, on its own."""
    from safetensors.torch import save as safetensors_bytes

    stored = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
    write_bytes(path, safetensors_bytes(stored, metadata))


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Computes the SHA-256 of a file's bytes in hexadecimal, as publishers print it."""
    with open(path, "rb") as content:
        if hasattr(hashlib, "file_digest"):
            return hashlib.file_digest(content, "sha256").hexdigest()
        digest = hashlib.sha256()  # Python 3.10
        while block := content.read(1 << 20):
            digest.update(block)
        return digest.hexdigest()
