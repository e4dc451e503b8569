"""DICOMweb client that fetches images by QIDO and WADO into a watched folder, and sends results by STOW.

The page can send results only to servers that an administrator of the machine has added (command `dicom server`).
Passwords are not stored, but read from the environment variable that PASSWORD names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pydicom

from core.engine.progress import Stopped
from core.studio.db import audit, leftovers
from core.studio.db.store import Store
from core.studio.incoming import KINDS, PASSWORD
from core.studio.incoming.dicom_node import MISSING, as_file, folder_of, place
from core.studio.ingest import erased
from core.studio.ingest.unreadable import Unreadable
from core.studio.jobs import queue as jobs
from core.studio.jobs.steps import Work
from core.studio.review.exports.formats import write_form
from core.studio.review.exports.pictures import NothingToExport

Said = Callable[[int, int], None]
SERVERS = "dicomweb"  # setting that contains {name of a server: {"url", "user"}}
NAMELESS = "the server does not state the UID of the {}"
NO_DICOMWEB = "{} does not answer as a DICOMweb server; check the address, and whether the server asks to sign in"


class Refusal(ValueError):
    """Raised if a server refuses a request or does not answer. The message names the server and the reason."""


class NoDicomWeb(Refusal):
    """Raised if the answer of a server is not a valid DICOMweb response."""


def fetch(
    store: Store,
    study: str,
    url: str,
    by: str,
    filters: dict[str, str],
    sign_in: tuple[str, str] | None = None,
    limit: int | None = None,
    on_progress: Said = lambda done, total: None,
) -> dict:
    """Fetches the images of all series that match the filters into the watched folder of a study.

    by: Name of the user, for the audit trail.
    filters: Value to match for each DICOM keyword, such as {"PatientID": "1234", "StudyDate": "20240131"}.
    sign_in: User name and password, or None if the server requires no sign-in.
    limit: Maximum number of new images. By default, there is no limit.

    Returns {"fetched": number of new images, "again": number of images that the folder already contained, "refused":
    [{"uid", "reason"}]}. Raises Refusal if the server does not answer; images that have arrived are kept.
    """
    folder, client = folder_of(store, study), _client(url, sign_in)
    fetched, again, refused = 0, 0, list[dict[str, str]]()
    try:
        queue = []
        for series in _listed(url, client.search_for_series, search_filters=filters):
            of = tuple(_uid(series, tag) for tag in ("0020000D", "0020000E"))
            if not all(of):
                refused.append({"uid": "", "reason": NAMELESS.format("series")})
                continue
            queue += [(*of, _uid(instance, "00080018")) for instance in _listed(url, client.search_for_instances, *of)]
        for done, uids in enumerate(queue):
            on_progress(done, len(queue))
            if limit is not None and fetched >= limit:
                break
            if not uids[2]:
                refused.append({"uid": "", "reason": NAMELESS.format("instance")})
                continue
            if (folder / f"{pydicom.uid.UID(uids[2])}.dcm").exists():
                again += 1
                continue
            try:
                if erased.known(store, uids[2]):
                    raise Unreadable(erased.REASON)
                new = place(folder, _retrieved(url, client, uids))
                fetched, again = fetched + new, again + (not new)
            except Unreadable as error:
                refused.append({"uid": uids[2], "reason": str(error)})
    finally:
        if fetched or refused:
            after = {"stored": fetched, "again": again, "refused": len(refused)}
            audit.record(store, by, "received", study=study, after=after)
    return {"fetched": fetched, "again": again, "refused": refused}


def _listed(url: str, ask: Callable[..., Any], *args: Any, **options: Any) -> Iterator[dict[str, Any]]:
    """Yields each entry on the pages of a server once, until a page has no new entry (some servers repeat page 1)."""
    seen_entries, offset = set[str](), 0
    while True:
        page = _asked(url, ask, *args, **options, **({"offset": offset} if offset else {}))
        if not isinstance(page, list) or not all(isinstance(entry, dict) for entry in page):
            raise Refusal(NO_DICOMWEB.format(url))
        new = {key: entry for entry in page if (key := json.dumps(entry, sort_keys=True)) not in seen_entries}
        if not new:
            return
        seen_entries |= set(new)
        offset += len(page)
        yield from new.values()


def _uid(entry: dict[str, Any], tag: str) -> str | None:
    """Returns the UID of an entry at a tag, or None if the entry has no valid UID there."""
    try:
        uid = entry[tag]["Value"][0]
        return uid if isinstance(uid, str) and pydicom.uid.UID(uid).is_valid else None
    except (KeyError, IndexError, TypeError):
        return None


def _retrieved(url: str, client: Any, uids: tuple[Any, ...]) -> bytes:
    """Returns an instance as the bytes of a file. Raises Unreadable if the answer is not that instance."""
    try:
        ds = _asked(url, client.retrieve_instance, *uids)
        data, uid = as_file(ds), str(ds.get("SOPInstanceUID"))
    except NoDicomWeb:
        raise Unreadable("the server's answer holds no DICOM file") from None
    except (ValueError, AttributeError, TypeError, KeyError):
        raise Unreadable("the server's answer cannot be written as a DICOM file") from None
    if uid != uids[2]:
        raise Unreadable("the server sent a different instance from the one requested")
    return data


def servers(store: Store) -> dict[str, dict[str, str | None]]:
    """Returns the servers to which the page may send results, as {name: {"url", "user"}}."""
    return dict(store.setting(SERVERS, {}))


def name_server(store: Store, name: str, url: str | None, user: str | None, by: str) -> None:
    """Adds a server to `servers`, or removes it if `url` is None. Raises ValueError for an invalid name or address."""
    with store.write():
        servers_by_name = servers(store)
        before = servers_by_name.pop(name, None)
        if url is not None:
            if not name.strip() or len(name) > 60 or not name.isprintable():
                raise ValueError(f"the name of a server must have 1 to 60 printable characters, not {name!r}")
            servers_by_name[name] = {"url": _checked(url), "user": user}
        elif before is None:
            raise ValueError(f"no server is called {name!r}; choose from: {', '.join(servers_by_name) or 'none'}")
        store.set_setting(SERVERS, servers_by_name)
        audit.record(store, by, "dicomweb server", before=before, after={"name": name, **servers_by_name.get(name, {})})


def sign_in_of(user: str | None) -> tuple[str, str] | None:
    """Returns (user, password), or None if `user` is empty. Raises ValueError if the environment has no password."""
    if user and PASSWORD not in os.environ:
        raise ValueError(f"to sign in as {user}, set the environment variable {PASSWORD} to the password")
    return (user, os.environ[PASSWORD]) if user else None


def submit_send(store: Store, study: str, server: str, by: str, **options: Any) -> int:
    """Queues a job that sends a study's results to a server, with `options` for `send_study`; returns the job's id."""
    if server not in servers(store):
        raise ValueError(f"no server is called {server!r}; choose from: {', '.join(servers(store)) or 'none'}")
    steps = [{"step": "send", "args": {"study": study, "server": server, "by": by, **options}}]
    return int(jobs.once(store, steps, lambda: steps)["id"])


def send_step(work: Work) -> None:
    """Runs `send_study` as a job step, with the arguments of `submit_send`.

    The step can be repeated, because servers ignore objects that they already have.
    """
    options = dict(work.args)
    server = servers(work.store)[name := options.pop("server")]

    def on_progress(kind: str, done: int, total: int) -> None:
        if work.should_stop():
            raise Stopped
        work.report({"step": done, "steps": total, "message": f"Sending {kind} to {name}: {done} of {total}"})

    send_study(
        work.store, options.pop("study"), str(server["url"]), sign_in=sign_in_of(server["user"]),
        on_progress=on_progress, **options,
    )  # fmt: skip


def send_study(
    store: Store,
    study: str,
    url: str,
    by: str,
    kinds: Iterable[str] = tuple(KINDS),
    keep_names: bool = False,
    run: str | None = None,
    sign_in: tuple[str, str] | None = None,
    on_progress: Callable[[str, int, int], None] = lambda kind, done, total: None,
) -> dict[str, int]:
    """Sends a study's masks, heat maps and reports to a server; returns {key of KINDS: number of files sent}.

    Raises NothingToExport if there is nothing to send, and Refusal at the first file that the server rejects.
    """
    sent = dict[str, int]()
    for kind in kinds:
        with leftovers.folder(store.home.cache) as folder:
            try:
                write_form(store, study, KINDS[kind], folder, by, keep_names, run)
                files = sorted(folder.iterdir())
                sent[kind] = send(files, url, sign_in, partial(on_progress, kind))
            except NothingToExport:
                sent[kind] = 0
    if not any(sent.values()):
        raise NothingToExport("no case of this study came as DICOM and has a mask, a heat map or a report")
    return sent


def send(
    files: Iterable[Path],
    url: str,
    sign_in: tuple[str, str] | None = None,
    on_progress: Said = lambda done, total: None,
) -> int:
    """Sends files to a server; returns their number. Raises Refusal at the first file that the server rejects."""
    client, files = _client(url, sign_in), list(files)
    for done, file in enumerate(files):
        on_progress(done, len(files))
        answer = _asked(url, client.store_instances, [pydicom.dcmread(file)])
        failed = answer.get("FailedSOPSequence") if answer is not None else None
        if failed:
            code = int(failed[0].get("FailureReason", 0))
            raise Refusal(f"{url} rejected {file.name} (reason {code:#06x}); {done} of {len(files)} are stored")
    return len(files)


def _checked(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"the address of a DICOMweb server must begin with https:// or http://, not {url!r}")
    return url


def _client(url: str, sign_in: tuple[str, str] | None) -> Any:
    try:
        from dicomweb_client.api import DICOMwebClient
        from dicomweb_client.session_utils import create_session, create_session_from_user_pass
    except ImportError:
        raise ValueError(MISSING.format("dicomweb-client")) from None
    _checked(url)
    session = create_session_from_user_pass(*sign_in) if sign_in else create_session()
    client = DICOMwebClient(url, session=session)
    client.set_http_retry_params(retry=False)  # files that have arrived are kept, and the command can be repeated
    return client


def _asked(url: str, ask: Callable[..., Any], *args: Any, **options: Any) -> Any:
    from pydicom.errors import InvalidDicomError

    try:
        return ask(*args, **options)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, EOFError, InvalidDicomError):
        raise NoDicomWeb(NO_DICOMWEB.format(url)) from None  # errors of the client for an invalid answer
    except OSError as error:  # all errors of requests are OSErrors
        response: Any = getattr(error, "response", None)
        if response is not None:
            raise Refusal(f"{url} answers {response.status_code} {response.reason}") from None
        raise Refusal(f"{url} cannot be reached ({type(error).__name__})") from None
