"""Registries of interchangeable components. To add a component, add a file with a decorated class.

    @DETECTORS.register("padim", title="PaDiM")
    class PaDiM(Detector): ...

The list of names is computed (`DETECTORS.names()`), not maintained by hand.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Member = TypeVar("Member")


class UnknownName(ValueError):
    """Raised if no component has the requested name. The message lists the registered names."""


@dataclass
class Registry:
    """Family of interchangeable components, by name. The first look-up imports all modules of `package`.

    A folder that contains a file of the same name, such as igd/igd.py, is one component with several files. Any other
    folder has one component per file, such as comparators/panda.py.
    """

    family: str
    package: str
    _members: dict[str, Any] = field(default_factory=dict)
    _about: dict[str, dict[str, Any]] = field(default_factory=dict)
    _loaded: bool = False
    _loading: set[int] = field(default_factory=set)  # ids of the threads that are importing the package

    def register(self, name: str, **facts: Any) -> Callable[[Member], Member]:
        """Returns a decorator that registers a component with `facts`: texts for users (`title`, `section`) and flags.

        The flag `listed=False` excludes the component from `names()`, because it needs more inputs than others.
        `compares=True` means that the component can show which normal patch the most abnormal patch is most similar to.
        `own_network=True` means that the component trains networks from random weights instead of using the encoder.
        """

        def add(member: Member) -> Member:
            if name in self._members and self._members[name] is not member:
                raise ValueError(f"two components of the family {self.family!r} are called {name!r}: rename one")
            self._members[name] = member
            self._about[name] = facts
            return member

        return add

    def _load(self) -> None:
        thread = threading.get_ident()
        if self._loaded or thread in self._loading:  # a file of the package may call this during its import
            return
        self._loading.add(thread)
        try:
            package = importlib.import_module(self.package)
            for module in pkgutil.iter_modules(package.__path__):
                name = f"{self.package}.{module.name}"
                inner = importlib.import_module(name)
                inside = {m.name for m in pkgutil.iter_modules(inner.__path__)} if module.ispkg else set()
                for file in {module.name} if module.name in inside else inside:
                    importlib.import_module(f"{name}.{file}")
            self._loaded = True  # set last, so that other threads also import the package and wait for this one
        finally:
            self._loading.discard(thread)

    def get(self, name: str) -> Any:
        self._load()
        if name not in self._members:
            raise UnknownName(f"no {self.family} is called {name!r}; choose from: {', '.join(self.names())}")
        return self._members[name]

    def title(self, name: str) -> str:
        """Returns the title of the component `name`, or `name` if it is unknown or has no title."""
        return self.fact(name, "title", name)

    def fact(self, name: str, key: str, otherwise: Any = None) -> Any:
        """Returns the fact `key` that was registered with a component, or `otherwise` if there is none."""
        self._load()
        return self._about.get(name, {}).get(key, otherwise)

    def names(self) -> list[str]:
        self._load()
        return sorted(name for name in self._members if self._about[name].get("listed", True))


BACKBONES = Registry("backbone", "core.engine.backbones")
DETECTORS = Registry("detector", "core.engine.detectors")
OBJECTIVES = Registry("objective", "core.engine.objectives")
STRONG = Registry("strong augmentation", "core.engine.augment")
