"""What bf16 autocast gains: ResNet-18 training steps with it against without, in one run."""

from __future__ import annotations

from typing import Any

import torch
import torchvision

from core.engine.benches._paired import medians
from core.engine.tensors import gains_by_bf16


def run(quick: bool = False) -> dict[str, Any]:
    """Images a second of forward, backward and SGD at 96 px; "ratio" is with bf16 over without."""
    device, batch, steps = torch.device("cpu"), 32, 3 if quick else 8
    model = torchvision.models.resnet18().to(memory_format=torch.channels_last)
    images = torch.rand(batch, 3, 96, 96).contiguous(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(enabled: bool) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            features = model(images)
        optimiser.zero_grad()
        features.float().square().mean().backward()
        optimiser.step()

    with_bf16, without = medians([lambda: step(True), lambda: step(False)], steps)
    return {
        "bench": "autocast",
        "ratio": without / with_bf16,
        "images_per_second": batch / with_bf16,
        "images_per_second_without": batch / without,
        "chosen": gains_by_bf16(device),
    }
