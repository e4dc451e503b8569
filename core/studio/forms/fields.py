"""Builds the forms in which the page edits configurations, as JSON, from the declared options (core.engine.config).

A field without a declaration gets the control that suits its type.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from typing import Any

from core.engine.augment.config import WEAK_PRESETS, WeakConfig
from core.engine.config import Config, Option, options, types_of
from core.engine.registry import STRONG


def form(kind: type[Config]) -> list[dict]:
    """Returns the form of a configuration class as groups [{"title", "fields": [...]}], in the order of declaration.

    Skips hidden options, dictionaries, and nested configurations, which have forms of their own.
    """
    groups: dict[str, list[dict]] = {}
    hints = types_of(kind)
    for name, declared in options(kind).items():
        hint = hints[name]
        if declared.control == "hidden" or dataclasses.is_dataclass(hint) or dict in (hint, typing.get_origin(hint)):
            continue
        if not declared.sentence:
            declared = dataclasses.replace(declared, sentence=explained(kind).get(name, ""))
        groups.setdefault(declared.group or "Settings", []).append(field(name, hint, declared))
    return [{"title": title, "fields": fields} for title, fields in groups.items()]


def field(name: str, hint: Any, declared: Option) -> dict:
    """Describes the control of an option: the kind of control for the type `hint`, its label, help text and limits."""
    unit = f" In {declared.unit}." if declared.unit else ""
    common = {
        "key": name,
        "label": declared.label or name.replace("_", " "),
        "help": (declared.sentence + unit).strip(),
    }
    values = [a for a in typing.get_args(hint) if a is not type(None)]
    numeric = typing.get_origin(hint) is tuple and bool(values) and all(a in (int, float) for a in values)
    if hint is bool:
        return {**common, "kind": "flag"}
    if hint is int:
        return {**common, "kind": "integer", **_limits(declared), "step": 1}
    if hint is float:
        return {**common, "kind": "number", **_limits(declared), "step": declared.step or "any", "log": declared.log}
    if numeric and declared.ascending and _limits(declared)["max"] is not None:
        return {**common, "kind": "range", **_limits(declared), "step": declared.step or 0.01}
    if numeric:
        names = ["low", "high"] if len(values) == 2 else [str(i + 1) for i in range(len(values))]
        names = list(declared.parts) or names
        return {**common, "kind": "numbers", "names": names, **_limits(declared), "step": declared.step or "any"}
    offered = declared.offered() if declared.offered else declared.choices
    if offered:
        kinds = {"kind": "several" if declared.several else "choice", "options": list(offered)}
        return {**common, **kinds, "names": dict(declared.names)}
    return {**common, "kind": declared.control or "text"}


def _limits(declared: Option) -> dict[str, float | None]:
    if declared.slider:
        low, high = declared.slider
        return {"min": low, "max": high}
    if declared.choices:
        return {"min": min(declared.choices), "max": max(declared.choices)}
    most = max(declared.high) if isinstance(declared.high, tuple) else declared.high
    least = declared.low if declared.low is not None else declared.above
    return {"min": least, "max": most if most is not None else declared.below}


def explained(kind: type) -> dict[str, str]:
    """Returns {field: description} from "name: description." entries in the docstrings of a dataclass and its bases."""
    sentences: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            sentences |= _own_words(base)
    return sentences


def _own_words(kind: type) -> dict[str, str]:
    text = " ".join(line.strip() for line in (kind.__doc__ or "").splitlines())
    names = [f.name for f in dataclasses.fields(kind)]
    marks = [(m.start(), m.end(), m.group(1)) for m in re.finditer(rf"(?<![\w.])({'|'.join(names)}): ", text)]
    if not marks:
        return {}
    ends = [start for start, _, _ in marks[1:]] + [len(text)]
    return {name: text[begin:end].strip(" ,;") for (_, begin, name), end in zip(marks, ends, strict=True)}


def medmix_forms() -> dict:
    """Returns the forms in the page's MedMix tab: one per strong augmentation (MedMix first), and one for weak ones.

    The result is {"strong": {name: {"title", "section", "form", "defaults"}}, "weak": {"form", "presets"}}.
    """
    names = sorted(STRONG.names(), key=lambda n: (n != "medmix", n))
    presets = {name: config.to_dict() for name, config in WEAK_PRESETS.items()}
    return {
        "strong": {name: _strong_form(name) for name in names},
        "weak": {"form": form(WeakConfig), "presets": presets},
    }


def _strong_form(name: str) -> dict:
    kind = STRONG.get(name).Config
    facts = {"title": STRONG.title(name), "section": STRONG.fact(name, "section", "")}
    return {**facts, "form": form(kind), "defaults": kind().to_dict()}
