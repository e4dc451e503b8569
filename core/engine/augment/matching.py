"""Searches for the MedMix settings with which pasted lesions look most like a few given real lesions.

Every distance is the energy distance between the features of two sets of patches, divided by the distance between
normal tissue and the real lesions. Pasted lesions at a distance of 1 are as far from real lesions as normal tissue is;
at 0, they are indistinguishable.

The search is an evolution strategy: it keeps the best settings so far and changes a few of their values at a time. A
few lesions are weak evidence. Settings are therefore ranked by their distance plus CAUTION times the standard error
(over lesions) of their gain over the best preset, so settings that suit only one lesion in five are not chosen.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import torch
from scipy.spatial.distance import cdist

from core.engine.augment.config import MEDMIX_PRESETS, MedMixConfig
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.strong import Mixed
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.config import options
from core.engine.progress import Report, Stop
from core.engine.tensors import to_batch, to_pixels

SIDE = 128  # side in pixels of the normal images that lesions are pasted into; real lesions are read at twice this size
PATCH = 64  # side of a patch in pixels
ARCH, STRIDES = "efficientnet-lite0", (4, 8, 16)
ENCODER = f"{ARCH} with ImageNet's weights"
NORMALS = 48  # largest number of normal images that lesions are pasted into
HALVES = 4  # smallest number of patients for which each half of the lesions is held out in turn
APART = 0.1  # smallest divisor: a smaller energy distance between normal tissue and lesions is noise
PARENTS = 6  # number of the best settings from which new settings are combined
SPARE = 0.2  # fraction of the seconds that is reserved for measuring the contribution of each setting
CAUTION = 0.5  # chosen from 0, 0.5, 1 and 2, on 700 settings and 40 draws of five or ten lesions
GAIN = 0.005  # change of distance: a setting that contributes less is reset
Features = Callable[[torch.Tensor], np.ndarray]  # (B, 3, PATCH, PATCH) -> (B, D)

# The settings that are searched, and the range of each. A range is narrower than MedMix's own where lesions beyond it
# might be invisible, so that their labels would be wrong. The settings that decide whether a lesion is visible (least
# contrast and area, the fraction inside the region of interest, no overlap) keep MedMix's values. Donors that need more
# than the study's normal images (another study, readers' annotations) are excluded.
RANGES: dict[str, tuple[float, float]] = {
    "size": (0.03, 0.85), "aspect": (1, 3),
    "irregularity": (0, 1), "softness": (0, 1), "opacity": (0.3, 1), "donor_scale": (0.3, 2.5), "contrast": (0.02, 0.8),
    "p_jitter": (0, 1), "jitter": (0, 0.8), "p_noise": (0, 1), "noise": (0, 0.15), "match": (0, 1), "shading": (0, 1),
    "p_fisheye": (0, 1), "p_wave": (0, 1), "bulge": (0, 0.9),
}  # fmt: skip
SETS: dict[str, tuple[str, ...]] = {
    "donor": ("other", "same", "here", "texture"),
    "shape": ("rectangle", "ellipse", "irregular"),
    "blend": ("paste", "alpha", "poisson"),
}
HUE = 0.2
LENGTHS = ("size", "donor_scale")  # settings that are changed by a factor, not by a difference
STARTS = 3  # number of presets with which each part of a search begins


def imagenet_features() -> Features:
    """Returns a function that computes patch features: ImageNet feature maps at STRIDES, averaged over the patch."""
    encoder = build_encoder(EncoderConfig(arch=ARCH, init="imagenet")).eval()

    @torch.inference_mode()
    def features(patches: torch.Tensor) -> np.ndarray:
        maps = [encoder.maps(batch, STRIDES).values() for batch in patches.split(32)]
        return np.concatenate([torch.cat([m.mean((2, 3)) for m in batch_maps], 1).numpy() for batch_maps in maps])

    return features


def energy_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Computes an unbiased estimate of the energy distance between samples `(N, D)` and `(M, D)`.

    Its expectation is 0 if both samples have the same distribution (Szekely and Rizzo, 2013). For a sample of one
    point, the mean distance within the sample is taken as 0.
    """
    return float(2 * cdist(a, b).mean() - _within(a) - _within(b))


def _within(z: np.ndarray) -> float:
    return cdist(z, z).sum() / (len(z) * (len(z) - 1)) if len(z) > 1 else 0.0


def patch_around(image: np.ndarray, box: Sequence[int], side: int) -> np.ndarray:
    """Cuts a square around `box` (y0, x0, y1, x1), 1.5 times its longer side, and resizes it to `(side, side, 3)`."""
    (y0, x0, y1, x1), side_of_image = box, image.shape[0]
    half = max(4, round(0.75 * max(y1 - y0, x1 - x0)))
    cy, cx = (y0 + y1) // 2, (x0 + x1) // 2
    top, left = max(0, cy - half), max(0, cx - half)
    cut = image[top : min(side_of_image, cy + half), left : min(side_of_image, cx + half)]
    return cv2.resize(cut, (side, side), interpolation=cv2.INTER_AREA if cut.shape[0] > side else cv2.INTER_LINEAR)


def lesion_patches(mixed: Mixed, images: torch.Tensor, side: int = PATCH) -> np.ndarray:
    """Returns patches uint8 `(N, side, side, 3)` around the first lesion of each of the N images with lesions.

    Patches are cut from `images` `(B, 3, S, S)` in [0, 1]: either `mixed.images` or the images before pasting.
    """
    pairs = zip(to_pixels(images), mixed.boxes[:, 0].tolist(), strict=True)
    return np.stack([patch_around(p, box, side) for p, box in pairs if box[2] > box[0] and box[3] > box[1]])


@dataclass(frozen=True)
class Lesions:
    """Set of L real lesions for which a search finds similar synthetic lesions.

    Attributes:
        patches: Patches around the lesions, uint8 `(L, PATCH, PATCH, 3)`.
        sizes: Height and width of each lesion, relative to the image's side length, `(L, 2)`.
        units: Patient number of each lesion, `(L,)`. `halves` keeps the lesions of a patient together.
    """

    patches: np.ndarray
    sizes: np.ndarray
    units: np.ndarray

    @classmethod
    def of(cls, images: Iterable[np.ndarray], masks: Iterable[np.ndarray], units: Sequence[int] = ()) -> Lesions:
        """Creates Lesions from the largest connected lesion in each image, uint8 `(H, W, 3)`, given masks `(H, W)`.

        `units` holds the patient number of each image; by default, every image is from a different patient. Raises
        ValueError if a mask is empty or if there are no images.
        """
        patches, sizes, side = [], [], 2 * SIDE
        for i, (image, mask) in enumerate(zip(images, masks, strict=True)):
            if not (np.asarray(mask) > 0).any():
                raise ValueError(f"mask {i + 1} is empty, but each mask must show a lesion")
            covered = cv2.resize((np.asarray(mask) > 0).astype(np.float32), (side, side), interpolation=cv2.INTER_AREA)
            _, _, stats, _ = cv2.connectedComponentsWithStats((covered >= min(0.5, covered.max())).astype(np.uint8))
            x0, y0, w, h = (int(v) for v in stats[1 + stats[1:, cv2.CC_STAT_AREA].argmax(), :4])
            square = cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA)
            patches.append(patch_around(square, (y0, x0, y0 + h, x0 + w), PATCH))
            sizes.append((h / side, w / side))
        if not patches:
            raise ValueError("at least one lesion is needed to match")
        return cls(np.stack(patches), np.array(sizes), np.array(units if len(units) else range(len(patches))))

    def size(self, rows: np.ndarray) -> tuple[float, float]:
        """Returns a range for MedMix's `size`: mean +- 1.3 standard deviations of the log sizes of lesions `rows`."""
        side = np.log(np.sqrt(self.sizes[rows].prod(1)))
        spread = 1.3 * (side.std(ddof=1) if len(side) > 1 else 0.2)
        return float(np.exp(side.mean() - spread)), float(np.exp(side.mean() + spread))

    def halves(self, seed: int) -> list[np.ndarray]:
        """Splits the lesions at random by patient; returns two masks, bool `(L,)`, or [] for too few patients."""
        units = np.random.default_rng(seed).permutation(np.unique(self.units))
        if len(units) < HALVES:
            return []
        first = np.isin(self.units, units[: len(units) // 2])
        return [first, ~first]


@dataclass(frozen=True)
class Match:
    """Result of a search for settings.

    Attributes:
        config: Best settings.
        preset: Name of the preset with the smallest distance.
        before: Distance from lesions pasted with `preset` to the given lesions.
        after: Distance from lesions pasted with `config` to the given lesions.
        left_out: Distance to lesions excluded from a search, or None if there are too few lesions.
        left_out_before: The same distance for the best preset, or None.
        settings: One dictionary per changed setting, in order of decreasing importance: its `name`, its values `before`
            and `after`, and `without`, the distance if only this setting is reset to its value before.
        tries: Number of configurations tried. The same seed and the same number give the same result.
        seconds: Duration of the search in seconds.
    """

    config: MedMixConfig
    preset: str
    before: float
    after: float
    left_out: float | None
    left_out_before: float | None
    settings: list[dict[str, Any]]
    tries: int
    seconds: float

    @property
    def words(self) -> str:
        """Most important settings as text, such as "mostly donor and blending", or "" if no setting matters."""
        fields = options(MedMixConfig)
        names = [fields[s["name"]].label.lower() for s in self.settings[:3] if s["without"] > self.after + 2 * GAIN]
        return f"mostly {' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}" if names else ""


@dataclass(order=True)
class _Tried:
    rank: float
    number: int
    values: dict[str, Any] = field(compare=False)
    features: np.ndarray = field(compare=False)


class Search:
    """Search for MedMix settings with which lesions pasted into normal images resemble real lesions.

    Args:
        x: Normal images `(B, 3, S, S)` in [0, 1].
        roi: Regions of interest `(B, S, S)`, or None.
        lesions: Real lesions.
        features: Function that computes the features of patches, such as `imagenet_features()`.
    """

    def __init__(
        self, x: torch.Tensor, roi: torch.Tensor | None, lesions: Lesions, features: Features, seed: int = 0
    ) -> None:
        self.x, self.roi, self.lesions, self.seed, self._features = x, roi, lesions, seed, features
        p = lesions.patches
        turned = [self.encoded(np.ascontiguousarray(t)) for t in (p, p[:, :, ::-1], p[:, ::-1], p[:, ::-1, ::-1])]
        low, high = np.clip(lesions.size(np.ones(len(p), bool)), *RANGES["size"]).tolist()
        plain = self.encoded(lesion_patches(self._mixed(MedMixConfig(size=(low, high)), seed), x))
        self.scale = np.concatenate([plain, *turned]).std(0) + 1e-3
        self.plain, self.real = plain / self.scale, np.stack(turned, 1) / self.scale  # (L, 4, D), with mirror images

    def encoded(self, patches: np.ndarray) -> np.ndarray:
        """Computes the features `(N, D)`, before scaling, of patches uint8 `(N, PATCH, PATCH, 3)`."""
        return self._features(to_batch(patches, torch.device("cpu")))

    def _mixed(self, config: MedMixConfig, seed: int) -> Mixed:
        with torch.inference_mode():
            return MedMix(config)(self.x, 1, torch.Generator().manual_seed(seed), self.roi)

    def describe(self, config: MedMixConfig, fresh: bool = False) -> np.ndarray:
        """Pastes one lesion into each image with the settings `config`; returns the lesions' scaled features `(N, D)`.

        If `fresh` is set, lesions are drawn with a seed that the search does not use.
        """
        mixed = self._mixed(config, self.seed + 1 if fresh else self.seed)
        return self.encoded(lesion_patches(mixed, mixed.images)) / self.scale

    def distance(self, features: np.ndarray, rows: np.ndarray | None = None) -> float:
        """Returns `apart` divided by the distance between normal tissue and the same real lesions."""
        return self.apart(features, rows) / self._tissue(rows)

    def apart(self, features: np.ndarray, rows: np.ndarray | None = None) -> float:
        """Returns the energy distance between features `(N, D)` and the real lesions `rows` (by default all)."""
        chosen = slice(None) if rows is None else rows
        return float(2 * self._each(features)[chosen].mean() - _within(features) - _within(self.real[chosen, 0]))

    def _tissue(self, rows: np.ndarray | None) -> float:
        return max(self.apart(self.plain, rows), APART)

    def _each(self, features: np.ndarray) -> np.ndarray:
        """Returns the mean distance of features to each real lesion, `(L,)`."""
        return cdist(features, self.real.reshape(-1, self.real.shape[-1])).mean(0).reshape(len(self.real), -1).mean(1)

    def _rank(self, features: np.ndarray, rows: np.ndarray, preset: np.ndarray) -> float:
        """Returns the distance to lesions `rows` plus CAUTION standard errors of the gain over `preset`."""
        gains = 2 * (self._each(features) - self._each(preset))[rows]
        error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
        return self.distance(features, rows) + CAUTION * float(error) / self._tissue(rows)

    def run(
        self,
        seconds: float = 60,
        tries: int | None = None,
        warm: Sequence[MedMixConfig] = (),
        report: Report | None = None,
        should_stop: Stop | None = None,
    ) -> Match:
        """Runs the search and returns the best settings found, even if the search is stopped early.

        Args:
            seconds: Duration of the search in seconds.
            tries: Number of configurations to try. Defaults to as many as fit into `seconds`.
            warm: Settings from earlier searches, which are tried first.
            report: Function that is called after each try and at the end with a dictionary of the current result. Its
                keys are config, before, after, left_out, preset, tries and seconds, as in `Match`.
            should_stop: Function that returns True if the search must stop.
        """
        started, stop = time.monotonic(), should_stop or (lambda: False)
        end = started + seconds * (1 - SPARE)
        presets = {name: self.describe(preset) for name, preset in MEDMIX_PRESETS.items()}
        halves = self.lesions.halves(self.seed)
        rows = [*halves, np.ones(len(self.real), bool)]  # lesions of each part of the search: the halves, then all
        pools: list[list[_Tried]] = [[] for _ in rows]
        ranked = [sorted(presets, key=lambda name: self.distance(presets[name], half)) for half in rows]
        best = [presets[names[0]] for names in ranked]
        best_preset, before = ranked[-1][0], self.distance(best[-1])
        rng, number = np.random.default_rng(self.seed), 0
        queue = [(len(rows) - 1, _values(config)) for config in warm]
        sizes = [_clipped("size", np.array(self.lesions.size(half)), *RANGES["size"]) for half in rows]
        for at, as_large in itertools.product(range(STARTS), (True, False)):  # the lesions' sizes or the preset's
            for group in reversed(range(len(rows))):
                values = _values(MEDMIX_PRESETS[ranked[group][at]])
                queue.append((group, values | ({"size": sizes[group]} if as_large else {})))

        def left_out(fresh: bool) -> tuple[float, float] | tuple[None, None]:
            """Returns the mean distance from each half's best settings, and best preset, to the other half."""
            if not halves or not all(pools):
                return None, None
            z = [self.describe(MedMixConfig(**p[0].values), True) if fresh else p[0].features for p in pools[:2]]
            base = sum(self._tissue(~half) for half in halves)
            a, b = (sum(self.apart(f, ~h) for f, h in zip(pair, halves, strict=True)) / base for pair in (z, best[:2]))
            return a, b

        def tell(config: MedMixConfig, after: float, others: float | None) -> None:
            if report is not None:
                report({
                    "config": config, "before": before, "after": after, "left_out": others, "preset": best_preset,
                    "tries": number, "seconds": time.monotonic() - started,
                })  # fmt: skip

        while number < tries if tries is not None else time.monotonic() < end or not pools[-1]:
            if pools[-1] and stop():
                break
            if queue:
                group, values = queue.pop(0)
            else:
                group = number % 6 // 3 if halves and number % 3 == 0 else len(rows) - 1
                values = _child(pools[group], rng)
            z, number = self.describe(MedMixConfig(**values)), number + 1
            for i in {group, len(rows) - 1}:
                pools[i].append(_Tried(self._rank(z, rows[i], best[i]), number, values, z))
                pools[i].sort()
            better = pools[-1][0].rank < before
            now = MedMixConfig(**pools[-1][0].values) if better else MEDMIX_PRESETS[best_preset]
            tell(now, self.distance(pools[-1][0].features) if better else before, left_out(False)[0])
        config, after, settings = MEDMIX_PRESETS[best_preset], before, list[dict[str, Any]]()
        if pools[-1] and pools[-1][0].rank < before:  # otherwise no settings are reliably better than the preset
            values, after, settings = self._pruned(pools[-1][0], _values(config), best[-1], stop)
            config = MedMixConfig(**values)
        others = left_out(fresh=not stop())
        tell(config, after, others[0])
        spent = time.monotonic() - started
        return Match(config, best_preset, before, after, others[0], others[1], settings, number, spent)

    def _pruned(
        self, best: _Tried, start: dict[str, Any], preset: np.ndarray, stop: Stop
    ) -> tuple[dict[str, Any], float, list[dict[str, Any]]]:
        """Resets settings that contribute less than GAIN, then measures the contribution of each remaining setting."""
        values, rank, after = best.values, best.rank, self.distance(best.features)

        def back(name: str) -> np.ndarray:
            return self.describe(MedMixConfig(**{**values, name: start[name]}))

        for name in [name for name in values if values[name] != start[name]]:
            if stop():
                return values, after, []
            z = back(name)
            lesser = self._rank(z, np.ones(len(self.real), bool), preset)
            if lesser <= rank + GAIN:
                values, rank, after = {**values, name: start[name]}, lesser, self.distance(z)
        changed = [
            {"name": name, "before": start[name], "after": values[name], "without": self.distance(back(name))}
            for name in values
            if values[name] != start[name]
        ]
        return values, after, sorted(changed, key=lambda row: -row["without"])


def _values(config: MedMixConfig) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, allowed in SETS.items():
        chosen = options(MedMixConfig)[name].chosen(getattr(config, name))
        values[name] = "+".join(c for c in allowed if c in chosen) or allowed[0]
    for name, (low, high) in RANGES.items():
        values[name] = _clipped(name, np.atleast_1d(getattr(config, name)), low, high)
    return values


def _clipped(name: str, numbers: np.ndarray, low: float, high: float) -> float | tuple[float, ...]:
    """Clips the numbers of a setting to its range; returns one number, a pair (low, high) or four jitter strengths."""
    numbers = np.clip(numbers, low, [high, high, high, HUE] if name == "jitter" else high).round(3)
    values = tuple(float(v) for v in (numbers if name == "jitter" else np.sort(numbers)))
    return values if len(values) > 1 else values[0]


def _child(pool: list[_Tried], rng: np.random.Generator) -> dict[str, Any]:
    """Combines two of the best settings, mostly from the first, and changes a few values at random."""
    top = [tried.values for tried in pool[:PARENTS]]
    weights = np.arange(len(top), 0, -1)
    first, second = rng.choice(len(top), 2, p=weights / weights.sum())
    values = {name: (top[second] if rng.random() < 0.3 else top[first])[name] for name in top[first]}
    names = [*RANGES, *SETS]
    for at in rng.integers(len(names), size=1 + rng.geometric(0.4)):
        name = names[at]
        if name in SETS:
            choice, chosen = str(rng.choice(SETS[name])), set(values[name].split("+"))
            chosen = {choice} if rng.random() < 0.5 else chosen ^ {choice}
            values[name] = "+".join(c for c in SETS[name] if c in chosen) or choice
            continue
        low, high = RANGES[name]
        numbers, anew = np.atleast_1d(np.array(values[name], float)), rng.random() < 0.4
        if name in LENGTHS:
            numbers = numbers * np.exp(rng.normal(0, 0.25, len(numbers)))
        elif anew:
            numbers = rng.uniform(low, high, len(numbers))
        else:
            numbers = numbers + rng.normal(0, 0.15 * (high - low), len(numbers))
        if name == "jitter":
            numbers[3] = np.abs(numbers[3]) * HUE / high if anew else numbers[3]
        values[name] = _clipped(name, numbers, low, high)
    return values
