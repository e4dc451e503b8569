"""YAML from a stranger: plain settings only. Aliases (which can grow ten-fold a line), depth and size have limits."""

from __future__ import annotations

from typing import Any

import yaml

LONGEST = 64 * 1024  # characters; a preset has about a thousand
DEEPEST = 16


class BadYaml(ValueError):
    """Text that is not read; the message says why."""


def read_yaml(text: str) -> Any:
    """Reads a small document of plain values. Raises BadYaml for anything else."""
    if len(text) > LONGEST:
        raise BadYaml(f"this file is too long: at most {LONGEST // 1024} KB are read")
    try:
        _look_through(text)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        raise BadYaml(f"this is not YAML{f' (line {where.line + 1})' if where else ''}") from None
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, BadYaml):
            raise
        raise BadYaml("this file holds a value that cannot be read") from None


def _look_through(text: str) -> None:
    """Before anything is built of it: raises BadYaml for aliases and for what is nested too deeply."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1
            raise BadYaml(f"line {line} refers to another part of the file (an alias): write the values out")
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > DEEPEST:
                raise BadYaml(f"line {event.start_mark.line + 1}: this file is nested too deeply")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1
