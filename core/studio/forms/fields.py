"""Forms for configurations: which control each setting gets, its limits, and what the paper says of it.

A form is groups of fields, as plain JSON. A setting that no table names still gets a control, by its type, so that a
new member of a family (an objective, a detector, an augmentation) has a form the day it is written.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from typing import Any

from core.engine.config import Config

MORE = "More"


def number(key: str, label: str, low: float, high: float, step: float, help: str = "", log: bool = False) -> dict:
    """A slider with a number beside it."""
    return {
        "key": key,
        "label": label,
        "kind": "number",
        "min": low,
        "max": high,
        "step": step,
        "log": log,
        "help": help,
    }


def integer(key: str, label: str, low: int, high: int, help: str = "") -> dict:
    return {"key": key, "label": label, "kind": "integer", "min": low, "max": high, "step": 1, "help": help}


def span(key: str, label: str, low: float, high: float, step: float, help: str = "") -> dict:
    """(low, high): one slider with two handles."""
    return {"key": key, "label": label, "kind": "range", "min": low, "max": high, "step": step, "help": help}


def choice(
    key: str,
    label: str,
    options: typing.Sequence[str],
    help: str = "",
    several: bool = False,
    names: dict[str, str] | None = None,
) -> dict:
    """One of `options`; with `several`, any of them joined by '+'. names: what people read instead of an option."""
    return {
        "key": key,
        "label": label,
        "kind": "several" if several else "choice",
        "options": list(options),
        "names": names or {},
        "help": help,
    }


def flag(key: str, label: str, help: str = "") -> dict:
    return {"key": key, "label": label, "kind": "flag", "help": help}


def numbers(key: str, label: str, names: typing.Sequence[str], high: float, step: float, help: str = "") -> dict:
    """A fixed number of values, each with its name."""
    return {
        "key": key, "label": label, "kind": "numbers", "names": list(names), "min": 0, "max": high, "step": step,
        "help": help,
    }  # fmt: skip


def study(key: str, label: str, help: str = "") -> dict:
    """A study of this home, or none."""
    return {"key": key, "label": label, "kind": "study", "help": help}


def text(key: str, label: str, help: str = "") -> dict:
    return {"key": key, "label": label, "kind": "text", "help": help}


def form(
    kind: type[Config], groups: dict[str, list[dict]] | None = None, hidden: typing.Iterable[str] = ()
) -> list[dict]:
    """[{"title", "fields": [...]}] for a configuration class: the table's groups, then what the table leaves out.

    Nested configurations are asked for apart; `hidden` fields are left out altogether.
    """
    hints = typing.get_type_hints(kind)
    groups = groups or {}
    named = {f["key"] for fields in groups.values() for f in fields}
    rest = []
    for f in dataclasses.fields(kind):
        if f.name in named or f.name in hidden or dataclasses.is_dataclass(hints[f.name]) or hints[f.name] is dict:
            continue
        rest.append(_by_type(f.name, hints[f.name], explained(kind).get(f.name, "")))
    found = [{"title": t, "fields": [x for x in fields if x["key"] in hints]} for t, fields in groups.items()]
    if rest:
        found.append({"title": MORE if groups else "Settings", "fields": rest})
    return [g for g in found if g["fields"]]


def explained(kind: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of its fields in sentences of the form 'name: words.'."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            found |= _own_words(base)
    return found


def _own_words(kind: type) -> dict[str, str]:
    text = " ".join(line.strip() for line in (kind.__doc__ or "").splitlines())
    names = [f.name for f in dataclasses.fields(kind)]
    if not names:
        return {}
    marks = [(m.start(), m.end(), m.group(1)) for m in re.finditer(rf"(?<![\w.])({'|'.join(names)}): ", text)]
    ends = [start for start, _, _ in marks[1:]] + [len(text)]
    return {name: text[begin:end].strip(" ,;") for (_, begin, name), end in zip(marks, ends, strict=True)}


def _by_type(name: str, hint: Any, help: str) -> dict:
    label = name.replace("_", " ")
    args = [a for a in typing.get_args(hint) if a is not type(None)]
    if hint is bool:
        return flag(name, label, help)
    if hint is int:
        return {"key": name, "label": label, "kind": "integer", "min": None, "max": None, "step": 1, "help": help}
    if hint is float:
        return {"key": name, "label": label, "kind": "number", "min": None, "max": None, "step": "any", "help": help}
    if typing.get_origin(hint) is tuple and args and all(a in (int, float) for a in args):
        names = ["low", "high"] if len(args) == 2 else [str(i + 1) for i in range(len(args))]
        return {**numbers(name, label, names, 0, 0, help), "min": None, "max": None, "step": "any"}
    return text(name, label, help)
