"""What is done once a day while the studio is open: a backup, and what else its caller gives."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from core.studio.db.backup import REGULAR, backup
from core.studio.db.home import Home

DAY = 86400.0


class DailyBackup:
    """A thread that makes backups: `with DailyBackup(home):` makes one when the newest is `every` seconds old.

    It does so now and while the block runs. also: called after each.
    """

    def __init__(self, home: Home, every: float = DAY, also: Callable[[], object] = lambda: None):
        self.home, self.every, self.also = home, every, also
        self.made = threading.Event()  # set after each backup, for whoever waits for one
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backup", daemon=True)

    def _due(self) -> float:
        """Seconds until the next one."""
        times = [f.stat().st_mtime for f in self.home.backups.glob(f"{REGULAR}-*.sqlite")]
        return max(0.0, max(times, default=0.0) + self.every - time.time())

    def _run(self) -> None:
        while not self._end.wait(min(self._due(), 3600.0)):
            if self._due() > 0:
                continue
            try:
                backup(self.home)
                self.also()
                self.made.set()
            except Exception as error:  # the studio goes on; the log and `doctor` say that there is none
                logging.getLogger(__name__).warning("no backup could be made: %s", error)
                self._end.wait(min(self.every, 3600.0))

    def __enter__(self) -> DailyBackup:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(5)
