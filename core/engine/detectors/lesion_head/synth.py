"""Normal images with synthetic lesions and their masks, for the training and validation of the lesion head."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.augment.colour import grey_images
from core.engine.augment.strong import family
from core.engine.calibration.heatmap import upsample
from core.engine.detectors.base import Detector
from core.engine.detectors.lesion_head.config import LesionHeadConfig
from core.engine.tensors import constant, normal, on_device, to_batch, to_pixels
from core.engine.training.base import JUDGES as JUDGES_DRAWS
from core.engine.training.base import VALIDATION, generator

_BODY = 0.3  # opacity above which a pixel is part of the mask, without the soft rim and the shadow


@dataclass
class Pair:
    """Images with synthetic lesions, masks of the lesions, and numbers of lesions."""

    images: Tensor  # float32 (B, 3, S, S), in [0, 1]
    masks: Tensor  # bool (B, S, S)
    counts: Tensor  # long (B,), number n of lesions, as in A_n


class Pairs:
    """Function that pastes synthetic lesions of `families` into normal images, at most `k` into each image."""

    def __init__(self, families: tuple[str, ...], k: int) -> None:
        self.members = [family(name) for name in families]
        self.k = k

    def __call__(
        self,
        x: Tensor,
        roi: Tensor | None,
        generator: torch.Generator,
        *,
        counts: Tensor | None = None,
        ease: float = 0.0,
    ) -> Pair:
        """Pastes lesions of one family into each image. The batch is divided evenly among the families.

        Args:
            x: Normal images in [0, 1], `(B, 3, S, S)`.
            roi: Regions of interest, `(B, S, S)`, preferably on the CPU, or None.
            generator: Generator of the random numbers.
            counts: Number of lesions in each image, `(B,)`, or None to draw numbers uniformly from 0 to k.
            ease: With 1, masks contain only lesions that clearly change the image. With 0, they contain all visible
                lesions.
        """
        batch = len(x)
        if counts is None:
            counts = torch.randint(0, self.k + 1, (batch,), generator=generator)
        order = torch.randperm(batch, generator=generator)
        family_count = len(self.members)
        placed, counted = on_device([order, counts], x.device)
        images, masks = x.clone(), torch.zeros(batch, *x.shape[-2:], dtype=torch.bool, device=x.device)
        shares = zip(self.members, order.tensor_split(family_count), placed.tensor_split(family_count), strict=True)
        for member, rows, at in shares:
            if len(rows):
                inside = None if roi is None else roi[rows if roi.device.type == "cpu" else at]
                mixed = member(x[at], counts[rows], generator, inside)
                images[at], masks[at] = mixed.images, mixed.alpha > _BODY
        masks &= visible(x, images, threshold=0.02 + 0.06 * ease)
        return Pair(images, masks, counted)


def visible(before: Tensor, after: Tensor, threshold: float) -> Tensor:
    """Returns a mask, `bool (B, S, S)`, of the pixels around which images changed visibly.

    A patch that looks like the pixels it covers is not a lesion, and training on such patches would only add noise.

    Args:
        before: Images before the change, `(B, 3, S, S)`.
        after: Images after the change, `(B, 3, S, S)`.
        threshold: Mean absolute difference around a pixel above which the change counts as visible.
    """
    change = (after - before).abs().mean(1, keepdim=True)
    reach = max(3, before.shape[-1] // 12 | 1)
    return F.avg_pool2d(change, reach, stride=1, padding=reach // 2)[:, 0] > threshold


def jitter_view(
    x: Tensor, masks: Tensor, generator: torch.Generator, *, blur: float = 1.0, grain: float = 0.04
) -> tuple[Tensor, Tensor]:
    """Creates one random view of each image by mild changes of geometry, brightness, contrast and colour.

    The changes are milder than SimCLR's, so that lesions rarely leave the frame. Grey images (three equal channels)
    stay grey, because colour could otherwise reveal lesions.

    Args:
        x: Images with synthetic lesions, `(B, 3, S, S)`.
        masks: Masks of the lesions, `bool (B, S, S)`, to which the same changes of geometry are applied.
        generator: Generator of the random numbers.
        blur: Maximum weight of the blur.
        grain: Maximum standard deviation of the noise.

    Returns:
        The views, `(B, 3, S, S)`, and their masks, `bool (B, S, S)`.
    """
    batch, device = len(x), x.device

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(batch, *shape, generator=generator)

    draws = [
        uniform(-0.3, 0.3), uniform(0.75, 1.15), uniform(0, 1), uniform(-0.15, 0.15, 2, 1),
        *(torch.randn(batch, *shape, generator=generator) for shape in ((1, 1, 1), (3, 1, 1), (1, 1, 1))),
        uniform(0, blur, 1, 1, 1), uniform(0, grain, 1, 1, 1),
    ]  # fmt: skip
    angle, scale, side, shift, light, tint, contrast, weight, strength = on_device(draws, device)
    noise = normal(x.shape, generator, device)
    grey = grey_images(x)[:, None, None, None]
    tint, noise = (torch.where(grey, values[:, :1], values) for values in (tint, noise))
    mirror = torch.where(side < 0.5, 1.0, -1.0)
    rows = [angle.cos() * scale * mirror, -angle.sin() * scale, angle.sin() * scale * mirror, angle.cos() * scale]
    affine = torch.cat([torch.stack(rows, 1).view(batch, 2, 2), shift], 2)
    grid = F.affine_grid(affine, list(x.shape), align_corners=False)
    warped = F.grid_sample(torch.cat([x, masks[:, None].to(x.dtype)], 1), grid, align_corners=False)
    view, mask = warped[:, :3], warped[:, 3] > 0.5
    view = view * (1 + 0.15 * light) * (1 + 0.06 * tint)
    mean = view.mean((2, 3), keepdim=True)
    view = mean + (view - mean) * (1 + 0.15 * contrast)
    # Pasted pixels are resampled and therefore a little smoother than their surroundings. Blur and noise in the whole
    # image hide this trace, by which a network would find pasted pixels instead of lesions.
    view = view.lerp(_smoothed(view), weight)
    view = (view + strength * noise).clamp(0, 1)
    return view, mask


def _smoothed(x: Tensor) -> Tensor:
    line = constant((1.0, 4.0, 6.0, 4.0, 1.0), x.device, x.dtype) / 16
    channels = x.shape[1]
    kernel = (line[:, None] * line[None]).expand(channels, 1, 5, 5)
    return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), kernel, groups=channels)


AT_MOST = 512  # maximum number of normal images, which fit in memory and have an AUROC error of 0.02


@dataclass
class SyntheticValidation:
    """Synthetic validation data: held-out normal images, and the same images with lesions of held-out families.

    The rule for scores is chosen on these images, not on test images.
    """

    images: np.ndarray  # uint8 (M, S, S, 3); the first `normals` images are without lesions
    masks: np.ndarray  # bool (M, S, S)
    roi: np.ndarray | None  # uint8 (M, S, S)
    labels: np.ndarray  # (M,), 1 if a lesion is visible
    use: np.ndarray  # bool (M,), False if no pasted lesion is visible, so that the image is neither normal nor abnormal
    normals: int

    @classmethod
    def draw(cls, images: np.ndarray, roi: np.ndarray | None, config: LesionHeadConfig) -> SyntheticValidation:
        """Creates k + 1 versions of normal images, `uint8 (N, S, S, 3)`, with 0 to k lesions of held-out families.

        If there are more than AT_MOST images, a random sample of this size is used.
        """
        if len(images) > AT_MOST:
            rows = np.sort(np.random.default_rng(config.seed).permutation(len(images))[:AT_MOST])
            images, roi = images[rows], None if roi is None else roi[rows]
        images = np.asarray(images)
        draws = generator(config.seed, VALIDATION)
        pairs = Pairs(config.held_out or config.families, config.k)
        inside = None if roi is None else torch.from_numpy(np.array(roi))
        x, versions, masks = to_batch(images, torch.device("cpu")), [images], [np.zeros(images.shape[:3], bool)]
        for n in range(1, config.k + 1):
            pair = pairs(x, inside, draws, counts=torch.full((len(images),), n))
            versions.append(to_pixels(pair.images))
            masks.append(pair.masks.numpy())
        labels = np.concatenate([m.any((1, 2)) for m in masks]).astype(int)
        use = np.r_[np.ones(len(images), bool), labels[len(images) :] == 1]
        regions = None if roi is None else np.concatenate([roi] * len(versions))
        return cls(np.concatenate(versions), np.concatenate(masks), regions, labels, use, len(images))


# Kinds of lesions on which no preset of the lesion head is trained.
JUDGES = ("medmix:lens", "medmix:mottle", "medmix:seam", "medmix:grain", "medmix:foreign", "medmix:stain")


def judge(
    detector: Detector,
    images: np.ndarray,
    roi: np.ndarray | None,
    judges: tuple[str, ...] = JUDGES,
    *,
    lesions: int = 2,
    seed: int = 0,
) -> dict[str, dict[str, float]]:
    """Computes the image AUROC, `auroc`, and the pixel AUROC, `pixel_auroc`, of a detector for each family of lesions.

    Args:
        detector: Fitted detector. If it was trained on synthetic lesions, `judges` must not contain their families.
        images: Held-out normal images, `uint8 (N, S, S, 3)`, each used once without and once with lesions.
        roi: Regions of interest, `uint8 (N, S, S)`, 1 inside, or None.
        judges: Families of the lesions to paste. Families without any visible lesion are omitted.
        lesions: Number of lesions per image.
        seed: Seed of the lesions.
    """
    from sklearn.metrics import roc_auc_score  # imported here because scikit-learn takes seconds to load

    size = images.shape[1]
    inside = None if roi is None else torch.from_numpy(np.array(roi))
    counted = np.ones(images.shape[:3], bool) if roi is None else roi.astype(bool)
    plain = detector.predict(images)
    plain_scores, plain_maps = detector.image_score(plain, roi), upsample(plain.maps, size)
    figures = {}
    for name in judges:
        counts = torch.full((len(images),), lesions)
        pair = Pairs((name,), 3)(
            to_batch(images, torch.device("cpu")), inside, generator(seed, JUDGES_DRAWS), counts=counts
        )
        masks = pair.masks.numpy()
        use = masks.any((1, 2))
        if not use.any():
            continue
        mixed = detector.predict(to_pixels(pair.images))
        scores, maps = detector.image_score(mixed, roi)[use], upsample(mixed.maps, size)[use]
        labels = np.r_[np.zeros(len(images)), np.ones(len(scores))]
        cells = np.r_[plain_maps[counted], maps[counted[use]]]
        truth = np.r_[np.zeros(int(counted.sum())), masks[use][counted[use]]]
        figures[name] = {
            "auroc": float(roc_auc_score(labels, np.r_[plain_scores, scores])),
            "pixel_auroc": float(roc_auc_score(truth, cells)),
        }
    return figures
