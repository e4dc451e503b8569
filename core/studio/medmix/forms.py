"""The data for the controls of the MedMix tab: form, defaults and title of each strong augmentation, and weak views."""

from __future__ import annotations

from core.engine.augment.config import WEAK_PRESETS, WeakConfig
from core.engine.registry import STRONG
from core.studio.forms.fields import form


def forms() -> dict:
    """Returns the forms of the strong augmentations, MedMix first, and of the weak views.

    The result is {"strong": {name: {"title", "section", "form", "defaults"}}, "weak": {"form", "presets"}}.
    """
    names = sorted(STRONG.names(), key=lambda n: (n != "medmix", n))
    return {"strong": {name: _one(name) for name in names}, "weak": weak()}


def _one(name: str) -> dict:
    entry, kind = STRONG.about(name), STRONG.get(name).Config
    groups = form(kind)
    return {
        "title": entry.get("title", name),
        "section": entry.get("section", ""),
        "form": groups,
        "defaults": kind().to_dict(),
    }


def weak() -> dict:
    """Returns the weak views' form and presets."""
    presets = {name: config.to_dict() for name, config in WEAK_PRESETS.items()}
    return {"form": form(WeakConfig), "presets": presets}
