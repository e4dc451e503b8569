"""DICOM node (C-ECHO, C-STORE) that writes received images to a study's watched folder, from which they are imported.

The node runs only during `dicom serve`, under one AE title, and accepts images only from allowed senders (see `Peer`).
An image is acknowledged after it has been received completely, decoded and written to the disk. Other requests are
refused with a message, and nothing is stored.
"""

from __future__ import annotations

import hashlib
import io
import ipaddress
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydicom

from core.engine.files import replacing
from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.incoming import watch
from core.studio.ingest import erased
from core.studio.ingest.decode import probe, read_image
from core.studio.ingest.unreadable import Unreadable, refusing

PORT = 11112  # registered port for DICOM over plain TCP
LARGEST, IN_ALL = 1 << 30, 2 << 30  # maximum bytes of one object, and of all objects in transit
MOST_ASSOCIATIONS = 8
SILENT, PATIENCE = 16, 10.0  # maximum connections without an association, and their time limit in seconds
C_STORE = 0x0001  # CommandField of a C-STORE request
NAMELESS, CT_IMAGE = "2.25.0", "1.2.840.10008.5.1.4.1.1.2"  # replace UIDs that a message leaves empty
MISSING = "this needs {}: pip install 'pmsacl-studio[dicom]'"
NOT_UNDERSTOOD, NO_SPACE = 0xC000, 0xA700  # statuses of C-STORE (PS3.4, B.2.3)


@dataclass(frozen=True)
class Peer:
    """Allowed sender of images, identified by its calling AE title and its IP address or network."""

    title: str
    network: ipaddress.IPv4Network | ipaddress.IPv6Network

    @classmethod
    def of(cls, text: str) -> Peer:
        """Parses a sender such as 'PACS@192.0.2.7' or 'CT1@192.0.2.0/24'. Raises ValueError for any other form."""
        title, sign, address = text.partition("@")
        try:
            if not sign:
                raise ValueError
            return cls(checked_title(title), ipaddress.ip_network(address))
        except ValueError:
            raise ValueError(f"a sender must have the form AETITLE@ADDRESS or AETITLE@NETWORK, not {text!r}") from None

    def is_from(self, address: str) -> bool:
        """Returns whether an IP address belongs to the network of this sender."""
        return ipaddress.ip_address(address.partition("%")[0]) in self.network

    def is_one(self, title: str, address: str) -> bool:
        """Returns whether a calling AE title and an IP address are those of this sender."""
        return title.strip() == self.title and self.is_from(address)


def checked_title(title: str) -> str:
    """Validates an AE title (DICOM PS3.5, 6.2) and strips surrounding spaces. Raises ValueError if it is invalid."""
    if not 0 < len(title.strip()) <= 16 or not title.isascii() or not title.isprintable() or "\\" in title:
        raise ValueError(f"an AE title must have 1 to 16 ASCII characters without backslashes, not {title!r}")
    return title.strip()


def folder_of(store: Store, study: str) -> Path:
    """Returns the watched folder of a study. Raises ValueError if no folder is watched or the folder is missing."""
    watched = watch.get_watch(store, study)
    if watched is None or not watched["active"] or not Path(watched["folder"]).is_dir():
        raise ValueError(f"no folder is watched for {study}; set the folder for images with `watch {study} FOLDER`")
    return Path(watched["folder"])


def place(folder: Path, data: bytes) -> bool:
    """Writes a DICOM file to `folder` and returns True, or returns False if the folder already contains the image.

    Raises Unreadable, and writes nothing, if `data` is not a readable DICOM image.
    """
    if data[128:132] != b"DICM":
        raise Unreadable("it is not a DICOM file")
    image = _header(data)
    uid = str(image.get("SOPInstanceUID") or "")
    if not uid or not pydicom.uid.UID(uid).is_valid:
        raise Unreadable("it has no valid SOP instance UID")
    for target in (folder / f"{uid}.dcm", folder / f"{uid}-{hashlib.sha256(data).hexdigest()[:12]}.dcm"):
        with replacing(target) as draft:
            if not target.exists():
                draft.write_bytes(data)
                for frame in {0, probe(draft).frames - 1}:
                    read_image(draft, frame)
                return True
            if pydicom.dcmread(target) == pydicom.dcmread(io.BytesIO(data)):  # compares all but the meta header
                return False
    return False


@refusing
def _header(data: bytes) -> pydicom.Dataset:
    return pydicom.dcmread(io.BytesIO(data), stop_before_pixels=True)


class Node:
    """Context manager that runs a DICOM server in the background, for the watched folder of a study.

    title: AE title of the server.
    port: TCP port, or 0 to choose a free port. The attribute `port` is the port of the running server.
    say: Function that is called with a one-line message about each association and each refusal.

    Raises ValueError if pynetdicom is missing, no folder is watched, `peers` is empty, or the address cannot be used.
    """

    def __init__(
        self,
        store: Store,
        study: str,
        title: str,
        peers: list[Peer],
        host: str = "127.0.0.1",
        port: int = PORT,
        say: Callable[[str], None] = lambda line: None,
    ):
        try:
            import pynetdicom
        except ImportError:
            raise ValueError(MISSING.format("pynetdicom")) from None
        pynetdicom._config.LOG_HANDLER_LEVEL = "none"  # its handlers fail on empty UIDs and block those below
        if not peers:
            raise ValueError("no sender is allowed; name each sender as AETITLE@ADDRESS")
        self._store, self._study, self._folder, self._peers = store, study, folder_of(store, study), peers
        self._say, self._host, self.port = say, host, port
        self._counts, self._received = dict[Any, Counter[str]](), dict[Any, int]()
        self._lock, self._slots = threading.Lock(), set[Any]()
        self._ae = pynetdicom.AE(checked_title(title))
        self._ae.require_called_aet = True
        self._ae.maximum_associations = MOST_ASSOCIATIONS + SILENT
        self._ae.acse_timeout = PATIENCE
        self._ae.add_supported_context("1.2.840.10008.1.1")  # Verification: C-ECHO
        syntaxes = _decodable()
        for context in pynetdicom.AllStoragePresentationContexts:
            self._ae.add_supported_context(str(context.abstract_syntax), syntaxes)

    def __enter__(self) -> Node:
        from pynetdicom import evt

        handlers: list[Any] = [
            (evt.EVT_REQUESTED, self._requested), (evt.EVT_C_STORE, self._stored), (evt.EVT_C_ECHO, lambda event: 0),
            (evt.EVT_PDU_RECV, self._counted), (evt.EVT_CONN_CLOSE, self._ended), (evt.EVT_DIMSE_RECV, _named_message),
        ]  # fmt: skip
        try:
            listening: Any = self._ae.start_server((self._host, self.port), block=False, evt_handlers=handlers)
        except OSError as error:
            raise ValueError(f"cannot listen on {self._host}, port {self.port}: {error.strerror}") from None
        self._server, self.port = listening, listening.server_address[1]
        listening.verify_request = self._admits
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()

    def _admits(self, request: Any, address: tuple[str, int]) -> bool:
        """Returns whether a connection comes from a sender's address; closes the oldest silent ones above SILENT."""
        if not any(peer.is_from(address[0]) for peer in self._peers):
            self._say(f"Refused a connection from {address[0]}: no sender has this address")
            return False
        silent = [a for a in self._server.active_associations if not a.is_established]
        for association in silent[: max(0, len(silent) - SILENT + 1)]:
            association.kill()
            association.dul.socket.close()
        return True

    def _requested(self, event: Any) -> None:
        title, address = event.assoc.requestor.primitive.calling_ae_title, event.assoc.requestor.address
        if not any(peer.is_one(title, address) for peer in self._peers):
            self._say(f"Refused {title.strip()!r} from {address}: not an allowed sender")
            event.assoc.acse.send_reject(0x01, 0x01, 0x03)  # permanently, by the user: calling AE title not recognised
            event.assoc.kill()
        elif not self._claim(event.assoc):
            event.assoc.acse.send_reject(0x02, 0x03, 0x02)  # temporarily, by the provider: local limit exceeded
            event.assoc.kill()

    def _claim(self, association: Any) -> bool:
        """Reserves one of MOST_ASSOCIATIONS slots for an association. Returns False if no slot is free."""
        with self._lock:
            self._slots = {a for a in self._slots if a.is_alive()}
            if len(self._slots) >= MOST_ASSOCIATIONS:
                return False
            self._slots.add(association)
            return True

    def _counted(self, event: Any) -> None:
        """Closes a connection if its object, or the total of all objects in transit, exceeds the limit."""
        size = self._received.get(event.assoc, 0) + int(getattr(event.pdu, "pdu_length", 0))
        self._received[event.assoc] = size
        if size > LARGEST or sum(list(self._received.values())) > IN_ALL:
            self._count(event.assoc, "refused")
            self._say(f"Closed a connection: the limit is {LARGEST >> 20:,} MiB an object, {IN_ALL >> 20:,} MiB in all")
            event.assoc.dul.socket.close()

    def _stored(self, event: Any) -> pydicom.Dataset:
        self._received[event.assoc] = 0
        answer = pydicom.Dataset()
        answer.Status = 0
        try:
            if erased.known(self._store, str(event.request.AffectedSOPInstanceUID)):
                raise Unreadable("it was erased here")
            if event.request.AffectedSOPInstanceUID == NAMELESS:
                raise Unreadable("its message has no SOP class or instance UID")
            self._count(event.assoc, "stored" if place(self._folder, event.encoded_dataset()) else "again")
        except Unreadable as error:
            answer.Status, answer.ErrorComment = NOT_UNDERSTOOD, f"Refused: {error}"[:64]
        except OSError as error:
            answer.Status, answer.ErrorComment = NO_SPACE, f"Refused: {error.strerror or 'disk'}"[:64]
        if answer.Status:
            self._count(event.assoc, "refused")
            self._say(answer.ErrorComment)
        return answer

    def _count(self, association: Any, kind: str) -> None:
        with self._lock:
            self._counts.setdefault(association, Counter())[kind] += 1

    def _ended(self, event: Any) -> None:
        """Records the sender and the number of images in the audit trail."""
        self._received.pop(event.assoc, None)
        with self._lock:
            self._slots.discard(event.assoc)
            counts = self._counts.pop(event.assoc, None)
        if counts:
            who = str(event.assoc.requestor.ae_title).strip()
            after = {name: counts[name] for name in ("stored", "again", "refused")}
            audit.record(self._store, f"DICOM {who}", "received", study=self._study, after=after)
            self._store.close()  # the connection of this thread
            self._say(f"{who}: {after['stored']} stored, {after['again']} already present, {after['refused']} refused")


def _named_message(event: Any) -> None:
    """Fills in UIDs that a C-STORE request leaves empty, so that it is refused; pynetdicom would not answer it."""
    command = event.message.command_set
    if command is None or command.get("CommandField") != C_STORE:
        return
    if not (command.get("AffectedSOPInstanceUID") and command.get("AffectedSOPClassUID")):
        command.AffectedSOPInstanceUID, command.AffectedSOPClassUID = NAMELESS, CT_IMAGE


def _decodable() -> list[str]:
    """Returns the transfer syntaxes that can be decoded here. A sender must convert its images to one of them."""
    from pydicom.pixels import get_decoder

    syntaxes = []
    for syntax in pydicom.uid.AllTransferSyntaxes:
        try:
            if get_decoder(syntax).is_available:
                syntaxes.append(str(syntax))
        except NotImplementedError:
            continue
    return syntaxes


def as_file(ds: pydicom.Dataset) -> bytes:
    """Returns a dataset as the bytes of a DICOM file."""
    out = io.BytesIO()
    pydicom.dcmwrite(out, ds, enforce_file_format=True)
    return out.getvalue()
