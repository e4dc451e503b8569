"""The DICOM node: a whole image comes in once; who is not named, and what is no image, is refused with a sentence."""

import io
import socket
import time
from unittest.mock import Mock

import numpy as np
import pydicom
import pytest
from pynetdicom import AE
from pynetdicom.dimse_messages import C_STORE_RQ
from pynetdicom.dimse_primitives import C_STORE
from pynetdicom.dsutils import encode
from pynetdicom.sop_class import CTImageStorage, Verification

from core.studio.db import audit
from core.studio.incoming import dicom_node
from core.studio.incoming.dicom_node import Node, Peer, as_file, place
from core.studio.ingest import decode
from core.studio.ingest.unreadable import Unreadable
from tests.conftest import at_once, wait
from tests.studio.incoming.conftest import look, run_jobs, states
from tests.studio.ingest.dicoms import write_dicom

HERE = Peer.of("SCANNER@127.0.0.0/8")


@pytest.fixture
def node(watched):
    """An open node of the watched study; `lines`: what it said."""
    store, study, _ = watched
    lines = []
    with Node(store, study, "PMSACL", [HERE], port=0, say=lines.append) as opened:
        opened.lines = lines
        yield opened


def image(tmp_path, seed=0, **extra):
    pixels = np.random.default_rng(seed).integers(0, 3000, (24, 32), np.uint16)
    return pydicom.dcmread(write_dicom(tmp_path / f"{seed}.dcm", pixels, PatientID="7", **extra))


def associated(node, title="SCANNER", called="PMSACL"):
    ae = AE(title)
    ae.add_requested_context(Verification)
    ae.add_requested_context(CTImageStorage)
    ae.acse_timeout = ae.dimse_timeout = ae.network_timeout = 20
    return ae.associate("127.0.0.1", node.port, ae_title=called)


@pytest.mark.slow
def test_what_is_sent_comes_into_the_study_once(node, watched, clock, tmp_path):
    store, study, folder = watched
    association, sent = associated(node), [image(tmp_path, seed) for seed in (1, 2)]
    assert association.send_c_echo().Status == 0
    assert [association.send_c_store(ds).Status for ds in (*sent, sent[0])] == [0, 0, 0]
    association.release()
    assert sorted(f.name for f in folder.iterdir()) == sorted(f"{ds.SOPInstanceUID}.dcm" for ds in sent)
    wait(lambda: node.lines)
    assert node.lines == ["SCANNER: 2 stored, 1 already present, 0 refused"]
    [event] = [e for e in audit.trail(store, study) if e["kind"] == "received"]
    assert (event["who"], event["after"]) == ("DICOM SCANNER", {"stored": 2, "again": 1, "refused": 0})
    look(store, clock)
    run_jobs(store)
    assert set(states(store).values()) == {"taken"}
    assert store.one("SELECT count(*) AS n FROM cases WHERE label = 'unknown'")["n"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("title, called", [("STRANGER", "PMSACL"), ("SCANNER", "OTHER")])
def test_a_foreign_title_is_refused(node, title, called):
    association = associated(node, title, called)
    assert association.is_rejected and not association.is_established
    if title == "STRANGER":
        assert node.lines == ["Refused 'STRANGER' from 127.0.0.1: not an allowed sender"]


@pytest.mark.slow
def test_a_foreign_address_is_refused(watched):
    store, study, _ = watched
    lines = []
    with Node(store, study, "PMSACL", [Peer.of("SCANNER@192.0.2.0/24")], port=0, say=lines.append) as node:
        assert not associated(node).is_established
    assert lines == ["Refused a connection from 127.0.0.1: no sender has this address"]


@pytest.mark.slow
def test_what_is_no_whole_image_is_refused_and_nothing_of_it_stays(node, watched, tmp_path):
    _, _, folder = watched
    association, whole = associated(node), image(tmp_path, 3)
    cut, report = image(tmp_path, 4), image(tmp_path, 5)
    cut.PixelData = cut.PixelData[:200]
    del report.PixelData, report.Rows, report.Columns
    answers = [association.send_c_store(ds) for ds in (cut, report, whole)]
    association.release()
    assert [a.Status for a in answers] == [0xC000, 0xC000, 0]
    assert "cut short" in answers[0].ErrorComment
    assert answers[1].ErrorComment == "Refused: a DICOM file without pixels (no rows and columns)"
    assert [f.name for f in folder.iterdir()] == [f"{whole.SOPInstanceUID}.dcm"]


def test_thirty_senders_at_once_find_eight_places(node):
    waiting = [Mock() for _ in range(30)]
    taken = at_once(lambda i: node._claim(waiting[i]), 30)
    assert sum(taken) == dicom_node.MOST_ASSOCIATIONS
    for one in waiting:
        one.is_alive.return_value = False
    assert node._claim(Mock())


@pytest.mark.slow
def test_thirty_associations_at_once_are_eight(node):
    found = at_once(lambda _: associated(node), 30)
    held = [a for a in found if a.is_established]
    assert 0 < len(held) <= dicom_node.MOST_ASSOCIATIONS
    for association in held:
        association.release()
    wait(lambda: associated(node).is_established, what="a free place")


def test_one_object_without_end_ends_the_connection(node, watched, tmp_path, monkeypatch):
    monkeypatch.setattr(dicom_node, "LARGEST", 1000)
    association = associated(node)
    assert "Status" not in association.send_c_store(image(tmp_path, 6))
    wait(lambda: any("the limit is" in line for line in node.lines))
    assert not list(watched[2].iterdir())


def test_files_that_are_placed(tmp_path):
    (folder := tmp_path / "in").mkdir()
    first = image(tmp_path, 7)
    assert place(folder, as_file(first)) and not place(folder, as_file(first))
    other = image(tmp_path, 8)
    other.SOPInstanceUID = first.SOPInstanceUID  # another image of the same name: both are kept
    assert place(folder, as_file(other)) and not place(folder, as_file(other))
    assert len(list(folder.iterdir())) == 2
    nameless = image(tmp_path, 9)
    nameless.SOPInstanceUID = "../../up"
    out = io.BytesIO()
    pydicom.dcmwrite(out, nameless)
    for bad in (b"", b"no DICOM", out.getvalue(), as_file(first)[:400]):
        with pytest.raises(Unreadable):
            place(folder, bad)
    assert len(list(folder.iterdir())) == 2 and len(list(tmp_path.glob("*.dcm"))) == 3


def test_who_may_send_is_named_with_an_address(watched, store):
    assert Peer.of("A@10.0.0.7").is_one("A ", "10.0.0.7") and not Peer.of("A@10.0.0.7").is_one("A", "10.0.0.8")
    for bad in ("A", "@10.0.0.7", "A@somewhere", "A" * 17 + "@10.0.0.7", "A\\B@10.0.0.7"):
        with pytest.raises(ValueError, match="AETITLE@ADDRESS"):
            Peer.of(bad)
    _, study, folder = watched
    with pytest.raises(ValueError, match="no sender is allowed"):
        Node(store, study, "PMSACL", [])
    folder.rmdir()
    with pytest.raises(ValueError, match="no folder is watched"):
        Node(store, study, "PMSACL", [HERE])


@pytest.mark.slow
def test_silent_connections_keep_no_sender_out(node, tmp_path):
    silent = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(30)]
    association = associated(node)
    assert association.is_established and association.send_c_store(image(tmp_path, 1)).Status == 0
    association.release()
    ended = 0
    for each in silent:
        each.settimeout(dicom_node.PATIENCE + 10)
        ended += each.recv(1) == b""
        each.close()
    assert ended == 30, "silent ones are closed"


@pytest.mark.slow
@pytest.mark.parametrize("empty", ["AffectedSOPInstanceUID", "AffectedSOPClassUID"])
def test_a_message_with_an_empty_uid_is_answered(node, watched, tmp_path, empty):
    association, ds = associated(node), image(tmp_path, 1)
    request = C_STORE()
    request.MessageID, request.Priority = 1, 2
    request.AffectedSOPClassUID, request.AffectedSOPInstanceUID = ds.SOPClassUID, ds.SOPInstanceUID
    context = next(c for c in association.accepted_contexts if c.abstract_syntax == CTImageStorage)
    request.DataSet = io.BytesIO(encode(ds, True, True))
    message = C_STORE_RQ()
    message.primitive_to_message(request)
    setattr(message.command_set, empty, "")
    association._reactor_checkpoint.clear()  # as `send_c_store` does: the answer is read here
    wait(lambda: association._is_paused)
    for data in message.encode_msg(context.context_id, 16382):
        association.dul.send_pdu(data)
    _, answer = association.dimse.get_msg(block=True)
    association._reactor_checkpoint.set()
    assert answer is not None and answer.Status == dicom_node.NOT_UNDERSTOOD
    assert association.send_c_store(ds).Status == 0, "the association goes on"
    association.release()


@pytest.mark.slow
def test_large_images_are_decoded_one_after_the_other(node, tmp_path, monkeypatch):
    at_work, most, shown = [], [], decode.dicom_pixels.read_display

    def counted(*given):
        at_work.append(1)
        most.append(len(at_work))
        time.sleep(0.05)  # long enough for others to begin beside it
        try:
            return shown(*given)
        finally:
            at_work.pop()

    monkeypatch.setattr(decode, "DECODING", decode.Budget(24 * 32, small=0))
    monkeypatch.setattr(decode.dicom_pixels, "read_display", counted)

    def send(i: int) -> int:
        association = associated(node)
        status = association.send_c_store(image(tmp_path, i)).Status
        association.release()
        return status

    assert at_once(send, 6) == [0] * 6
    assert max(most) == 1, f"{max(most)} at once"
