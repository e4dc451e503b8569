"""Nearest patches: against a plain loop, traced to the training image, saved and loaded, and fitted with others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from core.engine.backbones import embed
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.config import BadConfig
from core.engine.detectors.base import FitContext
from core.engine.detectors.map_detector import fit_together, predict_together
from core.engine.detectors.nearest.memory import Memory, Pool, greedy_coreset, patches_of, scales_of, whitening
from core.engine.detectors.nearest.nearest import Nearest, NearestConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.tensors import to_batch
from tests.engine.detectors.conftest import with_spot

WHOLE = NearestConfig(patches=5000, pool=5000, sigma=0.0, neighbours=0, batch=7)  # every patch is kept


def maps_of(encoder, images):
    with torch.inference_mode():
        return encoder.maps(torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255, (8, 16))


@pytest.mark.slow
def test_patches_are_means_of_the_cells_around(encoder, images):
    maps = maps_of(encoder, images[:2])
    found = patches_of(maps, (8, 16)).numpy()
    assert found.shape == (2, 8, 8, 128 + 256 + 2)
    fine = maps[8].numpy()
    for i, j in ((0, 0), (3, 7), (4, 4)):
        near = fine[:, :, max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
        np.testing.assert_allclose(found[:, i, j, :128], near.mean((2, 3)), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[0, i, j, -2:], [(i + 0.5) / 8, (j + 0.5) / 8], rtol=1e-6)


@pytest.mark.slow
def test_maps_are_distances_to_the_nearest_of_all_patches(encoder, images):
    detector = Nearest.fit(encoder, images[:20], WHOLE)
    assert len(detector.memory.features) == 20 * 64
    known = patches_of(maps_of(encoder, images[:20]), (8, 16)).flatten(0, 2)[:, :-2].double()
    asked = patches_of(maps_of(encoder, images[20:]), (8, 16)).flatten(0, 2)[:, :-2].double()
    expected = torch.cdist(asked, known).min(1).values.view(4, 8, 8)
    np.testing.assert_allclose(detector.predict(images[20:]).maps, expected, rtol=1e-3)


@pytest.mark.slow
def test_batches_do_not_matter(encoder, images):
    config = NearestConfig(patches=200, pool=400, coreset="random")
    a = Nearest.fit(encoder, images, config.replace(batch=5)).predict(images[:4], batch=1)
    b = Nearest.fit(encoder, images, config).predict(images[:4])
    np.testing.assert_allclose(a.maps, b.maps, rtol=1e-2, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"coreset": "random"}, {"balance": True}, {"position": 1.0}])
def test_a_spot_is_found(encoder, images, changes):
    detector = Nearest.fit(encoder, images[:20], NearestConfig(patches=300, pool=900).replace(**changes))
    assert len(detector.memory.features) == 300
    plain, spotted = detector.predict(images[20:]), detector.predict(with_spot(images[20:], 27))
    assert detector.image_score(spotted).min() > detector.image_score(plain).max()
    y, x = np.unravel_index(spotted.maps[0].argmax(), (8, 8))
    assert 2 <= y <= 5 and 2 <= x <= 5  # pixels 27..37 are cells 3 and 4


@pytest.mark.slow
def test_score_in_a_region_of_interest(encoder, images):
    detector = Nearest.fit(encoder, images[:20], WHOLE)
    spotted = detector.predict(with_spot(images[20:], 27))
    roi = np.ones((4, 64, 64), np.uint8)
    whole = detector.image_score(spotted)
    np.testing.assert_allclose(whole, spotted.maps.reshape(4, -1).max(1))
    assert np.array_equal(detector.image_score(spotted, roi), whole)
    assert np.array_equal(detector.image_score(spotted, 0 * roi), whole)  # an empty region says nothing
    roi[:, 8:, 8:] = 0
    assert (detector.image_score(spotted, roi) < whole).all()


@pytest.mark.slow
def test_only_what_lies_inside_is_remembered(encoder, images):
    roi = np.zeros((24, 64, 64), np.uint8)
    roi[:, :, :32] = 1
    memory = Nearest.fit(encoder, images, WHOLE, FitContext(roi=roi)).memory
    assert len(memory.cells) == 24 * 32 and int((memory.cells % 8).max()) == 3


@pytest.mark.slow
def test_each_decision_is_traced_to_a_training_image(encoder, images):
    detector = Nearest.fit(encoder, images[:20], WHOLE)
    points = np.array([(0, 0), (63, 63), (20, 44)])
    found = detector.explain(images[[4, 11, 2]], points)
    assert [m.row for m in found] == [4, 11, 2] and all(m.distance < 1e-3 and m.there == m.box for m in found)
    assert [m.box for m in found] == [(0, 0, 16, 16), (48, 48, 64, 64), (8, 32, 32, 56)]
    peaks = detector.explain(with_spot(images[20:], 27))
    scores = detector.image_score(detector.predict(with_spot(images[20:], 27)))
    np.testing.assert_allclose([m.distance for m in peaks], scores, rtol=1e-4)
    assert all(m.box[0] <= 37 and m.box[2] >= 27 and m.row < 20 for m in peaks)
    roi = np.ones((4, 64, 64), np.uint8)
    roi[:, 8:, 8:] = 0
    assert all(m.box[0] < 8 or m.box[1] < 8 for m in detector.explain(with_spot(images[20:], 27), roi=roi))


@pytest.mark.slow
def test_the_place_is_a_soft_prior(encoder, images):
    """The more the place weighs, the nearer to its own place a patch of a moved image is compared."""
    moved, points = np.roll(images[20:], 32, (1, 2)), np.array([(10, 10), (20, 50), (50, 30), (60, 5)])
    steps = []
    for position in (0.0, 3.0, 100.0):
        detector = Nearest.fit(encoder, images[:20], WHOLE.replace(position=position))
        found = detector.explain(moved, points)
        steps.append(np.mean([abs(a - b) for m in found for a, b in zip(m.box, m.there, strict=True)]))
    assert steps[0] > steps[1] > steps[2] == 0


@pytest.mark.slow
def test_scales():
    pool = torch.randn(4000, 7, generator=torch.Generator().manual_seed(0)) * torch.tensor([1, 1, 9, 9, 9, 0, 0])
    plain, even = (scales_of(pool, [2, 3], balance, 0.5) for balance in (False, True))
    assert torch.equal(plain[:5], torch.ones(5))
    assert float(plain[5]) == pytest.approx(0.5 * (2 + 3 * 81) ** 0.5, rel=0.1)
    first, second = (float(part.sum()) for part in (pool * even).var(0)[:5].split([2, 3]))
    assert first == pytest.approx(1, rel=0.01) and second == pytest.approx(1, rel=0.01)
    assert float(even[5]) == pytest.approx(0.5 * 2**0.5, rel=0.01)


@pytest.mark.slow
def test_several_share_one_pass(encoder, images, monkeypatch):
    wanted = [(PaDiM, PaDiMConfig(channels=20, batch=8)), (Nearest, NearestConfig(patches=200, pool=500, batch=8))]
    alone = [kind.fit(encoder, images, config) for kind, config in wanted]
    passes = []

    def counted(part, device):
        passes.append(len(part))
        return to_batch(part, device)

    monkeypatch.setattr(embed, "to_batch", counted)
    seen = []
    both = fit_together(encoder, images, wanted, FitContext(report=seen.append))
    predictions = predict_together(both, images[:5])
    assert passes == [8, 8, 8, 5] and [v["images"] for v in seen] == [8, 16, 24]
    for detector, prediction in zip(alone, predictions, strict=True):
        np.testing.assert_allclose(prediction.maps, detector.predict(images[:5]).maps, rtol=1e-4, atol=1e-4)
    assert len(predict_together(both, images[:0])[1]) == 0


@pytest.mark.slow
def test_mistakes_are_named(encoder, images):
    with pytest.raises(ValueError, match="at least 1 normal image"):
        Nearest.fit(encoder, images[:0], WHOLE)
    shares = [{"variance": 0}, {"variance": 1.1}, {"shrinkage": -0.1}, {"shrinkage": 1.5}]
    for bad in ({"strides": (16, 8)}, {"coreset": "best"}, {"patches": 0}, {"pool": 10}, {"position": -1.0}, *shares):
        with pytest.raises(BadConfig):
            NearestConfig(**bad)


@pytest.mark.slow
def test_a_vision_transformers_tokens_are_compared(images):
    """Those after a half and three quarters of the blocks; a checkerboard is the most abnormal place."""
    encoder = build_encoder(EncoderConfig(arch="vit_tiny_patch16_224", seed=1)).eval()
    fitted = Nearest.fit(encoder, images, NearestConfig(patches=5000, pool=5000, sigma=0.0))
    spoilt = images[:2].copy()
    spoilt[:, 32:48, 32:48] = (np.indices((16, 16)).sum(0) % 4 < 2)[None, ..., None] * 255
    assert fitted.predict(images[:2]).maps.max() < 1e-3
    found = fitted.predict(spoilt).maps  # (2, 8, 8)
    assert {divmod(int(i), 8) for i in found.reshape(2, -1).argmax(1)} <= {(y, x) for y in (4, 5) for x in (4, 5)}


def slow_greedy(x, count, first):
    """Algorithm 1 of PatchCore, as printed."""
    chosen = [first]
    while len(chosen) < count:
        away = np.min([np.linalg.norm(x - x[c], axis=1) for c in chosen], 0)
        away[chosen] = -1
        chosen.append(int(away.argmax()))
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize(("n", "count"), [(900, 300), (50, 49), (300, 1), (2000, 20)])
def test_greedy_coreset_is_one_farthest_after_another(n, count):
    x = np.random.default_rng(n).normal(size=(n, 5)) ** 3  # uneven: a few lie far out
    drawn = torch.Generator().manual_seed(7)
    found = greedy_coreset(torch.from_numpy(x).float(), count, drawn).tolist()
    assert found == slow_greedy(x, count, found[0])


def test_equal_patches_are_not_chosen_twice():
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).repeat(5, 1)
    found = greedy_coreset(x, 60, torch.Generator().manual_seed(0))
    assert len(found.unique()) == 60
    assert len(x[found[:40]].unique(dim=0)) == 40
    assert greedy_coreset(x, 500, torch.Generator()).tolist() == list(range(200))


def test_wide_features_are_covered_nearly_as_well():
    """After a random projection the farthest patch may be another, but none is left much farther from a kept one."""
    x = torch.randn(600, 400, generator=torch.Generator().manual_seed(1)) * torch.linspace(2, 0.1, 400)
    exact = slow_greedy(x.numpy(), 60, 0)
    found = greedy_coreset(x, 60, torch.Generator().manual_seed(0))
    assert torch.cdist(x, x[found]).min(1).values.max() < 1.15 * torch.cdist(x, x[exact]).min(1).values.max()


@pytest.mark.parametrize(("count", "threads"), [(1, 1), (4, 1), (1, 2), (4, 2)])  # by oneDNN with two
def test_search_finds_the_nearest_of_all(count, threads, request):
    before = torch.get_num_threads()
    request.addfinalizer(lambda: torch.set_num_threads(before))
    torch.set_num_threads(threads)
    draw = torch.Generator().manual_seed(2)
    x, queries = torch.randn(700, 20, generator=draw) + 30, torch.randn(1500, 20, generator=draw) + 30
    memory = Memory.of(x, torch.arange(700), torch.zeros(700), 0)
    distances, index = memory.search(queries, count)
    expected, order = torch.cdist(queries.double(), x.double()).topk(count, largest=False)
    assert (index == order).float().mean() > 0.999
    torch.testing.assert_close(distances.double(), expected, rtol=1e-3, atol=1e-3)
    assert float(memory.search(x)[0].max()) == 0
    assert memory.search(queries[:0], count)[0].shape == (0, count)


def test_weights_are_patchcores():
    draw = torch.Generator().manual_seed(3)
    x, queries = torch.randn(50, 6, generator=draw), torch.randn(10, 6, generator=draw)
    memory = Memory.of(x, torch.arange(50), torch.zeros(50), 5)
    index = memory.search(queries)[1][:, 0]
    for q, i, d, w in zip(queries, index, *memory.weighted(queries), strict=True):
        around = torch.cdist(x[i][None], x)[0].topk(5, largest=False).indices
        expected = 1 - d.exp() / torch.cdist(q[None], x[around]).exp().sum()
        assert float(w) == pytest.approx(float(expected), rel=1e-4)
    plain = Memory.of(x, torch.arange(50), torch.zeros(50), 0)
    assert torch.equal(plain.weighted(queries)[1], torch.ones(10))


@pytest.mark.parametrize(("limit", "images"), [(40, 7), (5, 12), (1000, 3)])
def test_a_pool_is_bounded_and_even(limit, images):
    features = torch.arange(images * 20.0).view(images, 20, 1)
    pool = Pool(limit, images, seed=1)
    for row in reversed(range(images)):
        pool.add(features[row], row, None)
    values, rows, cells = pool.all()
    assert len(values) == min(limit, images * 20)
    assert torch.equal(values[:, 0], rows * 20.0 + cells)
    counts = torch.bincount(rows, minlength=images)
    assert counts.max() - counts.min() <= 1
    again = Pool(limit, images, seed=1)
    for row in range(images):
        again.add(features[row], row, None)
    assert set(again.all()[0].flatten().tolist()) == set(values.flatten().tolist())


def test_a_pool_keeps_to_the_region_of_interest():
    pool, inside = Pool(12, 2, seed=0), np.zeros(20, bool)
    inside[3:9] = True
    pool.add(torch.zeros(20, 1), 0, inside)
    pool.add(torch.zeros(20, 1), 1, np.zeros(20, bool))  # nothing inside: all of it
    _, rows, cells = pool.all()
    assert sorted(cells[rows == 0].tolist()) == list(range(3, 9)) and len(cells[rows == 1]) == 6


def literal(normal: np.ndarray, asked: np.ndarray, variance: float, shrinkage: float) -> np.ndarray:
    """Squared distances (Q, N) between patches in the whitened space, the paper's steps one after another."""
    pca = PCA(svd_solver="full").fit(normal)
    count = int(np.flatnonzero(np.cumsum(pca.explained_variance_ratio_) >= variance)[0]) + 1
    z, q = (pca.transform(x)[:, :count] for x in (normal, asked))
    covariance = np.cov(z, rowvar=False).reshape(count, count)
    shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / count * np.eye(count)
    matrix = np.linalg.inv(np.linalg.cholesky(shrunk)).T
    z, q = (z - z.mean(0)) @ matrix, (q - z.mean(0)) @ matrix
    return np.square(q[:, None] - z[None]).sum(2)


@pytest.mark.parametrize(("variance", "shrinkage"), [(0.99, 0.07), (0.6, 0.0), (1.0, 0.5)])
def test_distances_are_those_of_the_papers_steps(variance, shrinkage):
    rng = np.random.default_rng(0)
    normal, asked = (rng.normal(size=(n, 12)) @ np.diag(np.linspace(3, 0.1, 12)) + 5 for n in (300, 20))
    matrix = whitening(torch.from_numpy(np.cov(normal, rowvar=False)), variance, shrinkage).numpy()
    found = np.square((asked @ matrix)[:, None] - (normal @ matrix)[None]).sum(2)
    np.testing.assert_allclose(found, literal(normal, asked, variance, shrinkage), rtol=1e-8)


def test_without_shrinkage_patches_vary_alike_in_all_directions():
    x = torch.randn(500, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * torch.arange(1, 7)
    white = x @ whitening(x.T.cov(), 1.0, 0.0)
    torch.testing.assert_close(white.T.cov(), torch.eye(6, dtype=torch.float64))
    flat = whitening(torch.zeros(3, 3, dtype=torch.float64), 0.99, 0.07)
    assert flat.isfinite().all()


@pytest.mark.slow
def test_maps_and_scores_are_of_all_patches_of_the_region(encoder, images):
    config = NearestConfig(patches=60, pool=400, sigma=0.0, whitened=True)
    roi = np.ones(images.shape[:3], np.uint8)
    roi[:, :, :16] = 0
    fitted = Nearest.fit(encoder, images, config, FitContext(roi=roi))
    assert len(fitted.memory.features) == 60
    with torch.inference_mode():
        maps = encoder.maps(to_batch(images, torch.device("cpu")), config.strides)
        patches = patches_of(maps, config.strides).double().numpy()[..., :-2]
    normal = patches[:, :, 2:].reshape(-1, patches.shape[-1])
    matrix = whitening(torch.from_numpy(np.cov(normal, rowvar=False)), 0.99, 0.07).numpy()
    bank = fitted.memory.features.double().numpy()
    shown = with_spot(images[:4], 30)
    with torch.inference_mode():
        asked = patches_of(encoder.maps(to_batch(shown, torch.device("cpu")), config.strides), config.strides)
    white = asked.double().numpy()[..., :-2] @ matrix
    wanted = np.square(white[..., None, :] - bank).sum(-1).min(-1)
    found = fitted.predict(shown)
    np.testing.assert_allclose(found.maps, wanted, rtol=2e-3)
    plain = fitted.image_score(fitted.predict(images[:4]))
    assert (fitted.image_score(found) > plain).all()
    cells = found.maps.reshape(4, -1).argmax(1)
    assert all(3 <= cell // 8 <= 5 and 3 <= cell % 8 <= 5 for cell in cells), "the spot is the most abnormal place"
    match = fitted.explain(shown[:1], roi=roi[:1])[0]
    assert match.distance**2 == pytest.approx(float(found.extras["distance"][0].max()), rel=1e-3)
