"""Files of vision transformers by the names that they are published under give the network that they hold."""

from __future__ import annotations

import re

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file

from core.engine.backbones import weights
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder

DINOV2, REGISTERS, VIT = "vit_small_patch14_dinov2", "vit_small_patch14_reg4_dinov2", "vit_tiny_patch16_224"
DINOV3, GATED = "vit_small_patch16_dinov3", "vit_small_plus_patch16_dinov3"


@pytest.fixture(scope="module")
def held():
    """{arch: random weights by timm's names}."""

    def make(arch: str) -> dict[str, torch.Tensor]:
        torch.manual_seed(3)
        state = timm.create_model(arch, num_classes=0).state_dict()
        return {n: torch.randn_like(v) * 0.05 if v.is_floating_point() else v for n, v in state.items()}

    return {arch: make(arch) for arch in (DINOV2, REGISTERS, VIT, DINOV3, GATED)}


def split(state, leaves, place, names, bias_of_k=True):
    """qkv of timm's -> queries, keys and values under `names`."""
    for leaf in leaves:
        for name, part in zip(names, state.pop(f"{place}.attn.qkv.{leaf}").chunk(3), strict=True):
            state[f"{place}.{name}.{leaf}"] = part.contiguous()


def facebook(arch, state):
    """As the published code of DINOv2 and DINOv3 has it."""
    state = dict(state)
    if "reg_token" in state and "pos_embed" in state:  # the class token has no position of its own in timm
        cls = torch.zeros_like(state["cls_token"])
        state["pos_embed"] = torch.cat([cls, state["pos_embed"]], 1)
        state["register_tokens"] = state.pop("reg_token")
    elif "reg_token" in state:
        state["storage_tokens"] = state.pop("reg_token")
        names = {"gamma_1": "ls1.gamma", "gamma_2": "ls2.gamma", "fc1_g": "w1", "fc1_x": "w2"}
        for old, new in names.items():
            state = {n.replace(old, new): v for n, v in state.items()}
        if any(".w1." in n for n in state):
            state = {n.replace("mlp.fc2", "mlp.w3"): v for n, v in state.items()}
    return {**state, "mask_token": torch.zeros(1, state["cls_token"].shape[-1])}


def transformers(arch, state):
    """As the package transformers has it."""
    state = facebook(arch, state)
    for place in sorted({n.rsplit(".attn", 1)[0] for n in state if ".attn.qkv." in n}):
        leaves = [leaf for leaf in ("weight", "bias") if f"{place}.attn.qkv.{leaf}" in state]
        if "dinov3" in arch:
            split(state, leaves, place, [f"attention.{part}_proj" for part in "qkv"])
        else:
            split(state, leaves, place, [f"attention.attention.{part}" for part in ("query", "key", "value")])
    v3, vit = "dinov3" in arch, "dino" not in arch
    rules = [
        (r"^(cls_token|mask_token|register_tokens|storage_tokens)$", r"embeddings.\1"),
        (r"storage_tokens", "register_tokens"),
        (r"^pos_embed$", "embeddings.position_embeddings"),
        (r"^patch_embed\.proj\.", "embeddings.patch_embeddings." if v3 else "embeddings.patch_embeddings.projection."),
        (r"^blocks\.", "layer." if v3 else "encoder.layer."),
        (r"\.attn\.proj\.", ".attention.o_proj." if v3 else ".attention.output.dense."),
        (r"\.ls([12])\.gamma$", r".layer_scale\1.lambda1"),
        (r"\.mlp\.w1\.", ".mlp.gate_proj."),
        (r"\.mlp\.w2\.", ".mlp.up_proj."),
        (r"\.mlp\.w3\.", ".mlp.down_proj."),
        *([(r"\.fc1\.", ".up_proj."), (r"\.fc2\.", ".down_proj.")] if v3 else [(r"^norm\.", "layernorm.")]),
    ]
    if vit:
        rules += [(r"\.norm1\.", ".layernorm_before."), (r"\.norm2\.", ".layernorm_after."), (r"^", "vit.")]
        rules += [(r"\.mlp\.fc1\.", ".intermediate.dense."), (r"\.mlp\.fc2\.", ".output.dense.")]
        state.pop("mask_token")
    for pattern, new in rules:
        state = {re.sub(pattern, new, n): v for n, v in state.items()}
    return state


def google(arch, state):
    """As Google's .npz files have a ViT (flax: kernels the other way round, one array per head)."""
    heads, width = 3, state["cls_token"].shape[-1]
    out = {
        "cls": state["cls_token"],
        "Transformer/posembed_input/pos_embedding": state["pos_embed"],
        "embedding/kernel": state["patch_embed.proj.weight"].permute(2, 3, 1, 0),
        "embedding/bias": state["patch_embed.proj.bias"],
        "Transformer/encoder_norm/scale": state["norm.weight"],
        "Transformer/encoder_norm/bias": state["norm.bias"],
    }
    for i in range(12):
        ours, theirs = f"blocks.{i}.", f"Transformer/encoderblock_{i}/"
        attention = f"{theirs}MultiHeadDotProductAttention_1/"
        for name, w, b in zip(
            ("query", "key", "value"),
            state[f"{ours}attn.qkv.weight"].chunk(3), state[f"{ours}attn.qkv.bias"].chunk(3), strict=True,
        ):  # fmt: skip
            out[f"{attention}{name}/kernel"] = w.T.reshape(width, heads, -1)
            out[f"{attention}{name}/bias"] = b.reshape(heads, -1)
        out[f"{attention}out/kernel"] = state[f"{ours}attn.proj.weight"].T.reshape(heads, -1, width)
        out[f"{attention}out/bias"] = state[f"{ours}attn.proj.bias"]
        for norm, layer in (("norm1", "LayerNorm_0"), ("norm2", "LayerNorm_2")):
            out[f"{theirs}{layer}/scale"] = state[f"{ours}{norm}.weight"]
            out[f"{theirs}{layer}/bias"] = state[f"{ours}{norm}.bias"]
        for r in (0, 1):
            out[f"{theirs}MlpBlock_3/Dense_{r}/kernel"] = state[f"{ours}mlp.fc{r + 1}.weight"].T
            out[f"{theirs}MlpBlock_3/Dense_{r}/bias"] = state[f"{ours}mlp.fc{r + 1}.bias"]
    return {name: value.numpy() for name, value in out.items()}


def of_file(arch, path):
    return build_encoder(EncoderConfig(arch=arch, init=str(path))).net.state_dict()


CASES = [
    *((arch, facebook) for arch in (DINOV2, REGISTERS, DINOV3, GATED)),
    *((arch, transformers) for arch in (DINOV2, REGISTERS, VIT, DINOV3, GATED)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "named"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_a_published_file_fills_the_network_that_it_holds(arch, named, held, tmp_path):
    file = tmp_path / "file.safetensors"
    save_file({n: v.contiguous().clone() for n, v in named(arch, held[arch]).items()}, file)
    found = of_file(arch, file)
    assert found and all(torch.equal(found[name], held[arch][name]) for name in found)


@pytest.mark.slow
def test_googles_npz_and_a_torch_file_within_a_checkpoint(held, tmp_path):
    np.savez(tmp_path / "google.npz", **google(VIT, held[VIT]))
    torch.save({"teacher": {f"backbone.{n}": v for n, v in held[VIT].items()}}, tmp_path / "trained.pth")
    for name in ("google.npz", "trained.pth"):
        found = of_file(VIT, tmp_path / name)
        assert all(torch.equal(found[n], held[VIT][n]) for n in found), name


@pytest.mark.slow
def test_positions_of_another_image_size_are_resampled(held, tmp_path):
    """A file of 224 pixels (16 x 16 places) for a network whose positions are of 518 (37 x 37)."""
    state = dict(held[DINOV2])
    places = torch.linspace(0, 1, 16 * 16).view(1, -1, 1).expand(-1, -1, 384)
    state["pos_embed"] = torch.cat([state["pos_embed"][:, :1], places], 1)
    torch.save(state, tmp_path / "small.pth")
    found = of_file(DINOV2, tmp_path / "small.pth")["pos_embed"]
    assert found.shape == (1, 37 * 37 + 1, 384) and torch.equal(found[:, 0], state["pos_embed"][:, 0])
    rows = found[0, 1:, 0].view(37, 37).mean(1)
    assert (rows.diff() > 0).all() and abs(float(rows.mean()) - 0.5) < 0.01, "a ramp stays a ramp"


@pytest.mark.slow
def test_other_files_are_refused_with_a_sentence(held, tmp_path):
    torch.save(held[VIT], tmp_path / "vit.pth")
    with pytest.raises(weights.BadWeights, match=f"not a {DINOV2}"):
        of_file(DINOV2, tmp_path / "vit.pth")
    with pytest.raises(weights.BadWeights, match=f"not a {DINOV3}"):
        of_file(DINOV3, tmp_path / "vit.pth")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "code.npz", **{"embedding/kernel": np.array([print], dtype=object)})
    (tmp_path / "broken.npz").write_bytes(b"PK no zip")
    for name in ("other.npz", "code.npz", "broken.npz"):
        with pytest.raises(weights.BadWeights, match="cannot be read as Google's weights of vit_tiny"):
            of_file(VIT, tmp_path / name)
    with pytest.raises(weights.BadWeights, match="for timm's vision transformers"):
        build_encoder(EncoderConfig(init=str(tmp_path / "other.npz")))
