"""The search for MedMix settings by a few lesions. Features are plain colours: what they see of a lesion is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from pmsacl_studio import MedMix as Transform

from core.engine.augment import matching
from core.engine.augment.config import MEDMIX_PRESETS, MedMixConfig
from core.engine.augment.matching import Lesions, Search
from core.engine.augment.medmix.medmix import MedMix
from core.engine.tensors import to_batch
from tests.conftest import picture

TRIES = 24


def colours(patches: torch.Tensor) -> np.ndarray:
    """What the tests' encoder sees of patches (B, 3, S, S): mean, spread and middle of each channel, (B, 9)."""
    middle = patches[..., 24:40, 24:40].mean((2, 3))
    return torch.cat([patches.mean((2, 3)), patches.std((2, 3)), middle], 1).numpy()


def normals(count: int = 6) -> torch.Tensor:
    return to_batch(np.stack([picture(i, (128, 128))[0] for i in range(count)]), torch.device("cpu"))


def lesions(count: int, units=(), seed: int = 50) -> Lesions:
    pairs = [picture(seed + i, (128, 128), blob=True) for i in range(count)]
    return Lesions.of([image for image, _ in pairs], [mask for _, mask in pairs], units)


def search(count: int = 6, seed: int = 0, **more) -> Search:
    return Search(normals(), None, lesions(count, **more), colours, seed)


@pytest.mark.long
def test_what_is_found_is_nearer_than_every_preset_and_the_same_by_seed_and_tries():
    found, again = (search().run(tries=TRIES) for _ in range(2))
    assert found.config == again.config and found.after == again.after and found.tries == TRIES
    assert found.settings == again.settings and found.left_out == again.left_out
    here = search()
    distances = {name: here.distance(here.describe(preset)) for name, preset in MEDMIX_PRESETS.items()}
    assert found.before == min(distances.values()) == distances[found.preset] and found.after <= found.before
    assert here.distance(here.describe(found.config)) == pytest.approx(found.after)
    assert search(seed=1).run(tries=TRIES).config != found.config


@pytest.mark.long
def test_each_setting_that_was_changed_contributes_and_can_be_put_back():
    here = search(3)
    found = here.run(tries=TRIES)
    assert found.after < found.before, "bright yellow blobs are unlike every preset"
    assert found.settings and found.words.startswith("mostly ")
    for one in found.settings:
        assert getattr(found.config, one["name"]) == one["after"] != one["before"]
        without = here.describe(found.config.replace(**{one["name"]: one["before"]}))
        assert here.distance(without) == pytest.approx(one["without"])
    assert [s["without"] for s in found.settings] == sorted((s["without"] for s in found.settings), reverse=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "units", "known"), [(3, (), False), (4, (), True), (8, [1, 1, 1, 1, 2, 2, 2, 2], False)]
)
def test_lesions_of_one_patient_are_on_one_side_and_too_few_say_nothing(count, units, known):
    chosen = lesions(count, units)
    halves = chosen.halves(0)
    assert bool(halves) == known
    for half in halves:
        assert half.any() and not half.all()
        assert not set(chosen.units[half]) & set(chosen.units[~half])
    found = search(count, units=units).run(tries=3)
    assert (found.left_out is not None) == (found.left_out_before is not None) == known


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_what_is_found_ranks_before_the_preset_or_is_the_preset(seed):
    here = search(4, seed)
    found = here.run(tries=12)
    if found.config == MEDMIX_PRESETS[found.preset]:
        assert found.after == found.before and not found.settings
    else:
        preset, rows = here.describe(MEDMIX_PRESETS[found.preset]), np.ones(4, bool)
        assert here._rank(here.describe(found.config), rows, preset) < found.before + matching.GAIN * len(
            found.settings
        )
    assert found.left_out is not None


@pytest.mark.long
def test_a_stop_keeps_the_best_until_then():
    asked, told = itertools.count(), []
    found = search().run(seconds=600, report=told.append, should_stop=lambda: next(asked) > 12)
    assert 1 <= found.tries < 20 and found.after <= found.before and told[-1]["after"] == found.after
    ranks = [row["after"] for row in told]
    assert ranks[0] >= found.after - 1e-9 and [row["tries"] for row in told[:-1]] == list(range(1, len(told)))


@pytest.mark.long
def test_a_search_begins_with_what_an_earlier_one_found():
    first = search(3).run(tries=TRIES)
    again = search(3).run(tries=1, warm=[first.config])
    assert again.after <= first.after + matching.GAIN * len(first.settings) + 1e-9 < first.before


@pytest.mark.long
def test_every_setting_that_is_tried_pastes_lesions_that_show():
    rng, x = np.random.default_rng(0), normals(6)
    pool = [matching._Tried(0, i, matching._values(c), np.zeros(0)) for i, c in enumerate(MEDMIX_PRESETS.values())]
    for turn in range(40):
        at = rng.permutation(len(pool))[: matching.PARENTS]
        values = matching._child([pool[i] for i in at], rng)
        pool.append(matching._Tried(0, turn, values, np.zeros(0)))
        config = MedMixConfig(**values)
        plain = MedMixConfig()
        for name in ("k", "least_contrast", "least_area", "inside", "avoid_overlap"):
            assert getattr(config, name) == getattr(plain, name)
        assert not config.pooled and not config.from_marks
        mixed = MedMix(config)(x, 1, torch.Generator().manual_seed(turn))
        changed = (mixed.images - x).abs().mean(1) * mixed.masks
        shows = (changed >= 0.99 * config.shown[0]).sum((1, 2))
        assert bool((shows >= config.shown[1]).all()), values


def test_what_cannot_be_matched_is_said():
    image, mask = picture(1, (64, 64), blob=True)
    with pytest.raises(ValueError, match="at least one lesion"):
        Lesions.of([], [])
    with pytest.raises(ValueError, match="mask 2 is empty"):
        Lesions.of([image, image], [mask, 0 * mask])
    with pytest.raises(ValueError, match="at least 8 normal images"):
        Transform.match([image] * 4, [mask, *[0 * mask] * 3], tries=1)
    with pytest.raises(ValueError, match="each image needs one mask"):
        Transform.match([image] * 4, [mask], tries=1)


@pytest.mark.long
def test_the_transform_is_matched_to_images_and_masks(monkeypatch):
    monkeypatch.setattr(matching, "imagenet_features", lambda: colours)
    pairs = [picture(i, (96, 80), blob=i < 3) for i in range(12)]
    images, masks = [image for image, _ in pairs], [mask for _, mask in pairs]
    medmix = Transform.match(images, masks, tries=TRIES)
    floats = Transform.match([torch.from_numpy(i.copy()).movedim(-1, 0) / 255 for i in images], masks, tries=TRIES)
    assert medmix.config == floats.config and medmix.found.after < medmix.found.before
    assert medmix.found.left_out is None, "of three lesions nothing is known of others"
    mixed, changed, counts = medmix(np.stack(images), counts=1)
    assert mixed.shape == (12, 80, 96, 3) and changed.any((1, 2)).all() and (counts == 1).all()


@pytest.mark.long
def test_it_works_by_the_features_of_the_encoder_that_comes_along():
    found = Search(normals(), None, lesions(4), matching.imagenet_features()).run(tries=4)
    assert found.after <= found.before and found.left_out is not None
