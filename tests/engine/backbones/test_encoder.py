"""The encoder: its shapes, where its weights come from, and that it is saved whole."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from core.engine.backbones import embed, weights
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.embed import Memory, inference_copy, memory, remembering
from core.engine.backbones.encoder import Encoder, build_encoder, load_centres, load_encoder, save_encoder
from core.engine.config import BadConfig
from core.engine.detectors import map_detector
from core.engine.detectors.mahalanobis import Mahalanobis, MahalanobisConfig
from core.engine.detectors.padim import PaDiM, PaDiMConfig
from core.engine.progress import Stopped
from tests.conftest import ARCH


@pytest.fixture(scope="module")
def resnet():
    torch.manual_seed(5)
    return torchvision.models.resnet18(weights=None)


def same_backbone(encoder: Encoder, net: torch.nn.Module) -> bool:
    own = encoder.net.state_dict()
    return all(torch.equal(own[n], v) for n, v in net.state_dict().items() if n in own and "tracked" not in n)


def test_shapes_and_parts_agree():
    encoder, x = build_encoder(EncoderConfig()).eval(), torch.rand(2, 3, 64, 64)
    maps = encoder.maps(x)
    assert {n: tuple(m.shape) for n, m in maps.items()} == {
        2: (2, 64, 32, 32),
        4: (2, 64, 16, 16),
        8: (2, 128, 8, 8),
        16: (2, 256, 4, 4),
        32: (2, 512, 2, 2),
    }
    h = encoder.backbone(x)
    assert torch.allclose(h, maps[32].mean((2, 3)), atol=1e-5)
    assert encoder(x).shape == (2, 128) and torch.equal(encoder(x), encoder.project(h))
    assert list(encoder.maps(x, (8, 2))) == [2, 8]
    for bad in ((3,), ()):
        with pytest.raises(ValueError, match="2, 4, 8, 16, 32"):
            encoder.maps(x, bad)


def test_seed_decides_and_global_random_state_is_left_alone():
    torch.manual_seed(9)
    before = torch.get_rng_state()
    one, two, other = (build_encoder(EncoderConfig(seed=s)).state_dict() for s in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(one[n], two[n]) for n in one)
    assert not torch.equal(one["net.conv1.weight"], other["net.conv1.weight"])


@pytest.mark.parametrize("form", ["pth", "safetensors", "nested", "prefixed"])
def test_init_from_a_local_file(tmp_path, resnet, form):
    state = resnet.state_dict()
    path = tmp_path / ("w.safetensors" if form == "safetensors" else "w.pth")
    if form == "safetensors":
        save_file(state, path)
    elif form == "nested":
        torch.save({"epoch": 3, "state_dict": state}, path)
    elif form == "prefixed":
        torch.save({f"module.{n}": v for n, v in state.items()}, path)
    else:
        torch.save(state, path)
    assert same_backbone(build_encoder(EncoderConfig(init=str(path))), resnet)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["resnet18", "efficientnet-lite0"])
def test_init_from_an_earlier_run_takes_its_head_too(tmp_path, arch):
    first = build_encoder(EncoderConfig(arch=arch, seed=1))
    save_encoder(first, tmp_path)
    again = build_encoder(EncoderConfig(arch=arch, seed=2, init=str(tmp_path)))
    assert again.origin["source"] == str(tmp_path) and len(again.origin["sha256"]) == 64
    assert all(torch.equal(v, again.state_dict()[n]) for n, v in first.state_dict().items() if "tracked" not in n)
    narrow = build_encoder(EncoderConfig(arch=arch, seed=2, dim=16, init=str(tmp_path)))  # its head starts anew
    assert same_backbone(narrow, first.net) and narrow.head[2].out_features == 16


def test_code_in_a_weights_file_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (tmp_path / "w.pth").write_bytes(pickle.dumps({"conv1.weight": Evil()}, protocol=2))
    torch.save({"conv1.weight": Evil()}, tmp_path / "z.pth")
    for name in ("w.pth", "z.pth"):
        with pytest.raises(weights.BadWeights):
            build_encoder(EncoderConfig(init=str(tmp_path / name)))
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_unfit_weights_are_refused_in_words(tmp_path, resnet):
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pth")
    torch.save(torchvision.models.resnet50(weights=None).state_dict(), tmp_path / "r50.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    (tmp_path / "bad.safetensors").write_bytes(b"not tensors")
    (tmp_path / "w.bin").write_bytes(b"")
    for name, says in (
        ("a.pth", "it has no conv1.weight"),
        ("r50.pth", "is not a resnet18"),
        ("list.pth", "no named weights"),
        ("bad.safetensors", "cannot be read"),
        ("w.bin", r"\.safetensors"),
        ("absent.pth", "no weights file"),
        ("", "holds no encoder"),
    ):
        with pytest.raises(weights.BadWeights, match=says):
            build_encoder(EncoderConfig(init=str(tmp_path / name)))


def test_imagenet_offline_says_what_to_do(monkeypatch):
    def offline(*args, **kwargs):
        raise URLError("no route")

    monkeypatch.setattr("torch.hub.load_state_dict_from_url", offline)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", offline)
    with pytest.raises(weights.BadWeights, match="download https://.*set the encoder's init to its path"):
        build_encoder(EncoderConfig(init="imagenet"))


def test_imagenet_fills_the_backbone(monkeypatch, resnet):
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", lambda *a, **k: resnet.state_dict())
    assert same_backbone(build_encoder(EncoderConfig(init="imagenet")), resnet)


@pytest.mark.slow
def test_saved_whole_in_any_memory_format(tmp_path):
    encoder = build_encoder(EncoderConfig(seed=4, dim=32)).to(memory_format=torch.channels_last)
    save_encoder(encoder, tmp_path, {"epoch": 3}, centres=torch.ones(4, 32))
    again = load_encoder(tmp_path)
    assert again.config == encoder.config and not again.training
    assert all(torch.equal(v, again.state_dict()[n]) for n, v in encoder.state_dict().items())
    assert torch.equal(load_centres(tmp_path), torch.ones(4, 32))
    save_encoder(encoder, tmp_path / "half", half=True)
    x = torch.rand(2, 3, 32, 32)
    assert torch.allclose(load_encoder(tmp_path / "half")(x), encoder.eval()(x), rtol=0.05, atol=0.01)
    assert load_centres(tmp_path / "half") is None
    assert (tmp_path / "half" / "encoder.safetensors").stat().st_size < 0.6 * (
        tmp_path / "encoder.safetensors"
    ).stat().st_size


def test_damaged_or_absent_encoders_are_refused_in_words(tmp_path):
    with pytest.raises(weights.BadWeights, match="holds no encoder"):
        load_encoder(tmp_path)
    save_encoder(build_encoder(EncoderConfig()), tmp_path)
    data = (tmp_path / "encoder.safetensors").read_bytes()
    (tmp_path / "encoder.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(weights.BadWeights, match="cannot be read"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("odd", [None, 7, "odd", [1], {"odd": 1}])
@pytest.mark.parametrize("key", ["encoder", "class_head", "sha256", "encoder.arch", "encoder.dim", "encoder.init"])
def test_an_encoder_whose_description_is_damaged_is_refused_in_words(tmp_path, key, odd):
    save_encoder(build_encoder(EncoderConfig(arch=ARCH)), tmp_path)
    about = json.loads((tmp_path / "encoder.json").read_text())
    outer, _, inner = key.partition(".")
    (about[outer] if inner else about)[inner or outer] = odd
    (tmp_path / "encoder.json").write_text(json.dumps(about))
    if (key, odd) in (("class_head", None), ("encoder.init", "odd")):  # an encoder without one; the name of a file
        assert load_encoder(tmp_path).class_head is None
        return
    with pytest.raises(weights.BadWeights):
        load_encoder(tmp_path)


def test_configuration_is_checked():
    for bad in ({"arch": "vgg"}, {"dim": 0}, {"init": ""}):
        with pytest.raises(BadConfig):
            EncoderConfig(**bad)


@pytest.fixture(scope="module")
def encoder():
    return build_encoder(EncoderConfig(seed=3)).eval()


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 255, (7, 32, 32, 3), np.uint8)


def test_features_do_not_depend_on_the_batch_and_equal_the_encoders_own(encoder, images):
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    encoder.eval()
    with torch.no_grad():
        z, h = encoder(x).numpy(), encoder.backbone(x).numpy()
    for kind, right in (("projected", z), ("backbone", h)):
        for batch in (3, 64):
            found = embed.encode(encoder, images, kind, batch=batch)
            np.testing.assert_allclose(found, right, atol=2e-5)
    assert z.shape == (7, 128) and h.shape == (7, 512)


def test_encode_reports_and_stops(encoder, images):
    reported = []
    embed.encode(encoder, images, batch=4, report=lambda i, n: reported.append((i, n)))
    assert reported == [(4, 7), (7, 7)]
    with pytest.raises(Stopped):
        embed.encode(encoder, images, should_stop=lambda: True)
    with pytest.raises(ValueError, match="projected or backbone"):
        embed.encode(encoder, images, "centred")
    with pytest.raises(ValueError, match="at least 1 image"):
        embed.encode(encoder, images[:0])


def trained_like(arch):
    """An encoder whose batch norms have statistics, as after training."""
    encoder = build_encoder(EncoderConfig(arch=arch)).train()
    for seed in range(3):
        encoder(torch.rand(4, 3, 64, 64, generator=torch.Generator().manual_seed(seed)))
    return encoder


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["resnet18", "efficientnet-lite0", "convnext_atto", "vit_tiny_patch16_224"])
def test_maps_are_the_same(arch):
    encoder = trained_like(arch)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    quick, x = inference_copy(encoder), torch.rand(2, 3, 96, 96)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    with torch.inference_mode():
        plain = encoder.eval().maps(x)
        for stride, found in quick.maps(x).items():
            torch.testing.assert_close(found, plain[stride], rtol=1e-3, atol=1e-4 * float(plain[stride].abs().max()))
    norms = [m for m in quick.net.modules() if isinstance(m, nn.BatchNorm2d)]
    assert not norms and not any(p.requires_grad for p in quick.parameters())


def test_a_convolution_that_feeds_two_layers_is_not_folded():
    class Twice(nn.Module):
        def __init__(self, stem):
            super().__init__()
            self.stem, self.norm = stem, nn.BatchNorm2d(64)

        def forward(self, x):
            h = self.stem(x)
            return self.norm(h) + h

    encoder = trained_like("resnet18")
    encoder.net.conv1 = Twice(encoder.net.conv1)
    encoder.net.conv1.norm.weight.data.fill_(3.0)
    x = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        expected = encoder.eval().maps(x)[32]
        torch.testing.assert_close(inference_copy(encoder).maps(x)[32], expected, rtol=1e-3, atol=1e-4)


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (24, 64, 64, 3), np.uint8)


@pytest.mark.slow
def test_detectors_say_the_same_and_the_encoder_sees_each_image_once(encoder, pictures, monkeypatch):
    seen = []
    plain = embed.to_batch
    monkeypatch.setattr(embed, "to_batch", lambda x, device: seen.append(len(x)) or plain(x, device))
    kinds = [(PaDiM, PaDiMConfig(strides=(8, 16), channels=10)), (Mahalanobis, MahalanobisConfig())]
    expected = [kind.fit(encoder, pictures[:20], config).predict(pictures) for kind, config in kinds]
    assert sum(seen) == 2 * (20 + 24)
    seen.clear()
    with remembering():
        found = [kind.fit(encoder, pictures[:20], config).predict(pictures) for kind, config in kinds]
    assert sum(seen) == 24 and memory() is None
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a.maps, b.maps, rtol=1e-3, atol=1e-4)


def test_another_encoder_is_not_taken_for_this_one(encoder, pictures):
    other = build_encoder(EncoderConfig(seed=1)).eval()
    with remembering(), torch.inference_mode():
        a, b = (map_detector.maps_of(e, pictures[:2], {16})[16] for e in (encoder, other))
    assert not torch.allclose(a, b)


def test_a_block_inside_another_keeps_nothing_of_its_own_and_another_thread_is_not_in_it():
    with remembering() as outer:
        with remembering() as inner:
            assert inner is outer is memory()
        assert memory() is outer
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(memory).result() is None
    assert memory() is None


def test_what_was_used_longest_ago_is_forgotten(encoder, pictures):
    calls = []

    def compute(rows, strides):
        calls.append(len(rows))
        return {s: torch.zeros(len(rows), 1, 4, 4) for s in strides}

    kept = Memory(limit=3 * 4 * 64)  # three images of four maps of 64 bytes
    for rows in (pictures[:3], pictures[3:4], pictures[1:4], pictures[:1]):
        kept.maps(encoder, rows, {8}, compute)
    assert calls == [3, 1, 1] and kept.held <= kept.limit and len(kept.kept) == 3


def test_finer_maps_than_are_kept_are_computed(encoder, pictures):
    with remembering() as kept, torch.inference_mode():
        found = map_detector.maps_of(encoder, pictures[:2], {2})
    assert set(found) == {2} and not kept.kept
