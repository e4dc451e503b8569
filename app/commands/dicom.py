"""DICOM in and out over the network: dicom serve|fetch|send. Nothing listens or asks unless one of these runs."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from app.commands._common import BY, UserError, finish, open_store, progress, say, verb

KINDS = ("seg", "map", "sr")
PASSWORD = "PMSACL_DICOMWEB_PASSWORD"


def add(subparsers) -> None:
    title = "DICOM over the network: take images in, send masks, heat maps and reports"
    parser = subparsers.add_parser("dicom", help=title, description=title)
    inner = parser.add_subparsers(dest="what", metavar="serve|fetch|send", required=True)
    serve = verb(inner, "serve", "Listen as a DICOM node and take what is sent into a watched study", run_serve)
    serve.add_argument("study")
    serve.add_argument("--allow", action="append", default=[], metavar="AET@ADDRESS", help="who may send; repeat it")
    serve.add_argument("--aet", default="PMSACL", help="the AE title that senders call")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    serve.add_argument("--port", type=int, default=11112)
    serve = verb(inner, "fetch", "Ask a DICOMweb server for images and put them into a watched study", run_fetch)
    _add_server(serve)
    for flag, keyword in FILTERS.items():
        serve.add_argument(f"--{flag}", metavar="TEXT", help=f"{keyword}, as QIDO takes it")
    serve.add_argument("--limit", type=int, metavar="N", help="fetch at most N new images")
    serve = verb(inner, "send", "Store masks, heat maps and reports of a study on a DICOMweb server", run_send)
    _add_server(serve)
    serve.add_argument("--kinds", default=",".join(KINDS), help="of seg, map and sr")
    serve.add_argument("--run", dest="run_id", metavar="RUN", help="of maps and scores; else the one Review opens with")
    serve.add_argument("--names", action="store_true", help="keep names, dates and UIDs, for the images' own PACS")


FILTERS = {"patient": "PatientID", "date": "StudyDate", "modality": "Modality", "study-uid": "StudyInstanceUID",
           "series-uid": "SeriesInstanceUID"}  # fmt: skip


def _add_server(parser) -> None:
    parser.add_argument("study")
    parser.add_argument("url", metavar="URL", help="of the server, as https://HOST/dicom-web")
    parser.add_argument("--user", help=f"sign in by name; the password is read from {PASSWORD}")


def _sign_in(args) -> tuple[str, str] | None:
    if args.user and PASSWORD not in os.environ:
        raise UserError(f"--user needs the password in the variable {PASSWORD}")
    return (args.user, os.environ[PASSWORD]) if args.user else None


def run_serve(args) -> int:
    from core.studio.incoming.dicom_node import Node, Peer
    from core.studio.incoming.watch import Lookout
    from core.studio.jobs import queue as jobs

    store, peers = open_store(args), [Peer.of(text) for text in args.allow]
    with Node(store, args.study, args.aet, peers, args.host, args.port, lambda line: say(args, line)) as node:
        say(args, f"Listening as {args.aet} on {args.host}, port {node.port}; press Ctrl-C to end it")
        with Lookout(store):
            while True:
                time.sleep(1)
                jobs.reap(store)


def run_fetch(args) -> int:
    from core.studio.incoming.dicomweb import fetch

    store = open_store(args)
    given = {keyword: getattr(args, flag.replace("-", "_")) for flag, keyword in FILTERS.items()}
    filters = {keyword: value for keyword, value in given.items() if value}
    with progress(args, f"Fetching from {args.url}") as show:
        done = fetch(store, args.study, args.url, BY, filters, _sign_in(args), args.limit, show)
    for refused in done["refused"]:
        say(args, f"  left out {refused['uid']}: {refused['reason']}")
    words = f"{done['fetched']} images fetched, {done['again']} were there; the app or `watch --once` takes them in"
    return finish(args, {"study": args.study, **done}, words)


def run_send(args) -> int:
    from core.studio.incoming.dicomweb import send
    from core.studio.ingest.studies import show_study
    from core.studio.review.exports.dicom_reports import export_dicom_map, export_dicom_sr
    from core.studio.review.exports.dicom_seg import export_dicom_seg

    store, kinds = open_store(args), args.kinds.split(",")
    if set(kinds) - set(KINDS):
        raise UserError(f"--kinds takes some of {','.join(KINDS)}, not {args.kinds!r}")
    study, sent = show_study(store, args.study)["id"], {}
    for kind in kinds:
        with tempfile.TemporaryDirectory(dir=store.home.cache) as folder:
            if kind == "seg":
                done = export_dicom_seg(store, study, Path(folder), BY, args.names)
            else:
                act = export_dicom_map if kind == "map" else export_dicom_sr
                done = act(store, study, Path(folder), BY, args.names, args.run_id)
            if done["burned_in"]["cases"]:
                say(args, f"{len(done['burned_in']['cases'])} of the images may carry burned-in text")
            with progress(args, f"Sending {kind}") as show:
                sent[kind] = send(sorted(Path(folder).iterdir()), args.url, _sign_in(args), show)
    words = ", ".join(f"{n} {kind}" for kind, n in sent.items())
    return finish(args, {"study": study, "sent": sent}, f"Stored on {args.url}: {words}")
