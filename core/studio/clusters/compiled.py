"""UMAP with its compiled functions kept on disk.

Its library compiles most of them anew in each process, which takes some fifteen seconds, and a worker's process serves
one map. Numba's cache of the others lies beside the library, or in the user's cache where that cannot be written to.
"""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType

LIBRARIES = ("umap", "pynndescent")


def umap_library() -> ModuleType:
    """The module `umap`. Takes seconds to import: never in the page's process."""
    import umap

    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in LIBRARIES]
    functions = [f for module in modules for f in vars(module).values() if hasattr(type(f), "enable_caching")]
    for function in functions:
        if not function.signatures:  # else it is compiled already
            with contextlib.suppress(RuntimeError):  # no place that can be written to: it is compiled each time
                function.enable_caching()
    return umap
