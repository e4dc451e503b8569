"""A small objective, its encoder and images, for the tests of each."""

import torch

from core.engine.augment.config import WeakConfig
from core.engine.backbones.encoder import build_encoder
from core.engine.objectives.presets import PRETRAIN_PRESETS
from core.engine.registry import OBJECTIVES
from core.engine.training.base import STEP, generator

CONFIG = PRETRAIN_PRESETS["as-printed"].replace(size=64, k=2, class_views="weak")
STILL = WeakConfig(crop=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, p_jitter=0.0, p_grey=0.0, p_blur=0.0)


def build(name, **changes):
    config = CONFIG.replace(**changes)
    encoder = build_encoder(config.encoder)
    torch.manual_seed(0)
    return OBJECTIVES.get(name)(config, encoder), encoder


def images(count=3, side=64):
    return torch.rand(count, 3, side, side, generator=torch.Generator().manual_seed(0))


def outcome_of(objective, encoder, x=None):
    """(views, h, z, outcome) of one step on `x`, with centres drawn where the objective has any."""
    views = objective.views(images() if x is None else x, generator(0, STEP))
    h = encoder.backbone(views.images)
    z = encoder.project(h)
    centres = torch.randn(objective.classes, 128) if objective.uses_centres else None
    return views, h, z, objective.loss(h, z, views, centres)
