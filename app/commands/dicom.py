"""Verbs for DICOM over the network: dicom serve|fetch|send|server."""

from __future__ import annotations

import time

from app.commands._common import BY, UserError, arg, finish, open_store, progress, say, verb, verb_group
from core.studio.incoming import KINDS, PASSWORD

FILTERS = {"patient": "PatientID", "date": "StudyDate", "modality": "Modality", "study-uid": "StudyInstanceUID",
           "series-uid": "SeriesInstanceUID"}  # fmt: skip
SERVER = (
    arg("study"),
    arg("url", metavar="URL", help="URL, such as https://HOST/dicom-web; `dicom send` also takes the server's name"),
    arg("--user", help=f"user name; the password is read from {PASSWORD}"),
)

verb_group("dicom", "DICOM over the network: receive images, send masks, heat maps and reports")


@verb(
    "dicom serve",
    arg("study"),
    arg("--allow", action="append", default=[], metavar="AET@ADDRESS", help="sender to allow; can be repeated"),
    arg("--aet", default="PMSACL", help="AE title of this node"),
    arg("--host", default="127.0.0.1", help="address to listen on"),
    arg("--port", type=int, default=11112),
)
def run_serve(args) -> int:
    """Listen as a DICOM node and import received images into a watched study."""
    from core.studio.incoming.dicom_node import Node, Peer
    from core.studio.incoming.watch import Lookout
    from core.studio.jobs import queue as jobs

    store, peers = open_store(args), [Peer.of(text) for text in args.allow]
    with Node(store, args.study, args.aet, peers, args.host, args.port, lambda line: say(args, line)) as node:
        say(args, f"Listening as {args.aet} on {args.host}, port {node.port}; press Ctrl-C to stop")
        with Lookout(store):
            while True:
                time.sleep(1)
                jobs.reap(store)


@verb(
    "dicom fetch",
    *SERVER,
    *(arg(f"--{flag}", metavar="TEXT", help=f"{keyword}, as QIDO takes it") for flag, keyword in FILTERS.items()),
    arg("--limit", type=int, metavar="N", help="fetch at most N new images"),
)
def run_fetch(args) -> int:
    """Fetch images from a DICOMweb server into a watched study."""
    from core.studio.incoming.dicomweb import fetch, sign_in_of

    store = open_store(args)
    options = {keyword: getattr(args, flag.replace("-", "_")) for flag, keyword in FILTERS.items()}
    filters = {keyword: value for keyword, value in options.items() if value}
    with progress(args, f"Fetching from {args.url}") as show:
        result = fetch(store, args.study, args.url, BY, filters, sign_in_of(args.user), args.limit, show)
    for refused in result["refused"]:
        say(args, f"  skipped {refused['uid']}: {refused['reason']}")
    counts = f"{result['fetched']} images fetched, {result['again']} had been fetched before"
    words = f"{counts}; the app or `watch --once` imports them"
    return finish(args, {"study": args.study, **result}, words)


@verb(
    "dicom send",
    *SERVER,
    arg("--kinds", default=",".join(KINDS), help="any of seg, map and sr, separated by commas"),
    arg(
        "--run",
        dest="run_id",
        metavar="RUN",
        help="run whose maps and scores are sent (default: the run that Review opens with)",
    ),
    arg("--names", action="store_true", help="keep names, dates and UIDs, for the images' own PACS"),
)
def run_send(args) -> int:
    """Send a study's masks, heat maps and reports to a DICOMweb server."""
    from core.studio.incoming import dicomweb
    from core.studio.ingest import burned_in
    from core.studio.ingest.studies import show_study

    store, kinds = open_store(args), args.kinds.split(",")
    if set(kinds) - set(KINDS):
        raise UserError(f"--kinds takes some of {','.join(KINDS)}, not {args.kinds!r}")
    study, named = show_study(store, args.study)["id"], dicomweb.servers(store).get(args.url)
    url, user = (str(named["url"]), named["user"]) if named else (args.url, args.user)
    sign_in = dicomweb.sign_in_of(user)
    if marked := burned_in.among(store, study)["cases"]:
        say(args, f"{len(marked)} of the images may carry burned-in text")
    with progress(args, f"Sending to {url}") as show:
        sent = dicomweb.send_study(
            store, study, url, BY, kinds, args.names, args.run_id, sign_in, lambda kind, i, n: show(i, n, kind)
        )
    words = ", ".join(f"{n} {kind}" for kind, n in sent.items())
    return finish(args, {"study": study, "sent": sent}, f"Stored on {url}: {words}")


@verb(
    "dicom server",
    arg("name", nargs="?"),
    arg("url", nargs="?", metavar="URL"),
    arg("--user", help=f"user name; the password is read from {PASSWORD} when images are sent"),
    arg("--remove", action="store_true"),
)
def run_server(args) -> int:
    """List, add or remove the DICOMweb servers to which the page may send."""
    from core.studio.incoming import dicomweb

    store = open_store(args)
    if args.name:
        if (args.url is None) != args.remove:
            raise UserError("give the server's URL, or --remove")
        dicomweb.name_server(store, args.name, args.url, args.user, BY)
    servers = dicomweb.servers(store)
    lines = [f"{name}: {row['url']}" + (f", as {row['user']}" if row["user"] else "") for name, row in servers.items()]
    return finish(args, {"servers": servers}, "\n".join(lines) or "No servers yet; `dicom server NAME URL` adds one")
