"""Training pairs for the lesion head: normal images with fake lesions, and the masks of what was pasted."""

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

_BODY = 0.3  # of a lesion's weight: its soft rim and its shadow are not asked for


@dataclass
class Pair:
    """Images with fake lesions, and where these are.

    images float32 (B, 3, S, S) in [0, 1]; masks bool (B, S, S), what was put in; counts long (B,), n of A_n.
    """

    images: Tensor
    masks: Tensor
    counts: Tensor


class Pairs:
    """Draws (images, masks, counts) from normal images; every draw follows from the generator."""

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
        """x (B, 3, S, S) normal, roi (B, S, S), best on the CPU -> Pair. `counts` (B,) default: 0..k, evenly.

        One family paints each image: a batch is cut into as many parts as there are families. ease in [0, 1], the
        schedule from easy to hard: 1 asks only for what changes the image clearly, 0 for all that can be seen.
        """
        batch = len(x)
        if counts is None:
            counts = torch.randint(0, self.k + 1, (batch,), generator=generator)
        order = torch.randperm(batch, generator=generator)
        many = len(self.members)
        placed, counted = on_device([order, counts], x.device)
        images, masks = x.clone(), torch.zeros(batch, *x.shape[-2:], dtype=torch.bool, device=x.device)
        parts = zip(self.members, order.tensor_split(many), placed.tensor_split(many), strict=True)
        for member, rows, at in parts:
            if len(rows):
                inside = None if roi is None else roi[rows if roi.device.type == "cpu" else at]
                mixed = member(x[at], counts[rows], generator, inside)
                images[at], masks[at] = mixed.images, mixed.alpha > _BODY
        masks &= visible(x, images, threshold=0.02 + 0.06 * ease)
        return Pair(images, masks, counted)


def visible(before: Tensor, after: Tensor, threshold: float) -> Tensor:
    """Finds the cells, bool (B, S, S), around which the image really changed, by the mean over a neighbourhood.

    A patch that looks like what it covers is no lesion; asking for it only teaches noise.
    """
    change = (after - before).abs().mean(1, keepdim=True)
    reach = max(3, before.shape[-1] // 12 | 1)
    return F.avg_pool2d(change, reach, stride=1, padding=reach // 2)[:, 0] > threshold


def jitter_view(
    x: Tensor,
    masks: Tensor,
    roi: Tensor | None,
    generator: torch.Generator,
    *,
    blur: float = 1.0,
    grain: float = 0.04,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Draws a mild view of mixed images: turn, scale, shift, mirror, light and colour; masks and roi go along.

    Milder than SimCLR's: the crop never loses a lesion for good, and what leaves the frame is not asked for. A grey
    image (three equal channels) gives a grey view: colour in it alone would be no sign of lesions.
    blur, grain: see LesionHeadConfig.
    Returns x (B, 3, S, S), masks bool (B, S, S), roi (B, S, S) or None.
    """
    batch, device = len(x), x.device

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(batch, *shape, generator=generator)

    drawn = [
        uniform(-0.3, 0.3), uniform(0.75, 1.15), uniform(0, 1), uniform(-0.15, 0.15, 2, 1),
        *(torch.randn(batch, *shape, generator=generator) for shape in ((1, 1, 1), (3, 1, 1), (1, 1, 1))),
        uniform(0, blur, 1, 1, 1), uniform(0, grain, 1, 1, 1),
    ]  # fmt: skip
    angle, scale, side, shift, light, tint, contrast, weight, strength = on_device(drawn, device)
    noise = normal(x.shape, generator, device)
    grey = grey_images(x)[:, None, None, None]
    tint, noise = (torch.where(grey, values[:, :1], values) for values in (tint, noise))
    mirror = torch.where(side < 0.5, 1.0, -1.0)
    rows = [angle.cos() * scale * mirror, -angle.sin() * scale, angle.sin() * scale * mirror, angle.cos() * scale]
    affine = torch.cat([torch.stack(rows, 1).view(batch, 2, 2), shift], 2)
    grid = F.affine_grid(affine, list(x.shape), align_corners=False)
    planes = [x, masks[:, None].to(x.dtype)] + ([] if roi is None else [roi[:, None].to(x.dtype)])
    warped = F.grid_sample(torch.cat(planes, 1), grid, align_corners=False)
    view, mask = warped[:, :3], warped[:, 3] > 0.5
    view = view * (1 + 0.15 * light) * (1 + 0.06 * tint)
    mean = view.mean((2, 3), keepdim=True)
    view = mean + (view - mean) * (1 + 0.15 * contrast)
    # A paste is resampled and so a little smoother than what lies around it. Blur and grain over everything hide that
    # trace: a network that lives on it finds pastes, not lesions.
    view = view.lerp(_smoothed(view), weight)
    view = (view + strength * noise).clamp(0, 1)
    return view, mask, None if roi is None else warped[:, 4] > 0.5


def _smoothed(x: Tensor) -> Tensor:
    """Binomial blur of five by five, edges mirrored: (B, C, S, S)."""
    line = constant((1.0, 4.0, 6.0, 4.0, 1.0), x.device, x.dtype) / 16
    channels = x.shape[1]
    kernel = (line[:, None] * line[None]).expand(channels, 1, 5, 5)
    return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="reflect"), kernel, groups=channels)


# Synthetic validation data: normal images that nothing was fitted on, with lesions of families never trained on.
#
# Scores and combinations are chosen here, so that no test image has a say in them.


AT_MOST = 512  # normal images: the AUROC of as many and their fakes is known to 0.02, and they lie in memory together


@dataclass
class SyntheticValidation:
    """Normal images, and the same with fake lesions.

    images uint8 (M, S, S, 3), the first `normals` of them as they were; masks bool (M, S, S); roi uint8 (M, S, S) or
    None. labels (M,): 1 if a lesion is to be seen. use bool (M,): False where one was put in that cannot be seen, which
    is neither normal nor abnormal.
    """

    images: np.ndarray
    masks: np.ndarray
    roi: np.ndarray | None
    labels: np.ndarray
    use: np.ndarray
    normals: int

    @classmethod
    def draw(cls, images: np.ndarray, roi: np.ndarray | None, config: LesionHeadConfig) -> SyntheticValidation:
        """Draws from normal images uint8 (N, S, S, 3): each as it is and with 1..k lesions of `config.held_out`.

        Of more than AT_MOST images, AT_MOST are taken at random.
        """
        if len(images) > AT_MOST:
            rows = np.sort(np.random.default_rng(config.seed).permutation(len(images))[:AT_MOST])
            images, roi = images[rows], None if roi is None else roi[rows]
        images = np.asarray(images)
        draws = generator(config.seed, VALIDATION)
        pairs = Pairs(config.held_out or config.families, config.k)
        inside = None if roi is None else torch.from_numpy(np.array(roi))
        x, parts, masks = to_batch(images, torch.device("cpu")), [images], [np.zeros(images.shape[:3], bool)]
        for n in range(1, config.k + 1):
            pair = pairs(x, inside, draws, counts=torch.full((len(images),), n))
            parts.append(to_pixels(pair.images))
            masks.append(pair.masks.numpy())
        labels = np.concatenate([m.any((1, 2)) for m in masks]).astype(int)
        use = np.r_[np.ones(len(images), bool), labels[len(images) :] == 1]
        every = None if roi is None else np.concatenate([roi] * len(parts))
        return cls(np.concatenate(parts), np.concatenate(masks), every, labels, use, len(images))


# Kinds of lesion that no preset of the lesion head is trained on, and that have little in common.
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
    """Measures how well a fitted detector finds fake lesions in normals it never saw: image and pixel AUROC by family.

    images uint8 (N, S, S, 3), normal and held out; each is judged as it is and with `lesions` of a family. Any detector
    can be judged; for one that was trained on synthetic lesions the families must be others than those.
    """
    from sklearn.metrics import roc_auc_score  # here: scikit-learn takes seconds to load

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
