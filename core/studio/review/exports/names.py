"""De-identification: names, identifiers and dates are remapped, the same way each time for one study and secret."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from pathlib import Path

from core.studio.db.store import Store
from core.studio.review import readers

UID_ROOT = "2.25."  # UIDs derived from a UUID-sized number (DICOM PS3.5, B.2)


def names_for(store: Store, study: str, reader: str, single_user: bool, wanted: bool | None = None) -> Names:
    """The names that a file for `reader` may carry: every file that leaves the studio asks here.

    wanted: True asks for names as they are (Raises NotAllowed unless the reader may administer), False for remapped
    ones; None gives what the reader may have.
    """
    if wanted:
        readers.demand(store, reader, single_user, "administer")
    may = readers.rights(store, reader, single_user)["administer"]
    return Names(store, study, keep=may if wanted is None else wanted)


class Names:
    """Maps a study's names. `keep=True` leaves everything as it is."""

    def __init__(self, store: Store, study: str, keep: bool = False):
        self.keep = keep
        self.study = study
        if not keep:
            secret = store.setting(f"deidentify:{study}")
            if secret is None:
                secret = secrets.token_hex(32)
                store.set_setting(f"deidentify:{study}", secret)
            self._key = bytes.fromhex(secret)
            # One shift for the whole study keeps intervals; up to ten years back.
            self._shift = timedelta(days=-(1 + int.from_bytes(self._digest("shift")[:4], "big") % 3650))

    def _digest(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode(), hashlib.sha256).digest()

    def case(self, case: dict) -> str:
        """A case's name without suffix; a frame of a recording keeps its number: 'exam.mp4 #7' is 'exam #7'."""
        if self.keep:
            name, sign, number = case["name"].rpartition(" #")
            if sign and number.isdigit():
                return f"{name.rsplit('.', 1)[0]} #{number}"
            return case["name"].rsplit(".", 1)[0]
        return f"case-{self._digest('case ' + str(case['id'])).hex()[:12]}"

    def file(self, name: str) -> str:
        """The name of an image or a folder that is no case of the study."""
        return name if self.keep else f"image-{self._digest('file ' + name).hex()[:12]}"

    def recording(self, case: dict) -> str:
        """The name that all frames of one file share, or all slices of one volume (with names kept, its series)."""
        if self.keep:
            return case["series"].split()[0] if case["series"] else Path(case["path"]).stem
        return f"recording-{self._digest('recording ' + str(case['series'] or case['sha256'])).hex()[:12]}"

    def reader(self, name: str | None) -> str | None:
        """A reader's name."""
        return name if self.keep or name is None else f"reader-{self._digest('reader ' + name).hex()[:6]}"

    def uid(self, uid: str) -> str:
        """A DICOM UID."""
        return uid if self.keep else UID_ROOT + str(int.from_bytes(self._digest("uid " + uid)[:16], "big"))

    def when(self, text: str | None) -> str | None:
        """An ISO time, shifted."""
        if self.keep or not text:
            return text
        moved = datetime.fromisoformat(text.replace("Z", "+00:00")) + self._shift
        return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def date(self, text: str) -> str:
        """An ISO date, shifted."""
        return text if self.keep else (datetime.fromisoformat(text) + self._shift).date().isoformat()

    def day(self, text: str) -> str:
        """A DICOM date YYYYMMDD, shifted; '' for anything else."""
        if self.keep:
            return text
        try:
            return (datetime.strptime(text, "%Y%m%d") + self._shift).strftime("%Y%m%d")
        except ValueError:
            return ""
