"""Configurations: frozen dataclasses that are stored with each run, as JSON, and can be restored from it.

Each option is declared once, as a field with a type and a default; `option` adds bounds, unit, choices and description.
Checks, error messages, forms and command-line flags are generated from this declaration. Only the standard library is
imported here, so that `--help` needs no torch.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from typing_extensions import Self

T = TypeVar("T")
DECLARED = "option"  # metadata key of the declaration in a dataclass field
# Fields that set the size of a network are limited, because settings may come from another installation and a network
# is built before its weights are checked.
CHANNELS = ("channels", "critic_width", "dim", "hidden", "latent", "width")
MOST_CHANNELS = 4096


class BadConfig(ValueError):
    """Raised if an option is unknown or its value is invalid. The message names the option and the allowed values."""


@dataclasses.dataclass(frozen=True)
class Option:
    """Declaration of an option. It is created by `option`; `options` returns all declarations of a configuration.

    Attributes:
        sentence: What the option does, for users who have not read the code.
        unit: Unit of the value, such as "pixels".
        low, high, above, below: Bounds of the value, or of each value of a tuple; `low` and `high` are inclusive.
        ascending: Whether the value is a range, a tuple whose numbers must not decrease.
        choices: All allowed values, if there are only a few.
        several: Whether choices can be combined with "+".
        aliases: Combinations of choices by name.
        offered: Function that returns the values suggested in the form, if other values are also allowed.
        label: Label shown to users. Defaults to the name of the field.
        group: Heading in the form and on the reference page.
        slider: Range (lowest, highest) of the slider in the form, if it is not given by the bounds.
        step, log: Step of the slider, and whether its scale is logarithmic.
        parts, names: Display names of the values of a tuple, and display names of the choices.
        control: "study" to choose a study, "hidden" for no control, or "" for a control that depends on the type.
    """

    sentence: str = ""
    unit: str = ""
    low: float | None = None
    high: float | tuple[float, ...] | None = None
    above: float | None = None
    below: float | None = None
    ascending: bool = False
    choices: tuple[Any, ...] = ()
    several: bool = False
    aliases: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    offered: Callable[[], Sequence[str]] | None = None
    label: str = ""
    group: str = ""
    slider: tuple[float, float] | None = None
    step: float | None = None
    log: bool = False
    parts: tuple[str, ...] = ()
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    control: str = ""

    def chosen(self, value: str) -> list[str]:
        """Returns the choices selected by `value`: one choice, several such as "a+b", or an alias."""
        return list(self.aliases[value]) if value in self.aliases else value.split("+")

    def fault(self, value: Any) -> str:
        """Returns "" if `value` is None or allowed; otherwise the error message, which follows the option's name."""
        if value is None:
            return ""
        if self.choices:
            chosen = self.chosen(value) if self.several else [value]
            if all(v in self.choices for v in chosen):
                return ""
            more = ", or several combined with '+'" * self.several + "".join(f", or {a}" for a in self.aliases)
            return f"must be one of {', '.join(map(str, self.choices))}{more}, not {value!r}"
        values = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(v, (int, float)) for v in values):
            return ""
        highs = self.high if isinstance(self.high, tuple) else (self.high,) * len(values)
        fits = all(self._fits(v, high) for v, high in zip(values, highs, strict=True))
        falls = self.ascending and any(a > b for a, b in zip(values, values[1:], strict=False))
        if fits and not falls:
            return ""
        range_ = "a range (low, high) " * self.ascending
        return f"must be {range_}{self.bounds}, not {value}" if self.bounds else f"must be {range_}and finite"

    def _fits(self, value: float, high: float | None) -> bool:
        return (
            math.isfinite(value)
            and (self.low is None or value >= self.low)
            and (high is None or value <= high)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    @property
    def bounds(self) -> str:
        """The bounds as text, such as "within 1..7", "at least 16" or "above 0", or "" if there are none."""
        if self.low is not None and isinstance(self.high, tuple):
            pairs = zip(self.parts or ("",) * len(self.high), self.high, strict=True)
            return "within " + ", ".join(f"{name} {self.low:g}..{high:g}".strip() for name, high in pairs)
        if self.low is not None and self.high is not None:
            return f"within {self.low:.12g}..{self.high:.12g}"
        words = [
            f"{word} {bound:.12g}"
            for word, bound in (
                ("at least", self.low), ("at most", self.high), ("above", self.above), ("below", self.below)
            )
            if bound is not None and not isinstance(bound, tuple)
        ]  # fmt: skip
        return " and ".join(words)


def option(default: Any, sentence: str = "", **declared: Any) -> Any:
    """Declares an option as a dataclass field: `lr: float = option(0.01, "Learning rate.", above=0, log=True)`.

    `default` is the default value, or a function without arguments that returns it; `declared` holds further attributes
    of `Option`. A `group` also applies to the options that follow. A subclass that only changes the default of a field
    (`lr: float = 0.1`) inherits the declaration.
    """
    metadata = {DECLARED: Option(sentence=sentence, **declared)}
    if callable(default):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def cached_by_class(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """Caches a function whose argument is a class, for which type checkers reject `functools.cache`."""
    return functools.cache(function)


@cached_by_class
def options(cls: Any) -> dict[str, Option]:
    """Returns the declarations in a configuration class, by name and in the order of the fields, with groups filled in.

    A field that was not declared with `option` gets an empty declaration.
    """
    listed: dict[str, Option] = {}
    group = ""
    for field in dataclasses.fields(cls):
        declared = _declared(cls, field.name)
        group = declared.group or group
        listed[field.name] = dataclasses.replace(declared, group=group)
    return listed


def _declared(cls: type, name: str) -> Option:
    for base in cls.__mro__:
        field = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if field is not None and DECLARED in field.metadata:
            declared: Option = field.metadata[DECLARED]
            return declared
    return Option()


@cached_by_class  # evaluating type hints took most of the time of `replace`
def types_of(cls: Any) -> dict[str, Any]:
    """Returns the evaluated type hint of each field of a dataclass, by field name."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _read(kind: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if (dataclasses.is_dataclass(kind) or dict in (kind, origin)) and not isinstance(value, dict):
        raise BadConfig(f"{where} must be a group of settings, not {value!r}")
    if isinstance(kind, type) and issubclass(kind, Config):
        return kind.from_dict(value)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise BadConfig(f"{where} must be a list, not {value!r}")
        inner = typing.get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            inner = (inner[0],) * len(value)
        if len(inner) != len(value):
            raise BadConfig(f"{where} must have {len(inner)} values, not {len(value)}")
        return tuple(_read(k, v, where) for k, v in zip(inner, value, strict=True))
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        kinds = [k for k in typing.get_args(kind) if k is not type(None)]
        return _read(kinds[0], value, where) if len(kinds) == 1 else value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (int, float, str, bool) and type(value) is not kind:
        raise BadConfig(f"{where} must be of type {kind.__name__}, not {value!r}")
    return value


@dataclasses.dataclass(frozen=True)
class Config:
    """Base class of configurations. `__post_init__`, which overrides must call, raises BadConfig for invalid values."""

    def __post_init__(self) -> None:
        for name, declared in options(type(self)).items():
            fault = declared.fault(getattr(self, name))
            if fault:
                raise BadConfig(f"{name} {fault}")

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, sort_keys=True)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Creates a configuration from the result of `to_dict`. Raises BadConfig if a key or a value is invalid."""
        kinds = types_of(cls)
        unknown = sorted(set(values) - set(kinds))
        if unknown:
            raise BadConfig(f"{cls.__name__} has no {', '.join(unknown)}; it has: {', '.join(sorted(kinds))}")
        for name in CHANNELS:
            if isinstance(values.get(name), int) and values[name] > MOST_CHANNELS:
                raise BadConfig(f"{name} must be at most {MOST_CHANNELS}, not {values[name]}")
        return cls(**{k: _read(kinds[k], v, f"{cls.__name__}.{k}") for k, v in values.items()})

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with changes. `medmix__size` or "medmix.size" changes the option `size` of the field `medmix`.

        Raises BadConfig if an option is unknown or a value is invalid.
        """
        values = self.to_dict()
        for key, value in changes.items():
            spot = values
            key = key.replace("__", ".")
            *path, last = key.split(".")
            for step in path:
                spot = spot[step] if isinstance(spot.get(step), dict) else {}
            if last not in spot:
                raise BadConfig(f"{type(self).__name__} has no {key}; it has: {', '.join(spot or values)}")
            spot[last] = value
        return type(self).from_dict(values)
