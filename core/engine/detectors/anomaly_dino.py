"""AnomalyDINO (Damm et al. 2024, "AnomalyDINO: Boosting Patch-based Few-Shot Anomaly Detection with DINOv2").

Patch tokens of a vision transformer's last layer, of length 1; an image's are compared with those of normal images by
1 - cosine. The score is the mean of the highest hundredth of these distances. Nothing is trained. Of an encoder that is
no vision transformer the map at stride 16 is read.

Ours: the memory holds `pool` patches at most, drawn evenly from all images (the paper keeps all of one to sixteen);
reference images are not turned; what is background is found by Otsu's threshold on the first principal component (the
paper: by 10, on DINOv2's own scale), and off unless asked for, as for the paper's textures. Tried with networks of
random weights alone: none of DINOv2's was at hand, so no figure is known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import Self

from core.engine.backbones.encoder import Encoder, load_encoder, save_encoder
from core.engine.calibration.heatmap import blur, counted, roi_at
from core.engine.config import BadConfig, Config
from core.engine.detectors.base import Detector, FitContext, Prediction
from core.engine.detectors.nearest.memory import Memory, Pool, read_about
from core.engine.files import write_json, write_tensors
from core.engine.progress import Stopped
from core.engine.registry import DETECTORS
from core.engine.tensors import to_batch

HIGHEST = 0.01  # share of the patches whose distances are the image's score


@dataclass(frozen=True)
class AnomalyDINOConfig(Config):
    """pool: normal patches that are kept, at most. foreground: whether only what stands out of the background by the
    first principal component counts. sigma: of the blur, in pixels at 256. batch: images per step.
    """

    pool: int = 100_000
    foreground: bool = False
    sigma: float = 4.0
    batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.pool < 1 or self.batch < 1 or self.sigma < 0:
            raise BadConfig("pool and batch must be at least 1, and sigma 0 or more")


@DETECTORS.register("anomaly-dino", title="AnomalyDINO", section="Damm et al. 2024")
class AnomalyDINO(Detector):
    """The AnomalyDINO detector.

    extras: `distance` (N, h, w), 1 - cosine of each patch to its nearest normal one, 0 in the background.
    """

    name = "anomaly-dino"
    Config = AnomalyDINOConfig

    def __init__(self, encoder: Encoder, config: AnomalyDINOConfig, size: int, patches: Tensor) -> None:
        """patches: float32 (M, C), of length 1."""
        self.encoder, self.config, self.size = encoder, config, size
        none = torch.zeros(len(patches), 0, dtype=torch.long, device=patches.device)
        self.memory = Memory(patches, none, none, none)

    @classmethod
    @torch.inference_mode()
    def fit(
        cls, encoder: Encoder, images: np.ndarray, config: AnomalyDINOConfig, context: FitContext = FitContext()
    ) -> Self:
        if not len(images):
            raise ValueError("there are no normal images to compare with")
        encoder = encoder.to(context.device).eval()
        pool, steps = Pool(config.pool, len(images), config.seed), -(-len(images) // config.batch)
        for step in range(steps):
            if context.should_stop is not None and context.should_stop():
                raise Stopped("the fit was stopped; it takes one pass, so it starts again from the first image")
            rows = slice(step * config.batch, (step + 1) * config.batch)
            tokens = tokens_of(encoder, np.asarray(images[rows]))
            inside = np.ones(tokens.shape[:3], bool)
            if context.roi is not None:
                inside &= roi_at(np.asarray(context.roi[rows]), tokens.shape[1:3])
            if config.foreground:
                inside &= foreground(tokens)
            for i, values in enumerate(F.normalize(tokens, dim=3).flatten(1, 2)):
                pool.add(values, rows.start + i, inside[i].ravel())
            if context.report is not None:
                context.report({"step": step + 1, "steps": steps, "images": min(rows.stop, len(images))})
        return cls(encoder, config, int(images.shape[1]), pool.all()[0])

    @torch.inference_mode()
    def predict(self, images: np.ndarray, *, batch: int = 32, roi: np.ndarray | None = None) -> Prediction:
        self.demand_size(images)
        shown = images if len(images) else np.zeros((1, *images.shape[1:]), np.uint8)
        maps, distances = [], []
        for start in range(0, len(shown), batch):
            tokens = tokens_of(self.encoder, np.asarray(shown[start : start + batch]))
            flat = F.normalize(tokens, dim=3).flatten(0, 2)
            distance = self.memory.search(flat)[0].square().view(tokens.shape[:3]) / 2  # |a - b|^2 / 2 = 1 - cosine
            if self.config.foreground:
                distance = distance * torch.from_numpy(foreground(tokens)).to(distance)
            maps.append(blur(distance, self.config.sigma * distance.shape[1] / 256).cpu().numpy())
            distances.append(distance.cpu().numpy())
        scores = np.concatenate(distances)[: len(images)]
        return Prediction(np.concatenate(maps)[: len(images)], {"distance": scores})

    def image_score(self, prediction: Prediction, roi: np.ndarray | None = None) -> np.ndarray:
        """Scores by the mean of the highest hundredth of the distances, inside `roi` if given: (N,) float32."""
        return highest(prediction.extras["distance"], roi)

    def save(self, folder: Path) -> None:
        """Saves into `folder`: encoder/, anomaly-dino.safetensors and, last, anomaly-dino.json."""
        folder = Path(folder)
        save_encoder(self.encoder, folder / "encoder")
        write_tensors(folder / f"{self.name}.safetensors", {"patches": self.memory.features.contiguous()})
        write_json(folder / f"{self.name}.json", {"config": self.config.to_dict(), "size": self.size})

    @classmethod
    def load(cls, folder: Path, device: torch.device | str = "cpu") -> Self:
        folder = Path(folder)
        saved = read_about(folder, cls.name)
        patches = load_file(folder / f"{cls.name}.safetensors", device=str(device))["patches"]
        config = AnomalyDINOConfig.from_dict(saved["config"])
        return cls(load_encoder(folder / "encoder", device), config, saved["size"], patches)


def tokens_of(encoder: Encoder, images: np.ndarray) -> Tensor:
    """Computes the last layer's tokens of images uint8 (B, S, S, 3) -> float32 (B, h, w, C)."""
    return encoder.tokens(to_batch(images, encoder.mean.device)).float().permute(0, 2, 3, 1)


def highest(distances: np.ndarray, roi: np.ndarray | None, share: float = HIGHEST) -> np.ndarray:
    """Averages each map's highest `share` of cells, at least one, inside `roi`: (N, h, w) -> float32 (N,)."""
    inside = counted(distances, roi)
    cells = (np.sort(d[i])[::-1] for d, i in zip(distances, inside, strict=True))
    return np.array([c[: max(1, round(share * len(c)))].mean() for c in cells], np.float32)


def foreground(tokens: Tensor) -> np.ndarray:
    """Finds the foreground's patches by each image's first principal component: (B, h, w, C) -> bool (B, h, w).

    The foreground is the side of the component that holds more of the image's middle than of the whole; it is grown by
    a patch and its small holes are closed.
    """
    masks = []
    for image_tokens in tokens.flatten(1, 2):
        centred = image_tokens - image_tokens.mean(0)
        axis = torch.linalg.svd(centred.double().T @ centred.double())[0][:, 0].to(centred)
        along = (centred @ axis).view(tokens.shape[1:3]).cpu().numpy()
        grey = cv2.normalize(along, np.empty(0), 0, 255, cv2.NORM_MINMAX).astype(np.uint8)
        mask = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY | cv2.THRESH_OTSU)[1]
        h, w = mask.shape
        if mask[h // 4 : h - h // 4, w // 4 : w - w // 4].mean() < mask.mean():
            mask = 1 - mask
        kernel = np.ones((3, 3), np.uint8)
        masks.append(cv2.morphologyEx(cv2.dilate(mask, kernel), cv2.MORPH_CLOSE, kernel) > 0)
    return np.stack(masks)
