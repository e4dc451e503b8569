"""Registries of interchangeable components: one file and one decorator add a member.

    @DETECTORS.register("padim", title="PaDiM")
    class PaDiM(Detector): ...

The list of members is computed (`DETECTORS.names()`), not maintained by hand.
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
    """Raised if a registry has no member of a name; the message lists the registered names."""


@dataclass
class Registry:
    """A family of interchangeable components by name. All files of `package` are imported at the first look-up.

    A member with several files is a folder that contains a file of the same name: igd/igd.py. A folder without such a
    file has one member per file: comparators/panda.py.
    """

    family: str
    package: str
    _members: dict[str, Any] = field(default_factory=dict)
    _about: dict[str, dict[str, Any]] = field(default_factory=dict)
    _loaded: bool = False
    _loading: set[int] = field(default_factory=set)  # threads

    def register(self, name: str, **facts: Any) -> Callable[[Member], Member]:
        """Returns a decorator that registers a member. facts: flags, and texts for users such as `title`, `section`.

        listed=False: `names()` skips the member, because it needs more inputs than others. compares=True: it can find
        the normal patch that is most similar to the most abnormal one. own_network=True: it trains its own networks
        from random weights and does not use the encoder.
        """

        def add(member: Member) -> Member:
            if name in self._members and self._members[name] is not member:
                raise ValueError(f"two members of {self.family} are called {name!r}")
            self._members[name] = member
            self._about[name] = facts
            return member

        return add

    def _load(self) -> None:
        thread = threading.get_ident()
        if self._loaded or thread in self._loading:  # a file of the package may call this while it is imported
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
            self._loaded = True  # only now: another thread also imports, and so waits for this one
        finally:
            self._loading.discard(thread)

    def get(self, name: str) -> Any:
        self._load()
        if name not in self._members:
            raise UnknownName(f"no {self.family} is called {name!r}; choose from: {', '.join(self.names())}")
        return self._members[name]

    def title(self, name: str) -> str:
        """Returns the title of a member, or `name` if it has no title or is unknown."""
        return self.fact(name, "title", name)

    def fact(self, name: str, key: str, otherwise: Any = None) -> Any:
        """Returns the fact `key` of a member as registered, or `otherwise` if the fact or the member is missing."""
        self._load()
        return self._about.get(name, {}).get(key, otherwise)

    def names(self) -> list[str]:
        self._load()
        return sorted(name for name in self._members if self._about[name].get("listed", True))


BACKBONES = Registry("backbone", "core.engine.backbones")
DETECTORS = Registry("detector", "core.engine.detectors")
OBJECTIVES = Registry("objective", "core.engine.objectives")
STRONG = Registry("strong augmentation", "core.engine.augment")
