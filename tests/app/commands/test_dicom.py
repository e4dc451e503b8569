"""`dicom` against a server that anyone can start, Debian's orthanc with orthanc-dicomweb: in by C-STORE and by
DICOMweb, out by STOW, twice. Judged by dciodvfy; what a viewer would show is rendered by pydicom."""

import hashlib
import io
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path

import cv2
import httpx
import numpy as np
import pydicom
import pytest
from pydicom.pixels import apply_rescale, apply_windowing
from pydicom.uid import generate_uid

from app.commands import main
from core.studio.incoming import watch
from core.studio.incoming.dicom_node import Node, Peer, as_file
from core.studio.incoming.dicomweb import Refusal, fetch, send
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.review import decisions
from core.studio.runs import learnt, weights
from core.studio.runs import records as runs
from tests.conftest import picture, quick_lessons, scored_padim, wait
from tests.studio.review.conftest import asks, decide, save_mask
from tests.studio.review.exports.test_dicom_reports import errors_of
from tests.studio.review.exports.test_dicom_seg import ct

PLUGINS = Path("/usr/share/orthanc/plugins")
COUNT = 50


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def orthanc(tmp_path):
    """start(port of our node) -> Orthanc's REST client; skips where Debian's packages are not installed."""
    if shutil.which("Orthanc") is None or not list(PLUGINS.glob("libOrthancDicomWeb*")):
        pytest.skip("there is no Orthanc: apt install orthanc orthanc-dicomweb")
    started = []

    def start(node: int) -> httpx.Client:
        folder, port = tmp_path / "orthanc", free_port()
        folder.mkdir()
        settings = {
            "StorageDirectory": str(folder), "IndexDirectory": str(folder), "HttpPort": port, "DicomPort": free_port(),
            "RemoteAccessAllowed": False, "AuthenticationEnabled": False, "Plugins": [str(PLUGINS)],
            "DicomAet": "ORTHANC",
            "DicomWeb": {"Enable": True, "Root": "/dicom-web/"},
            "DicomModalities": {"studio": ["PMSACL", "127.0.0.1", node]},
        }  # fmt: skip
        (folder / "orthanc.json").write_text(json.dumps(settings))
        log = (folder / "log").open("w")
        started.append(subprocess.Popen(["Orthanc", str(folder / "orthanc.json")], stdout=log, stderr=log))
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False)

        def up() -> bool:
            try:
                return client.get("/dicom-web/studies").status_code == 200
            except httpx.TransportError:
                return False

        wait(up)
        return client

    yield start
    for process in started:
        process.terminate()
        process.wait(30)


def image(seed: int, folder: Path) -> pydicom.Dataset:
    """A slice of its own that shows what the study's images show."""
    ds = ct(folder / "one.dcm")
    ds.PatientID, ds.PatientName = f"P{seed:03}", f"Doe^Jane{seed}"
    ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    pixels = cv2.resize(picture(5000 + seed, blob=seed % 5 == 0)[0].mean(2), (40, 48)).astype("<i2") * 8
    ds.PixelData, ds.RescaleIntercept = pixels.tobytes(), "0"
    return ds


def held_by(client: httpx.Client) -> dict[str, dict[str, bytes]]:
    """Name of a class -> SOP instance UID -> file, of all that the server holds."""
    found: dict[str, dict[str, bytes]] = {}
    for one in client.get("/instances").json():
        file = client.get(f"/instances/{one}/file").content
        ds = pydicom.dcmread(io.BytesIO(file), stop_before_pixels=True)
        found.setdefault(ds.SOPClassUID.name, {})[str(ds.SOPInstanceUID)] = file
    return found


def overlaid(source: pydicom.Dataset, made: pydicom.Dataset) -> np.ndarray:
    """uint8 (H, W, 3): a segmentation or a map in red over its image, by the window that each file names, as a viewer
    shows it; by pydicom alone."""
    image = apply_windowing(apply_rescale(source.pixel_array, source), source)
    grey = cv2.normalize(image.astype(np.float32), None, 0, 255, cv2.NORM_MINMAX).astype(np.uint8)
    over = made.pixel_array.reshape(-1, *made.pixel_array.shape[-2:]).max(0).astype(np.float32)
    if made.Modality == "SEG":
        assert over.sum() == 100 and over[10:20, 5:15].all()
    else:
        look = made.SharedFunctionalGroupsSequence[0].FrameVOILUTSequence[0]
        low = float(look.WindowCenter) - float(look.WindowWidth) / 2
        over = np.clip((over - low) / float(look.WindowWidth), 0, 1)
        value = made.SharedFunctionalGroupsSequence[0].RealWorldValueMappingSequence[0]
        assert float(value.RealWorldValueSlope) > 0 and made.pixel_array.max() > made.pixel_array.min()
    assert over.shape == grey.shape == (48, 40)
    shown = np.repeat(grey[..., None], 3, 2)
    shown[..., 2] = np.maximum(shown[..., 2], (over * 255).astype(np.uint8))
    return shown


@pytest.mark.longest
def test_in_from_orthanc_read_decided_and_back(store, tiny_study, tmp_path, orthanc, monkeypatch, capsys):
    monkeypatch.setattr(jobs, "ensure_worker", lambda store: None)
    (folder := tmp_path / "drop").mkdir()
    watch.set_watch(store, tiny_study, str(folder), "root")
    _, run = scored_padim(store, tiny_study)
    lines = []
    with Node(store, tiny_study, "PMSACL", [Peer.of("ORTHANC@127.0.0.1")], port=0, say=lines.append) as node:
        client = orthanc(node.port)
        url, sent = f"{client.base_url}/dicom-web", [image(seed, tmp_path) for seed in range(COUNT)]
        for ds in sent:
            assert client.post("/instances", content=as_file(ds)).status_code == 200
        began = time.monotonic()
        everything = client.get("/instances").json()
        answer = client.post("/modalities/studio/store", json=everything)
        assert answer.status_code == 200, answer.text
        seconds = time.monotonic() - began
        wait(lambda: lines)
    assert lines == [f"ORTHANC: {COUNT} stored, 0 already present, 0 refused"]
    at = [1000.0]
    watch.look(store, lambda: at[0])
    at[0] += watch.SETTLE
    watch.look(store, lambda: at[0])
    worker.run_queue(store)
    cases = store.query("SELECT * FROM cases WHERE modality = 'CT' ORDER BY id")
    assert len(cases) == COUNT
    scored = (
        "SELECT count(*) AS n FROM readings r JOIN cases c ON c.id = r.case_id AND c.modality = 'CT' WHERE r.run = ?"
    )
    assert store.one(scored, [run])["n"] == COUNT

    (web := tmp_path / "web").mkdir()  # the same images by DICOMweb are the same cases
    watch.set_watch(store, tiny_study, str(folder), "root")
    done = fetch(store, tiny_study, url, "root", {"Modality": "CT"})
    assert done == {"fetched": 0, "again": COUNT, "refused": []}
    watch.set_watch(store, tiny_study, str(web), "root")
    done = fetch(store, tiny_study, url, "root", {"PatientID": "P007"})
    assert done["fetched"] == 1 and len(list(web.iterdir())) == 1

    for case in cases[:10]:
        decide(store, case["id"], "ann", "abnormal" if case["id"] % 2 else "normal", run=run, comment="seen")
        mask = np.zeros((case["height"], case["width"]), np.uint8)
        mask[10:20, 5:15] = 1
        save_mask(store, case["id"], mask, "ann")
        decisions.add_finding(asks(store, "ann", case_id=case["id"]), "lesion", "", 1, (5, 10, 15, 20))
    monkeypatch.setattr(learnt, "LearntConfig", quick_lessons)
    taught = learnt.learn(store, run, device="cpu", start=False)["run"]  # on from what was decided and marked
    worker.run_queue(store)
    assert runs.get_run(store, taught)["status"] == "done" and store.one(scored, [taught])["n"] == COUNT
    order = ["dicom", "send", tiny_study, url, "--home", str(store.home.path), "--names", "--json", "--run", taught]
    began = time.monotonic()
    assert main(order) == 0
    stored = time.monotonic() - began
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["sent"] == {"seg": 10, "map": COUNT, "sr": COUNT + 10}
    first = held_by(client)
    back = {name: files for name, files in first.items() if name != "CT Image Storage"}
    assert {name: len(files) for name, files in back.items()} == {
        "Segmentation Storage": 10, "Parametric Map Storage": COUNT, "Comprehensive SR Storage": COUNT + 10,
    }  # fmt: skip
    originals = {str(ds.SOPInstanceUID): ds for ds in sent}
    digest, out, wrong, rendered = weights.digest(runs.run_folder(store, taught)), tmp_path / "judged.dcm", {}, []
    for uid, file in ((uid, file) for files in back.values() for uid, file in files.items()):
        out.write_bytes(file)
        if errors := errors_of(out) if shutil.which("dciodvfy") else []:
            wrong[uid] = errors
        made = pydicom.dcmread(out)
        if made.Modality == "SR":
            [of] = [item for item in made.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence]
            assert str(of.ReferencedSOPSequence[0].ReferencedSOPInstanceUID) in originals
            assert made.DeviceSerialNumber in (digest, weights.digest(runs.run_folder(store, run)))
        else:
            source = originals[
                str(made.ReferencedSeriesSequence[0].ReferencedInstanceSequence[0].ReferencedSOPInstanceUID)
            ]
            rendered.append(overlaid(source, made))
            assert made.DeviceSerialNumber == (digest if made.Modality != "SEG" else "none")
        assert str(made.StudyInstanceUID) in {str(ds.StudyInstanceUID) for ds in sent}
    assert wrong == {}
    assert len(rendered) == COUNT + 10 and min(shown.std() for shown in rendered) > 0
    cv2.imwrite(str(tmp_path / "viewer.png"), np.concatenate(rendered[:10] + rendered[-10:], 1))
    before = {uid: hashlib.sha256(file).hexdigest() for files in first.values() for uid, file in files.items()}
    assert main(order) == 0  # again: the same UIDs and digests, and the server holds no more
    again = {uid: hashlib.sha256(file).hexdigest() for files in held_by(client).values() for uid, file in files.items()}
    assert again == before and len(again) == COUNT + COUNT + 10 + COUNT + 10
    with pytest.raises(Refusal, match="answers 404"):
        fetch(store, tiny_study, f"{client.base_url}/nowhere", "root", {})
    with capsys.disabled():
        count = sum(map(len, back.values()))
        print(f" {COUNT} images by C-STORE in {seconds:.1f} s, {count} files by STOW in {stored:.1f} s")


def test_a_server_that_is_not_there_and_words_that_are_not_known(store, tiny_study, tmp_path, capsys):
    with pytest.raises(ValueError, match="no folder is watched"):
        fetch(store, tiny_study, "https://127.0.0.1/dicom-web", "root", {})
    (tmp_path / "drop").mkdir()
    watch.set_watch(store, tiny_study, str(tmp_path / "drop"), "root")
    with pytest.raises(Refusal, match="cannot be reached"):
        fetch(store, tiny_study, f"http://127.0.0.1:{free_port()}/dicom-web", "root", {})
    with pytest.raises(ValueError, match="must begin with https://"):
        send([], "ftp://x")
    home = ["--home", str(store.home.path)]
    assert main(["dicom", "send", tiny_study, "https://127.0.0.1", "--kinds", "seg,x", *home]) == 2
    assert main(["dicom", "serve", tiny_study, *home]) == 2 and "no sender is allowed" in capsys.readouterr().err
    assert main(["dicom", "fetch", tiny_study, "https://127.0.0.1", "--user", "ann", *home]) == 2
    assert "PMSACL_DICOMWEB_PASSWORD" in capsys.readouterr().err
