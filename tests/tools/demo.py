"""Makes the ready demo study anew: `python -m tests.tools.demo` (some fifteen minutes on two cores).

Frames are drawn from a seed by our own painter, with lesions that are plain to see: `is_plain` is a rule on the drawn
lesion alone, whatever a detector says of it. A first look scores them and an encoder is trained; five lesions are
marked by their drawn outline, as a reader would, and a detector learns from these. Weights stay out of the bundle:
those of the first look are made again where it is opened, and training is done there by whoever wants it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import cv2
import numpy as np

from core.engine.objectives.presets import PRETRAIN_DEFAULT, PRETRAIN_PRESETS
from core.engine.phantom.frame import Case
from core.studio.bundle import export_bundle
from core.studio.db import opening
from core.studio.db.home import Home
from core.studio.db.store import Store
from core.studio.demo import study as demo
from core.studio.ingest.masks import decode_mask
from core.studio.ingest.studies import import_study
from core.studio.jobs import queue as jobs
from core.studio.jobs import worker
from core.studio.review import decisions, masks
from core.studio.review.context import RequestContext
from core.studio.runs import learnt, records
from core.studio.runs.look import look
from core.studio.runs.pipeline import chain, create_pretrain
from tests.tools.drawing import FOLDERS, MASKS, frame

COMMAND = "python -m tests.tools.demo"
COUNTS = {"train": 160, "test_normal": 60, "test_abnormal": 40}
SIDE = 224  # pixels: what detectors see
LEAST, CLEAR = 0.05, 20.0  # of the image that lesions cover; grey levels by which they change what they cover
MARKED = 5
STEPS = 160  # of the training
MIXED = 8  # images with pasted lesions on the map, of each class
MOST = 4 << 20  # bytes of the bundle
KEPT = ("history.jsonl",)  # of a run's files: the curves of its training
JPEG = [cv2.IMWRITE_JPEG_QUALITY, 85]


def is_plain(case: Case) -> bool:
    """Tells whether the drawn lesions are plain to see: not small, and unlike the wall that they grow on."""
    if case.mask.mean() < LEAST:
        return False
    return float(np.abs(case.image.astype(float) - case.clean)[case.mask > 0].mean()) >= CLEAR


def drawn(split: str, count: int, seed: int = 0) -> list[Case]:
    """Draws the first frames of a split, of abnormal ones those with plain lesions."""
    cases: list[Case] = []
    number = 0
    while len(cases) < count:
        case = frame(seed, split, number, SIDE)
        number += 1
        if split != "test_abnormal" or is_plain(case):
            cases.append(case)
    return cases


def draw(folder: Path) -> None:
    """Writes the frames as JPEG, and the masks of the lesions as PNG."""
    for split, count in COUNTS.items():
        (folder / FOLDERS[split]).mkdir(parents=True)
        for number, case in enumerate(drawn(split, count)):
            name = f"{split.split('_')[-1]}-{number:03d}"
            cv2.imwrite(str(folder / FOLDERS[split] / f"{name}.jpg"), case.image[..., ::-1], JPEG)
            if split == "test_abnormal":
                (folder / MASKS).mkdir(exist_ok=True)
                cv2.imwrite(str(folder / MASKS / f"{name}.png"), case.mask * 255)


def mark(store: Store, study: str) -> None:
    """Marks MARKED lesions by their drawn outline, evenly spread over the cases, and calls these abnormal."""
    query = "SELECT c.id, m.png FROM cases c JOIN lesion_masks m ON m.case_id = c.id WHERE c.study = ? ORDER BY c.id"
    cases = store.query(query, [study])
    for place in np.linspace(0, len(cases) - 1, MARKED).round().astype(int):
        context = RequestContext.read(store, demo.READER, case_id=cases[place]["id"])
        masks.save(context, decode_mask(cases[place]["png"]))
        decisions.decide(context, "abnormal")
        masks.set_finished(context, True)


def train(store: Store, study: str) -> None:
    """Queues a short training of the usual kind, with a map of each epoch."""
    config = PRETRAIN_PRESETS[PRETRAIN_DEFAULT].replace(steps=STEPS)
    encoder = create_pretrain(store, study, config, name="Demo training")
    film = {**demo.film(store, encoder), "points": {"mixed": MIXED}}
    embed = {"step": "embed", "run": encoder, "args": {"config": film}}
    jobs.submit(store, [*chain(encoder, device="cpu"), embed], start=False)


def make(target: Path, work: Path) -> dict:
    """Makes the bundle in a folder for the work; returns what `export_bundle` says of it."""
    study, store = demo.STUDY, opening.open(Home.at(work / "home"))
    draw(work / "frames")
    import_study(store, study, work / "frames", layout="plain")
    fit = look(store, study, "cpu", start=False)["fit"]
    worker.run_queue(store)
    mark(store, study)
    learnt.learn(store, fit, device="cpu", start=False)
    train(store, study)
    worker.run_queue(store)
    shutil.rmtree(store.home.clusters / "features")  # distances on the map are measured again where they are asked for
    for run in records.list_runs(store, study):
        for file in sorted(records.run_folder(store, run["id"]).rglob("*"), reverse=True):
            if file.is_file() and file.name not in KEPT:
                file.unlink()
    done = export_bundle(store, study, target, demo.READER)
    store.close()
    if done["bytes"] > MOST:
        raise SystemExit(f"{target} has {done['bytes']:,} bytes; at most {MOST:,} are shipped")
    return done


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=demo.READY)
    parser.add_argument("--work", type=Path, help="a folder that is kept; else a temporary one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = make(asked.out, asked.work or Path(folder))
    print(f"{done['file']}: {done['bytes'] / 2**20:.1f} MiB, {done['rows']['cases']} cases")
