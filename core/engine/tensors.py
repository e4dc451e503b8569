"""Functions for devices (choice, transfer, memory, bf16) and for converting images to tensors and back."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch


def pick_device(name: str = "auto") -> torch.device:
    """Returns the torch device for 'auto' (CUDA if available, otherwise the CPU), 'cpu', 'cuda' or 'cuda:i'.

    Raises ValueError if the name is invalid or the device is not available; the message says what to use instead.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device {name!r} is not one of auto, cpu, cuda, cuda:0, ...") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device is available; use the device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"the device {name} does not exist: there are {torch.cuda.device_count()} CUDA devices")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {name!r} is not supported; use auto, cpu or cuda")
    return device


def autocast(device: torch.device, enabled: bool = True) -> contextlib.AbstractContextManager[Any]:
    """Returns a bf16 autocast context if bf16 is native on the device and `enabled` is True, otherwise a null context.

    Losses are computed outside the context, in float32. In bf16, CUDA devices are faster if they support it, and so are
    processors with AVX512-BF16 or AMX (ResNet-18 at 96 px on two cores: 1.4 times the images per second; `bench
    autocast`). Older processors emulate bf16, which is slower.
    """
    if enabled and gains_by_bf16(device):
        return torch.autocast(device.type, torch.bfloat16)
    return contextlib.nullcontext()


def gains_by_bf16(device: torch.device, network: torch.nn.Module | None = None) -> bool:
    """Returns whether `device` supports bf16 natively and, if a `network` is given, whether bf16 should make it faster.

    On a CPU, bf16 slows networks with grouped convolutions: EfficientNet-lite0 takes 14 times as long on two cores.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if network is not None and any(isinstance(m, torch.nn.Conv2d) and m.groups > 1 for m in network.modules()):
        return False
    checks = (getattr(torch.cpu, n, None) for n in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check() for check in checks if check)


def products(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Computes a b^T + bias `(N, M)` for float32 matrices a `(N, D)` and b `(M, D)` and a bias `(M,)`.

    On a CPU, the product is computed as a convolution, for which torch calls oneDNN. For an ordinary product, torch
    calls MKL, which takes twice as long on AMD processors (N = 256, D = 154, M = 4000; two threads).
    """
    if a.is_cuda or not torch.backends.mkldnn.is_available() or torch.compiler.is_exporting() or not len(a):
        return torch.addmm(bias[None], a, b.T)
    pixels = a.reshape(1, -1, 1, a.shape[1]).permute(0, 3, 1, 2)  # an image of N x 1 pixels with D channels
    return torch.nn.functional.conv2d(pixels, b[:, :, None, None], bias).permute(0, 2, 3, 1).reshape(len(a), -1)


def to_device(t: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Returns `t` on `device`; copies from CPU to GPU are asynchronous, through pinned memory."""
    if device.type == "cuda" and t.device.type == "cpu":
        return t.pin_memory().to(device, non_blocking=True)
    return t.to(device)


def on_device(arrays: Sequence[np.ndarray | torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Returns CPU arrays and tensors as tensors on `device`, copied to a GPU in one transfer per dtype."""
    values = [array.numpy() if isinstance(array, torch.Tensor) else array for array in arrays]
    if device.type == "cpu":
        return [torch.from_numpy(np.ascontiguousarray(value)) for value in values]
    out: dict[int, torch.Tensor] = {}
    for dtype in {value.dtype for value in values}:
        indices = [i for i, value in enumerate(values) if value.dtype == dtype]
        flat = to_device(torch.from_numpy(np.concatenate([values[i].ravel() for i in indices])), device)
        for i, piece in zip(indices, flat.split([values[i].size for i in indices]), strict=True):
            out[i] = piece if values[i].ndim == 1 else piece.view(values[i].shape)
    return [out[i] for i in range(len(values))]


def constant(values: tuple[float, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns `values` as a tensor on `device`. The tensor must not be modified, because it may be cached."""
    return torch.tensor(values, dtype=dtype) if device.type == "cpu" else _copied(values, device, dtype)


@functools.lru_cache(maxsize=64)
def _copied(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    with torch.inference_mode(False):  # so that the tensor can also be used in training
        return torch.tensor(values, dtype=dtype, device=device)


def generator_on(device: torch.device, draws: torch.Generator) -> torch.Generator:
    """Returns a random generator on `device`, seeded with the next number from the CPU generator `draws`."""
    return torch.Generator(device).manual_seed(int(torch.randint(2**62, (1,), generator=draws)))


def normal(shape: Sequence[int], draws: torch.Generator, device: torch.device) -> torch.Tensor:
    """Returns standard normal random numbers on `device`. With the same seed, GPU and CPU give different numbers."""
    if device.type == "cpu":
        return torch.randn(*shape, generator=draws)
    return torch.randn(*shape, generator=generator_on(device, draws), device=device)


def to_batch(images: np.ndarray, device: torch.device) -> torch.Tensor:
    """Converts uint8 images `(B, H, W, 3)` to float32 `(B, 3, H, W)` in [0, 1] on `device`."""
    x = to_device(torch.from_numpy(np.require(images, requirements=["C", "W"])), device)
    return x.permute(0, 3, 1, 2).to(torch.float32).div_(255.0)


LEAST = 16  # smallest height or width of an image from a caller, in pixels
ROUNDED = 1e-3  # largest distance of floats beyond 0 and 1, which a resize can cause
TAKES = "images are uint8 or floats from 0 to 1, (3, H, W), (H, W, 3), or a batch of either"


def channels_first(images: Any) -> tuple[torch.Tensor, bool]:
    """Checks images passed by a user; returns a tensor `([B,] C, H, W)` and whether the channels were last.

    Raises ValueError if the type, shape or range of the images is invalid.
    """
    if not isinstance(images, (torch.Tensor, np.ndarray)):
        raise ValueError(
            f"{TAKES}, not {type(images).__name__}; torchvision's v2.ToImage() converts a PIL image to a tensor"
        )
    shape = tuple(images.shape)
    first, last = (len(shape) in (3, 4) and shape[axis] in (1, 3) for axis in (-3, -1))
    if not (first or last):
        raise ValueError(f"{TAKES}, not {shape}")
    last = last and not (first and isinstance(images, torch.Tensor))
    try:
        pixels = torch.from_numpy(np.ascontiguousarray(images)) if isinstance(images, np.ndarray) else images
    except TypeError:
        raise ValueError(f"{TAKES}, not {images.dtype}") from None
    pixels = pixels.as_subclass(torch.Tensor).movedim(-1, -3) if last else pixels.as_subclass(torch.Tensor)
    if not pixels.numel() or min(pixels.shape[-2:]) < LEAST:
        raise ValueError(f"{TAKES}, with sides of {LEAST} pixels or more, not {shape}")
    if pixels.dtype != torch.uint8:
        if not pixels.is_floating_point():
            raise ValueError(f"{TAKES}, not {images.dtype}")
        low, high = (float(end) for end in pixels.aminmax())
        if not (low >= -ROUNDED and high <= 1 + ROUNDED):  # written so that NaN is refused
            raise ValueError(
                f"floats of an image must be from 0 to 1, not from {low:.4g} to {high:.4g}: divide values up to 255 by "
                "255, and normalise after MedMix"
            )
    return pixels, last


def demand_room(inside: torch.Tensor) -> None:
    """Raises ValueError if a region of interest in `(B, H, W)` is empty, which leaves no room for a lesion."""
    if not bool(inside.flatten(1).any(1).all()):
        raise ValueError("roi is 0 all over an image: set it to 1 where a lesion may be placed")


def in_unit(pixels: torch.Tensor) -> torch.Tensor:
    """Converts images checked by `channels_first`, uint8 or floats, to float32 in [0, 1]."""
    return pixels.float().div(255) if pixels.dtype == torch.uint8 else pixels.float().clamp(0, 1)


def to_pixels(x: torch.Tensor) -> np.ndarray:
    """Clamps floats `(B, 3, H, W)` to [0, 1] and converts them to uint8 `(B, H, W, 3)`; the inverse of `to_batch`."""
    return x.clamp(0, 1).mul_(255).round_().to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()


M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # constants from malloc.h
MMAP = 32 << 20  # bytes; the largest value that glibc accepts
KEPT = 2**31 - 1  # bytes of free memory that glibc keeps
PAD = 256 << 20  # bytes that glibc requests in addition


@functools.cache
def keep_freed_memory() -> bool:
    """Makes glibc keep freed memory for this process. With other C libraries, does nothing and returns False.

    A training step on a CPU allocates and frees tensors of tens of MB. By default, glibc returns this memory to the
    system, which clears every page again in the next step. This takes a seventh of a step with EfficientNet-lite0 at
    128 px (1.97 s instead of 1.68 s on one busy core, with 1.4 instead of 0.6 million page faults in nine steps).
    """
    if not sys.platform.startswith("linux"):
        return False
    with contextlib.suppress(OSError, AttributeError):  # raised with another C library
        mallopt = ctypes.CDLL(None).mallopt
        settings = ((M_MMAP_THRESHOLD, MMAP), (M_TRIM_THRESHOLD, KEPT), (M_TOP_PAD, PAD))
        return all([mallopt(name, value) == 1 for name, value in settings])
    return False


def most_memory(device: torch.device) -> int:
    """Returns peak memory use in bytes: of the GPU if `device` is a GPU, otherwise of this process; 0 if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError, IndexError):  # Linux, where ru_maxrss would include the parent's memory
        return 1024 * int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    with contextlib.suppress(ImportError):  # Windows
        import resource

        unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux counts KiB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return 0
