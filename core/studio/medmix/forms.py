"""What the MedMix tab needs to show its controls: a form, defaults and title per strong augmentation; weak views."""

from __future__ import annotations

from core.engine.augment.weak import WEAK_PRESETS, WeakConfig
from core.engine.registry import STRONG
from core.studio.forms.fields import form
from core.studio.forms.tables import TABLES


def forms() -> dict:
    """{"strong": {name: {"title", "section", "form", "defaults"}}, "weak": {"form", "presets"}}; MedMix comes first."""
    names = sorted(STRONG.names(), key=lambda n: (n != "medmix", n))
    return {"strong": {name: _one(name) for name in names}, "weak": weak()}


def _one(name: str) -> dict:
    about, kind = STRONG.about(name), STRONG.get(name).Config
    groups = form(kind, TABLES.get(kind.__name__))
    return {
        "title": about.get("title", name),
        "section": about.get("section", ""),
        "form": groups,
        "defaults": kind().to_dict(),
    }


def weak() -> dict:
    """The weak views' form and presets."""
    presets = {name: config.to_dict() for name, config in WEAK_PRESETS.items()}
    return {"form": form(WeakConfig, TABLES["WeakConfig"]), "presets": presets}
