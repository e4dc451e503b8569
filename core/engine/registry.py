"""Named families of interchangeable parts: one file and one decorator add a member.

    @DETECTORS.register("padim", title="PaDiM")
    class PaDiM(Detector): ...

The list of members is a call (`DETECTORS.names()`), never a table kept by hand.
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
    """A name that no member of the family carries; the message lists those that exist."""


@dataclass
class Registry:
    """A family's members by name. `package` is imported, file by file, the first time that one is asked for.

    A member that takes several files is a folder with a file of the same name in it: igd/igd.py. A folder without such
    a file holds one member a file: comparators/panda.py.
    """

    family: str
    package: str
    _members: dict[str, Any] = field(default_factory=dict)
    _about: dict[str, dict[str, Any]] = field(default_factory=dict)
    _loaded: bool = False
    _loading: set[int] = field(default_factory=set)  # threads

    def register(self, name: str, **facts: Any) -> Callable[[Member], Member]:
        """Returns a decorator that adds a member. `facts` are free text for people: title, section of the paper, ...

        listed=False: `names()` leaves the member out, for it needs more than the others are given. compares=True: it
        can say which normal patch the most abnormal one is most like. own_network=True: it learns with networks of its
        own, from random weights, whatever the encoder.
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
        if self._loaded or thread in self._loading:  # a file of the package may ask while it is imported
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
            self._loaded = True  # only now: another thread that asks meanwhile imports too, which waits for this one
        finally:
            self._loading.discard(thread)

    def get(self, name: str) -> Any:
        self._load()
        if name not in self._members:
            raise UnknownName(f"no {self.family} is called {name!r}; there are: {', '.join(self.names())}")
        return self._members[name]

    def about(self, name: str) -> dict[str, Any]:
        self.get(name)
        return dict(self._about[name])

    def title(self, name: str) -> str:
        """Returns the name for people; `name` itself for a member without a title, or that this version lacks."""
        return self.fact(name, "title", name)

    def fact(self, name: str, key: str, otherwise: Any = None) -> Any:
        """Returns a fact of a member; `otherwise` if it was registered without, or this version has no such member."""
        self._load()
        return self._about.get(name, {}).get(key, otherwise)

    def names(self) -> list[str]:
        self._load()
        return sorted(name for name in self._members if self._about[name].get("listed", True))


BACKBONES = Registry("backbone", "core.engine.backbones")
DETECTORS = Registry("detector", "core.engine.detectors")
OBJECTIVES = Registry("objective", "core.engine.objectives")
STRONG = Registry("strong augmentation", "core.engine.augment")
