"""Presets of strong augmentations, which are named, versioned, stored in the database, and exchanged as YAML files."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from core.engine.augment.config import MEDMIX_NOTES, MEDMIX_PRESETS
from core.engine.config import BadConfig
from core.engine.registry import STRONG
from core.studio.db import limits
from core.studio.db.store import NotFound, Store, now

_NAME = re.compile(r"[^\W_][\w .+-]{0,59}")


class BadPreset(ValueError):
    """Raised if a preset cannot be saved or read; the message states why."""


def checked(strong: str, config: dict) -> dict:
    """Returns the complete configuration of the augmentation `strong`. Raises BadConfig if `config` is invalid."""
    return STRONG.get(strong).Config.from_dict(config).to_dict()


def built_in() -> list[dict]:
    """Returns the built-in presets, each as version 0."""
    facts = {"version": 0, "strong": "medmix", "built_in": True}
    return [
        {**facts, "name": name, "config": config.to_dict(), "note": MEDMIX_NOTES[name]}
        for name, config in MEDMIX_PRESETS.items()
    ]


def list_presets(store: Store, versions: bool = False) -> list[dict]:
    """Returns the built-in presets, then the saved presets sorted by name: all versions, or the newest of each."""
    rows = store.query("SELECT * FROM presets WHERE removed = 0 ORDER BY name COLLATE NOCASE, version DESC")
    saved = [{**row, "config": _whole(row["strong"], json.loads(row["config"])), "built_in": False} for row in rows]
    newest: dict[str, dict] = {}
    for row in saved:
        newest.setdefault(row["name"], row)
    return built_in() + (saved if versions else list(newest.values()))


def _whole(strong: str, config: dict) -> dict:
    """Adds the defaults of settings that were introduced after the preset was saved."""
    return {**STRONG.get(strong).Config().to_dict(), **config} if strong in STRONG.names() else config


def get_preset(store: Store, name: str) -> dict:
    """Returns the newest version of a preset. Raises NotFound if no preset has this name."""
    listed = {row["name"]: row for row in list_presets(store)}
    if name not in listed:
        raise NotFound(f"unknown preset {name!r}; choose from: {', '.join(listed)}")
    return listed[name]


def save_preset(store: Store, name: str, strong: str, config: dict, note: str = "", reader: str | None = None) -> dict:
    """Saves a preset as a new version, unless its newest version has the same settings, and returns the newest version.

    Raises BadPreset if the name is invalid or built in, and BadConfig if a setting is invalid.
    """
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise BadPreset("a preset's name has 1 to 60 letters, digits, spaces or . + - _, and no symbol or space first")
    if any(row["name"] == name for row in built_in()):
        raise BadPreset(f"{name!r} comes with the studio and cannot be changed; choose another name")
    checked_config = json.dumps(checked(strong, config), sort_keys=True)
    with store.write() as db:
        if reader is not None:
            limits.demand_rows(store, "preset version", "presets", "reader = ?", [reader])
        last = store.one("SELECT * FROM presets WHERE name = ? ORDER BY version DESC LIMIT 1", [name])
        if last and not last["removed"] and (last["strong"], last["config"]) == (strong, checked_config):
            return get_preset(store, name)
        row = {
            "name": name, "version": (last["version"] if last else 0) + 1, "strong": strong, "config": checked_config,
            "note": note, "reader": reader, "created": now(),
        }  # fmt: skip
        db.table("presets").insert(row)
    return get_preset(store, name)


def remove_preset(store: Store, name: str) -> None:
    """Hides a preset but keeps it for the runs that use it. Raises BadPreset if the preset is built in."""
    if get_preset(store, name)["built_in"]:
        raise BadPreset(f"{name!r} comes with the studio and cannot be removed")
    store.execute("UPDATE presets SET removed = 1 WHERE name = ?", [name])


def to_yaml(preset: dict) -> str:
    """Returns a preset as the text of a YAML file."""
    head_lines = {"preset": preset["name"], **{key: preset[key] for key in ("version", "strong", "note")}}
    config = {k: list(v) if isinstance(v, tuple) else v for k, v in preset["config"].items()}
    return yaml.safe_dump({**head_lines, "config": config}, sort_keys=False, allow_unicode=True)


def from_yaml(text: str) -> dict:
    """Returns the preset in a YAML text: {"name", "strong", "config", "note"}. Raises BadPreset if it is invalid."""
    data = _read_yaml(text)
    if not isinstance(data, dict) or not isinstance(data.get("config"), dict) or "preset" not in data:
        raise BadPreset("a preset's file has the keys preset, strong and config")
    strong = str(data.get("strong", "medmix"))
    config = {k: tuple(v) if isinstance(v, list) else v for k, v in data["config"].items()}
    try:
        settings = checked(strong, config)
    except (BadConfig, TypeError) as error:
        raise BadPreset(f"the preset's settings are invalid: {error}") from None
    return {"name": str(data["preset"]), "strong": strong, "config": settings, "note": str(data.get("note") or "")}


LONGEST = 64 * 1024  # maximum number of characters in a file; a preset has about a thousand
DEEPEST = 16  # maximum depth of nesting


def _read_yaml(text: str) -> Any:
    """Returns the values in a short YAML text. Raises BadPreset if they are not plain values."""
    if len(text) > LONGEST:
        raise BadPreset(f"this file is too long: at most {LONGEST // 1024} KB are read")
    try:
        _look_through(text)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        raise BadPreset(f"this is not YAML{f' (line {where.line + 1})' if where else ''}") from None
    except BadPreset:
        raise
    except (ValueError, TypeError, RecursionError):
        raise BadPreset("this file contains a value that cannot be read") from None


def _look_through(text: str) -> None:
    """Raises BadPreset for aliases and deep nesting, before any value is built from the text."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1
            raise BadPreset(f"line {line} refers to another part of the file (an alias): write the values out")
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > DEEPEST:
                raise BadPreset(f"line {event.start_mark.line + 1}: this file is nested too deeply")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
