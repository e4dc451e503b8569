"""PMSACL on a folder of normal images, from MedMix to a score of 0 (normal) to 1: `python pmsacl.py FOLDER [STEPS]`.

Each line is a part of the paper: MedMix makes the classes A_0 to A_3, the encoder starts from ImageNet with Z on the
unit sphere, centres are estimated once (Eq. 2), and l_ctr, l_PMSACL and l_aug are added (Eq. 1). `pretrain` of
core.engine.training does the same with validation, checkpoints and a watch for collapse.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn

from core.engine.augment.config import MEDMIX_PRESETS, WEAK_PRESETS
from core.engine.augment.medmix.medmix import MedMix
from core.engine.augment.weak import WeakViews
from core.engine.backbones.config import EncoderConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.losses.pmsacl import augmentation_loss, centring_loss, pmsacl_loss

K, SIDE, BATCH = 3, 96, 8


def main(folder: str, steps: int) -> None:
    """Trains on the images of `folder`, and prints the losses and how well the classes are separated."""
    files = sorted(f for f in Path(folder).iterdir() if f.suffix.lower() in (".jpg", ".jpeg", ".png"))
    images = np.stack([cv2.resize(cv2.imread(str(f)), (SIDE, SIDE), interpolation=cv2.INTER_AREA) for f in files])
    normal = torch.from_numpy(images[..., ::-1].copy()).permute(0, 3, 1, 2).float() / 255

    draws = torch.Generator().manual_seed(0)
    medmix, weak = MedMix(MEDMIX_PRESETS["quick"]), WeakViews(WEAK_PRESETS["gentle"])
    encoder = build_encoder(EncoderConfig(arch="efficientnet-lite0", init="auto", unit=True)).train()
    classifier = nn.Linear(encoder.config.dim, K + 1)
    optimiser = torch.optim.SGD([*encoder.parameters(), *classifier.parameters()], 0.01, 0.9)
    labels = torch.arange(K + 1).repeat(BATCH)

    with torch.no_grad():
        mixed = medmix.classes(normal[:BATCH], K, draws).images
        centres = torch.stack([encoder(mixed)[labels[: len(mixed)] == n].mean(0) for n in range(K + 1)])

    for step in range(1, steps + 1):
        x = normal[torch.randperm(len(normal), generator=draws)[:BATCH]]
        mixed = medmix.classes(x, K, draws)  # A_0 to A_3 of each image
        views = torch.cat([weak(mixed.images, draws, lesions=mixed.boxes) for _ in range(2)])
        partners = torch.arange(len(views)).roll(len(views) // 2)
        z = encoder(torch.cat([views, mixed.images]))
        own, strong = z[: len(views)], z[len(views) :]
        l_con = pmsacl_loss(own, labels.repeat(2), partners, centres)
        l_ctr, l_aug = centring_loss(strong, labels, centres), augmentation_loss(classifier(strong), labels)
        optimiser.zero_grad()
        (l_ctr + l_con + l_aug).backward()
        optimiser.step()
        found = (classifier(strong).argmax(1) == labels).float().mean()
        print(f"step {step}: l_ctr {l_ctr:.3f}, l_PMSACL {l_con:.3f}, l_aug {l_aug:.3f}, classes found {found:.0%}")

    encoder.eval()
    with torch.inference_mode():
        abnormal = 1 - classifier(encoder(normal[:4])).softmax(1)[:, 0]
    print("1 - p(A_0) of the first images:", [round(float(score), 2) for score in abnormal])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100)
