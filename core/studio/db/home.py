"""The home: the folder that contains an installation's database, runs, images and caches."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_dir

VARIABLE = "PMSACL_HOME"


class BadHome(ValueError):
    """Raised if a home cannot be used; the message says why."""


@dataclass(frozen=True)
class Home:
    """Paths in a home folder. `Home.at(path)` creates the folders; `Home(path)` does not."""

    path: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str] | None = None) -> Home:
        """Creates and returns the home at `path` (default: $PMSACL_HOME or, if unset, the user data folder).

        Raises BadHome if the folder cannot be created.
        """
        chosen = path or os.environ.get(VARIABLE) or user_data_dir("pmsacl-studio", appauthor=False)
        home = cls(Path(chosen).expanduser().absolute())
        try:
            fresh = not home.path.exists() or not any(home.path.iterdir())
            home.path.parent.mkdir(parents=True, exist_ok=True)
            for folder in (home.path, home.runs, home.cache, home.files):
                folder.mkdir(mode=0o700, exist_ok=True)
            home.close_to_others(fresh)
        except OSError as error:
            raise BadHome(f"cannot use the home {home.path}: {error.strerror}; choose another with --home") from None
        return home

    def close_to_others(self, fresh: bool = False) -> None:
        """Removes other accounts' permissions on the home (mode 0700) and on its database (mode 0600).

        A folder without a database is changed only if it is `fresh`, which means new or empty. Folders with the sticky
        bit, such as /tmp, are never changed.
        """
        if not fresh and not self.db.exists():
            return
        for path in (self.path, self.db):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                mode = path.stat().st_mode
                if mode & 0o077 and not mode & stat.S_ISVTX:
                    path.chmod(stat.S_IMODE(mode) & ~0o077)

    def left_out_of(self, text: str) -> str:
        """Returns `text` without the path of the home, because the page must not show where the home is."""
        for path in {str(self.path), str(self.path.resolve())}:
            text = text.replace(f"{path}/", "").replace(path, "the studio's home")
        return text

    @property
    def db(self) -> Path:
        return self.path / "studio.sqlite"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    @property
    def backups(self) -> Path:
        """Folder of the database backups, which are made daily and before migrations."""
        return self.path / "backups"

    @property
    def clusters(self) -> Path:
        """Folder of the cluster maps, with the folders maps/KEY and points/KEY and the files features/KEY.npy."""
        return self.cache / "clusters"

    @property
    def files(self) -> Path:
        """Folder of copied images (`study import --copy`, the demo, imported bundles), with one subfolder per study."""
        return self.path / "files"
