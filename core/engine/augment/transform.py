"""MedMix as a torchvision transform, for any training loop."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.data import get_worker_info
from torchvision import tv_tensors
from torchvision.transforms import v2

from core.engine.augment.config import MEDMIX_PRESETS
from core.engine.registry import STRONG
from core.engine.tensors import TAKES, channels_first, demand_room, in_unit, to_batch, to_pixels

if TYPE_CHECKING:
    from core.engine.augment.matching import Match

RECENT = 8  # number of earlier images from which the lesions of a single image are cut
Pictures: TypeAlias = "Tensor | np.ndarray[Any, Any]"

_alive: weakref.WeakSet[MedMix] = weakref.WeakSet()


class MedMix(v2.Transform):
    """Pastes up to k lesions into each image: `MedMix(k=3)(images) -> images, masks, counts`.

    The transform takes a batch or a single image, in a dataset, in a collate function, or after the loader. In a
    `torchvision.transforms.v2.Compose` it must precede normalisation. With the donor `other`, lesions are cut from
    other images of the batch. For a single image, they are cut from those of the last eight single images in this
    process that have the same shape or, if there are none, from the image itself.

    Args:
        k: Largest number of lesions per image, 1 to 7. Each number from 0 to k is equally likely.
        preset: Name of the preset, which determines the look of lesions: `quick`, `varied` (all sizes and kinds),
            `paper` (opaque rectangles), `soft`, `lesions` (larger, mostly of the image's own tissue, with soft edges),
            `endoscopy`, `fundus`, `xray`, `ultrasound`, `large`, `swell`, `easy`, `cut`, `seam`, `lens`, `stain`,
            `mottle`, `grain`, `foreign` or `zoom`.
        seed: Random seed, a whole number of 0 or more. Transforms with the same seed give the same lesions, whatever
            torch's seed is. Defaults to torch's global seed, as in torchvision's transforms. Each worker of a
            DataLoader draws different lesions in every epoch.
        settings: Settings that override the preset: `size=(0.1, 0.3)` (range, relative to the image's side), `shape`
            ("rectangle", "ellipse", "irregular"), `blend` ("paste", "alpha", "poisson"), `donor` ("other", "same",
            ...), `opacity=(0.5, 1)`, `least_contrast=15` (grey levels). The error for a wrong name lists all names.

    Raises:
        ValueError: If k, the preset, the seed or a setting is invalid.

    Example:
        >>> import torch
        >>> from pmsacl_studio import MedMix
        >>> medmix = MedMix(k=3, seed=0)
        >>> images, masks, counts = medmix(torch.rand(8, 3, 64, 64))
        >>> images.shape, masks.shape, counts.shape
        (torch.Size([8, 3, 64, 64]), torch.Size([8, 64, 64]), torch.Size([8]))
    """

    _process: int | None  # id of the process that uses `_draws`
    _draws: torch.Generator | None
    found: Match | None = None  # result of the search, if this transform was made by `match`

    def __init__(self, k: int = 3, preset: str = "quick", seed: int | None = None, **settings: Any) -> None:
        super().__init__()
        if preset not in MEDMIX_PRESETS:
            raise ValueError(f"unknown MedMix preset {preset!r}; choose from: {', '.join(MEDMIX_PRESETS)}")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
            raise ValueError(f"seed must be a whole number of 0 or more, or None, not {seed!r}")
        self.config = MEDMIX_PRESETS[preset].replace(k=k, **settings)
        self.strong = STRONG.get("medmix")(self.config)
        self.seed = seed
        self.copies = 0  # number of copies made for other processes, by fork or pickle
        self.__setstate__({"_process": os.getpid()})

    @classmethod
    def match(
        cls,
        images: Sequence[Pictures],
        masks: Sequence[Pictures],
        seconds: float = 60,
        tries: int | None = None,
        seed: int = 0,
    ) -> MedMix:
        """Searches for settings with which pasted lesions look like the real lesions in a few images.

        Args:
            images: Images, each `(3, H, W)` or `(H, W, 3)`, uint8 or floats in [0, 1]. Grey images may have one
                channel.
            masks: Lesion mask `(H, W)` of each image. Images with an empty mask are the normal images into which
                lesions are pasted; at least 8 are needed. The search targets the largest lesion of every other image.
            seconds: Duration of the search in seconds.
            tries: Number of configurations to try instead of searching for `seconds`. The result is then reproducible.
            seed: Seed of the search and of the transform.

        Returns:
            A MedMix with the best settings. Its attribute `found` describes the result: `after` is the distance from
            pasted to given lesions, and `left_out` the distance to held-out lesions (None if fewer than four lesions
            are given). `before` and `left_out_before` are the same distances for the best preset, named `preset`. All
            distances are relative to that of normal tissue. `words` names the most important settings.

        Raises:
            ValueError: If an image is invalid, if masks do not match the images, if no image shows a lesion, or if
                there are fewer than 8 normal images.
        """
        from core.engine.augment import matching  # loads SciPy and an encoder, which the transform does not need

        pixels = [to_pixels(in_unit(channels_first(image)[0]).expand(3, -1, -1)[None])[0] for image in images]
        binary = [np.asarray(mask) > 0 for mask in masks]
        if len(pixels) != len(binary):
            raise ValueError(f"each image needs one mask, but {len(pixels)} images and {len(binary)} masks were given")
        normal = [p for p, mask in zip(pixels, binary, strict=True) if not mask.any()]
        if len(normal) < 8:
            raise ValueError(f"at least 8 normal images (with empty masks) are needed, not {len(normal)}")
        lesions = matching.Lesions.of(
            (p for p, mask in zip(pixels, binary, strict=True) if mask.any()), (m for m in binary if m.any())
        )
        side = (matching.SIDE, matching.SIDE)
        x = np.stack([cv2.resize(p, side, interpolation=cv2.INTER_AREA) for p in normal[: matching.NORMALS]])
        features = matching.imagenet_features()
        result = matching.Search(to_batch(x, torch.device("cpu")), None, lesions, features, seed).run(seconds, tries)
        medmix = cls(preset="paper", seed=seed, **{k: v for k, v in vars(result.config).items() if k != "k"})
        medmix.found = result
        return medmix

    def __getstate__(self) -> dict[str, Any]:
        self.copies += 1
        return {k: v for k, v in vars(self).items() if k not in ("_process", "_draws", "_recent")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_process": None, "_draws": None, "_recent": deque(maxlen=RECENT), **state})
        _alive.add(self)

    @property
    def generator(self) -> torch.Generator:
        """Random generator of this process, created at first use.

        In a worker of a DataLoader, its seed depends on `seed`, the worker's number and how often this transform has
        been copied. The workers get new copies in each epoch, so the epoch need not be passed.
        """
        if self.seed is None:
            return torch.default_generator  # a DataLoader seeds it for each worker and epoch
        if self._draws is None or self._process not in (None, os.getpid()):
            worker, forked = get_worker_info(), self._process not in (None, os.getpid())
            copy = () if worker is None and not forked else (self.copies, 0 if worker is None else worker.id + 1)
            state = np.random.SeedSequence((int(self.seed), *copy)).generate_state(1, np.uint64)[0]
            self._draws = torch.Generator().manual_seed(int(state >> 1))
        self._process = os.getpid()
        return self._draws

    def forward(
        self, *inputs: Any, roi: Pictures | None = None, counts: int | Pictures | None = None
    ) -> tuple[Any, ...]:
        """Pastes lesions into images and returns (images, masks, counts).

        Args:
            inputs: Tensors or arrays: one image `(3, H, W)` or `(H, W, 3)`, or a batch of such images, uint8 or floats
                in [0, 1], with sides of 16 pixels or more. A grey image is `(1, H, W)` or `(H, W, 1)`. Further inputs,
                such as labels, are returned unchanged after `counts`. Images and labels may also be passed as one
                tuple, like the samples of a dataset.
            roi: Regions of interest `(H, W)` or `(B, H, W)`, nonzero where lesions may be pasted. Defaults to all
                pixels.
            counts: Number of lesions in each image, 0 to k: `(B,)`, or one number for all images. Drawn at random by
                default.

        Returns:
            images: Images with pasted lesions, of the same type, shape and range as the input.
            masks: bool `(B, H, W)`, True where a lesion was pasted, or `(H, W)` for a single image. Masks are a
                `tv_tensors.Mask` of torchvision, or an array if the images are arrays.
            counts: int64 `(B,)`, number of lesions in each image, or a single number for a single image.

        Raises:
            ValueError: If the images, `roi` or `counts` are invalid.
        """
        arguments = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], (tuple, list)) else inputs
        if not len(arguments):
            raise ValueError(f"{TAKES}; none were given")
        images, extra = arguments[0], arguments[1:]
        if isinstance(arguments, list) and extra and all(np.shape(each) == np.shape(images) for each in extra):
            raise ValueError(f"a list of {len(arguments)} images is not a batch; stack the images into (B, 3, H, W)")
        pixels, last = channels_first(images)
        single = pixels.ndim == 3
        x = pixels[None] if single else pixels
        mixed, masks, numbers = self._mix(x, _region(roi, x), self._counts(counts, len(x)), single)
        if single:
            mixed, masks, numbers = mixed[0], masks[0], numbers[0]
        mixed = mixed.movedim(-3, -1) if last else mixed
        if isinstance(images, np.ndarray):
            return mixed.numpy(), masks.numpy(), numbers.numpy(), *extra
        mixed = tv_tensors.wrap(mixed, like=images) if isinstance(images, tv_tensors.TVTensor) else mixed
        return mixed, tv_tensors.Mask(masks), numbers, *extra

    def _counts(self, counts: Any, images: int) -> Tensor:
        if counts is None:
            return torch.randint(0, self.config.k + 1, (images,), generator=self.generator)
        numbers = torch.as_tensor(counts).cpu()
        if numbers.is_floating_point() or numbers.dtype == torch.bool or numbers.numel() not in (1, images):
            raise ValueError(
                f"counts must be whole numbers, one for all or one for each of the {images} images, not "
                f"{numbers.dtype} {tuple(numbers.shape)}"
            )
        if bool(((numbers < 0) | (numbers > self.config.k)).any()):
            raise ValueError(
                f"counts must lie from 0 to {self.config.k}, the k of this MedMix, not from {numbers.min()} to "
                f"{numbers.max()}"
            )
        return numbers.long().reshape(-1).expand(images)

    def _mix(self, x: Tensor, roi: Tensor | None, counts: Tensor, single: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Pastes lesions into checked images `(B, C, H, W)` of any type; returns images, masks and counts."""
        (h, w), side = x.shape[-2:], max(x.shape[-2:])
        batch = in_unit(x)
        batch = pad(batch.expand(-1, 3, -1, -1), (0, side - w, 0, side - h))
        if h != w or roi is not None:
            inside = torch.ones(len(x), h, w) if roi is None else roi
            roi = pad(inside.float(), (0, side - w, 0, side - h))
        if single:  # a batch with the images that came before
            before = [earlier for earlier in self._recent if earlier.shape == batch.shape[1:]]
            self._recent.append(batch[0].detach().cpu().clone())
            batch = torch.cat([batch, *(earlier[None].to(batch.device) for earlier in before)])
            counts = pad(counts, (0, len(before)))
            roi = None if roi is None else roi.expand(len(batch), -1, -1)
        strong = self.strong(batch, counts, self.generator, roi)
        mixed, masks = strong.images[: len(x), : x.shape[1], :h, :w], strong.masks[: len(x), :h, :w]
        values = mixed.mul(255).round() if x.dtype == torch.uint8 else mixed
        return torch.where(masks[:, None], values.to(x.dtype), x), masks, strong.count[: len(x)]


def _count_copies() -> None:
    for transform in _alive:
        transform.copies += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_copies)


def _region(roi: Any, x: Tensor) -> Tensor | None:
    """Checks a region of interest against images `(B, C, H, W)` and returns it as `(B, H, W)`."""
    if roi is None:
        return None
    region = torch.as_tensor(roi).as_subclass(Tensor)
    shape = (len(x), *x.shape[-2:])
    if tuple(region.shape) not in (shape, shape[1:]):
        raise ValueError(f"roi must be {shape[1:]} or {shape} like the images, not {tuple(region.shape)}")
    inside = (region != 0).expand(shape)
    demand_room(inside)
    return inside
