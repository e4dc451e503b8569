"""Frozen dataclasses that round-trip to JSON: each stage's configuration, stored with each run."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any

from typing_extensions import Self


class BadConfig(ValueError):
    """A value that the configuration cannot hold; the message says which, and what it takes."""


@functools.cache  # hints are text that is evaluated anew at each call, which took most of the time of `replace`
def _kinds(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _read(kind: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if (dataclasses.is_dataclass(kind) or dict in (kind, origin)) and not isinstance(value, dict):
        raise BadConfig(f"{where} takes a group of settings, not {value!r}")
    if isinstance(kind, type) and issubclass(kind, Config):
        return kind.from_dict(value)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise BadConfig(f"{where} takes a list, not {value!r}")
        inner = typing.get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            inner = (inner[0],) * len(value)
        if len(inner) != len(value):
            raise BadConfig(f"{where} takes {len(inner)} values, not {len(value)}")
        return tuple(_read(k, v, where) for k, v in zip(inner, value, strict=True))
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        kinds = [k for k in typing.get_args(kind) if k is not type(None)]
        return _read(kinds[0], value, where) if len(kinds) == 1 else value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (int, float, str, bool) and type(value) is not kind:
        raise BadConfig(f"{where} takes {kind.__name__}, not {value!r}")
    return value


@dataclasses.dataclass(frozen=True)
class Config:
    """Base of every configuration. Subclasses check their values in `__post_init__` (raise BadConfig)."""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, sort_keys=True)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        kinds = _kinds(cls)  # type: ignore[arg-type]  # a class is hashable
        unknown = sorted(set(values) - set(kinds))
        if unknown:
            raise BadConfig(f"{cls.__name__} has no {', '.join(unknown)}; it has: {', '.join(sorted(kinds))}")
        return cls(**{k: _read(kinds[k], v, f"{cls.__name__}.{k}") for k, v in values.items()})

    def replace(self, **changes: Any) -> Self:
        """A copy with changes; a key may be dotted to reach a nested configuration: `medmix.lesions`."""
        values = self.to_dict()
        for key, value in changes.items():
            spot = values
            *path, last = key.replace("__", ".").split(".")
            for part in path:
                spot = spot[part]
            if last not in spot:
                raise BadConfig(f"{type(self).__name__} has no {key}")
            spot[last] = value
        return type(self).from_dict(values)
