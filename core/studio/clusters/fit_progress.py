"""Progress of a t-SNE or UMAP fit, read from the text that the libraries print (neither takes a callback).

umap-learn writes a bar to the file it is given; scikit-learn's t-SNE prints a line every 50 iterations. An exception
raised in `report`, such as the one that stops a job, leaves the fit at once.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator

Report = Callable[[int, int], None]


class Listener(io.TextIOBase):
    """A file that calls report(done, total) for each piece of text in which `pattern` finds how much is done."""

    def __init__(self, report: Report, pattern: str, total: int = 0):
        self.report, self.pattern, self.total = report, re.compile(pattern), total

    def write(self, text: str) -> int:
        for found in self.pattern.finditer(text):
            done, *rest = map(int, found.groups())
            self.report(done, rest[0] if rest else self.total)
        return len(text)


@contextlib.contextmanager
def tsne(report: Report | None, iterations: int) -> Iterator[int]:
    """Gives the `verbose` that TSNE needs for it."""
    if report is None:
        yield 0
        return
    with contextlib.redirect_stdout(Listener(report, r"Iteration (\d+):", iterations)):
        yield 2


def umap(report: Report | None) -> dict:
    """The `tqdm_kwds` that UMAP needs for it."""
    if report is None:
        return {"disable": True}
    listener = Listener(report, r"(\d+)/(\d+)")
    return {"disable": False, "file": listener, "bar_format": "{n_fmt}/{total_fmt} ", "mininterval": 0.5}
