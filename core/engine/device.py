"""Which device to run on, and what it gains by."""

from __future__ import annotations

import contextlib

import numpy as np
import torch


def pick_device(name: str = "auto") -> torch.device:
    """'auto' | 'cpu' | 'cuda' | 'cuda:i' -> torch.device. ValueError says what to do if it is absent."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device {name!r} is not one of auto, cpu, cuda, cuda:0, ...") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device is available here; use --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"there are {torch.cuda.device_count()} CUDA devices; {name} is not one of them")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r} is not supported; use auto, cpu or cuda")
    return device


def autocast(device: torch.device, enabled: bool = True):
    """bf16 autocast where the device gains by it (CUDA with bf16); elsewhere nothing. Losses stay float32."""
    if enabled and device.type == "cuda" and torch.cuda.is_bf16_supported():
        return torch.autocast("cuda", torch.bfloat16)
    return contextlib.nullcontext()


def to_batch(images: np.ndarray, device: torch.device) -> torch.Tensor:
    """uint8 (B, H, W, 3) -> float32 (B, 3, H, W) in [0, 1] on `device`."""
    x = torch.from_numpy(np.ascontiguousarray(images)).to(device, non_blocking=True)
    return x.permute(0, 3, 1, 2).to(torch.float32).div_(255.0)
