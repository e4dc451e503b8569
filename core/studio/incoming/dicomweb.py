"""DICOMweb, both ways and only where a verb names a server: QIDO and WADO into a watched folder, STOW out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pydicom

from core.studio.db import audit
from core.studio.db.store import Store
from core.studio.incoming.dicom_node import MISSING, as_file, folder_of, place
from core.studio.ingest.unreadable import Unreadable

Said = Callable[[int, int], None]


class Refusal(ValueError):
    """What a server does not give or take; the message says which and why."""


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
    """Put the images of each series that fits into the study's watched folder.

    filters: of QIDO by keyword ("PatientID", "StudyDate", "Modality", "StudyInstanceUID", "SeriesInstanceUID").
    limit: at most so many new images. Returns {"fetched", "again": there already, "refused": [{"uid", "reason"}]}.
    Raises Refusal, and keeps what had come, if the server does not answer.
    """
    folder, client = folder_of(store, study), _client(url, sign_in)
    fetched, again, refused = 0, 0, list[dict[str, str]]()
    try:
        wanted = [
            (series["0020000D"]["Value"][0], series["0020000E"]["Value"][0], instance["00080018"]["Value"][0])
            for series in _asked(url, client.search_for_series, search_filters=filters, get_remaining=True)
            for instance in _asked(
                url, client.search_for_instances, series["0020000D"]["Value"][0], series["0020000E"]["Value"][0],
                get_remaining=True,
            )
        ]  # fmt: skip
        for done, uids in enumerate(wanted):
            on_progress(done, len(wanted))
            if limit is not None and fetched >= limit:
                break
            if (folder / f"{pydicom.uid.UID(uids[2])}.dcm").exists():
                again += 1
                continue
            try:
                new = place(folder, as_file(_asked(url, client.retrieve_instance, *uids)))
                fetched, again = fetched + new, again + (not new)
            except Unreadable as error:
                refused.append({"uid": uids[2], "reason": str(error)})
    finally:
        if fetched or refused:
            after = {"stored": fetched, "again": again, "refused": len(refused)}
            audit.record(store, by, "received", study=study, after=after)
    return {"fetched": fetched, "again": again, "refused": refused}


def send(
    files: Iterable[Path],
    url: str,
    sign_in: tuple[str, str] | None = None,
    on_progress: Said = lambda done, total: None,
) -> int:
    """Store files on the server, one by one; returns how many. Raises Refusal at the first that it does not take."""
    client, files = _client(url, sign_in), list(files)
    for done, file in enumerate(files):
        on_progress(done, len(files))
        answer = _asked(url, client.store_instances, [pydicom.dcmread(file)])
        failed = answer.get("FailedSOPSequence") if answer is not None else None
        if failed:
            code = int(failed[0].get("FailureReason", 0))
            raise Refusal(f"{url} did not take {file.name} (reason {code:#06x}); {done} of {len(files)} are there")
    return len(files)


def _client(url: str, sign_in: tuple[str, str] | None) -> Any:
    try:
        from dicomweb_client.api import DICOMwebClient
        from dicomweb_client.session_utils import create_session, create_session_from_user_pass
    except ImportError:
        raise ValueError(MISSING.format("dicomweb-client")) from None
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"the address of a DICOMweb server begins with https:// or http://, not {url!r}")
    session = create_session_from_user_pass(*sign_in) if sign_in else create_session()
    client = DICOMwebClient(url, session=session)
    client.set_http_retry_params(retry=False)  # what had come is kept, and the same command goes on
    return client


def _asked(url: str, ask: Callable[..., Any], *args: Any, **given: Any) -> Any:
    try:
        return ask(*args, **given)
    except OSError as error:  # all that requests raises is one
        said: Any = getattr(error, "response", None)
        if said is not None:
            raise Refusal(f"{url} answers {said.status_code} {said.reason}") from None
        raise Refusal(f"{url} cannot be reached ({type(error).__name__})") from None
