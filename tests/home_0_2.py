"""A home as version 0.2.0 left it.

Every detector scored, one that learnt from marks, a training stopped after its first step, a preset, a map, a blind
study with an open session.

`unpacked` lays the stored one out anew. It was made by `make`, run with version 0.2.0 (commit 598e4a2) as

    python -c "import home_0_2; home_0_2.make('/data/studio-0.2')"     # with this file beside that version's tests/

and packed with `tar c home images facts.json | xz -9e`. A later version cannot make it again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKED = Path(__file__).parent / "data" / "home_0_2.tar.xz"
MADE_AT = "/data/studio-0.2"  # the folder that stands in its paths


@dataclass(frozen=True)
class Old:
    """home: its folder; facts: ids of its studies and runs, and what version 0.2.0 computed with them."""

    home: Path
    facts: dict[str, Any]


def unpacked(folder: Path) -> Old:
    """Lay the home out below `folder`, its paths changed to lead there."""
    with tarfile.open(PACKED) as packed:
        packed.extractall(folder, filter="data")
    database = sqlite3.connect(folder / "home" / "studio.sqlite")
    with database:
        for table, column in (("studies", "folder"), ("cases", "path")):
            database.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", [MADE_AT, str(folder)])
    database.close()
    return Old(folder / "home", json.loads((folder / "facts.json").read_text()))


SMALL = {"steps": 2, "batch": 4, "width": 8, "latent": 8}
HEAD = {"steps": 2, "batch": 4, "width": 8, "mode": "frozen"}
PADIM = {"channels": 8}
NEAREST = {"patches": 20, "pool": 60}
MAHALANOBIS = {"strides": (8, 16), "map_strides": (16,)}
BLEND = {
    "padim": {**PADIM, "strides": (8, 16)},
    "fine": NEAREST,
    "coarse": {**NEAREST, "strides": (16, 32)},
    "pooled": MAHALANOBIS,
}
DETECTORS = {
    **dict.fromkeys(("adgan", "cutpaste", "dae", "f-anogan", "ms-ssim-ae", "ocgan", "reconstruction"), SMALL),
    "panda": {"steps": 2, "batch": 4},
    "padim": PADIM,
    "nearest": NEAREST,
    "mahalanobis": MAHALANOBIS,
    "igd": {"max_steps": 2, "batch": 4, "latent": 8, "width": 8, "critic_width": 8},
    "lesion-head": HEAD,
    "blend": BLEND,
    "combined": {"head": HEAD, "padim": PADIM},
    "ensemble": {"head": HEAD, "members": 2},
    "blend-head": {"blend": BLEND, "head": {**HEAD, "distances": True}, "side": 32},
}


def make(target: str) -> None:
    """Make the home, its images and facts.json below `target`; version 0.2.0 alone has what this calls."""
    import numpy as np
    import torch
    from safetensors.torch import load_file

    import core.engine.backbones.encoder as encoders
    from core.engine.objectives.config import PretrainConfig
    from core.engine.progress import Stopped
    from core.studio.clusters import library
    from core.studio.clusters.config import MapConfig
    from core.studio.db import opening
    from core.studio.db.home import Home
    from core.studio.ingest.studies import import_study
    from core.studio.jobs import queue, worker
    from core.studio.medmix import presets
    from core.studio.review import decisions, masks, sessions
    from core.studio.runs import learnt, pipeline, records
    from core.studio.runs.readings import read_scores
    from tests.conftest import ARCH, picture, write

    def images(root: Path, seed: int) -> Path:
        for i in range(24):
            write(root / "train/normal" / f"n{i:02d}.png", picture(seed + i, (32, 32))[0])
        for i in range(3):
            write(root / "test/normal" / f"t{i:02d}.png", picture(seed + 100 + i, (32, 32))[0])
        for i in range(5):
            image, mask = picture(seed + 200 + i, (48, 48), blob=True)
            write(root / "test/abnormal" / f"a{i:02d}.png", image)
            write(root / "test/mask" / f"a{i:02d}.png", mask * 255)
        return root

    build = encoders.build_encoder

    def coarse(config, *args, **options):
        encoder = build(config, *args, **options)
        with torch.no_grad():
            for weight in encoder.parameters():
                weight.copy_((weight * 32).round() / 32)  # the file packs to a quarter
        return encoder

    queue.ensure_worker = lambda store: []
    out = Path(target)
    store = opening.open(Home.at(out / "home"))
    study = import_study(store, "plain", images(out / "images/plain", 0)).study
    hidden = import_study(store, "blind", images(out / "images/blind", 1000)).study
    encoders.build_encoder = coarse
    encoder = pipeline.create_untrained(store, study, 32, arch=ARCH)
    pipeline.pretrain_run(store, encoder, "cpu")
    fits = {}
    for name, config in DETECTORS.items():
        fits[name] = pipeline.create_fit(store, encoder, name, config, name=f"old {name}")
        pipeline.fit_run(store, fits[name], "cpu")
        pipeline.score_run(store, fits[name], "cpu")
    abnormal = store.query("SELECT * FROM cases WHERE study = ? AND label = 'abnormal' ORDER BY id", [study])
    for case in abnormal[:3]:
        mask = np.zeros((case["height"], case["width"]), np.uint8)
        mask[10:20, 10:20] = 1
        masks.save(store, case["id"], mask, "ann", source="hand", run=None)
        decisions.decide(store, case["id"], "ann", "abnormal")
    marked = learnt.learn(store, fits["padim"], device="cpu", start=False)["run"]
    blind_encoder = pipeline.create_untrained(store, hidden, 32, arch=ARCH)
    pipeline.pretrain_run(store, blind_encoder, "cpu")
    blind_fit = pipeline.create_fit(store, blind_encoder, "padim", PADIM, name="blind padim")
    pipeline.fit_run(store, blind_fit, "cpu")
    pipeline.score_run(store, blind_fit, "cpu")
    sessions.set_blind(store, hidden, True, "reader")
    ids = [row["id"] for row in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [hidden])]
    decisions.decide(store, ids[0], "bob", "normal")
    session = sessions.start_session(store, hidden, "eve", ids)
    decisions.decide(store, ids[1], "eve", "abnormal")
    presets.save_preset(store, "mine", "medmix", {"k": 2}, note="kept by version 0.2", reader="ann")
    drawn = library.request(store, encoder, MapConfig(method="pca", feature="backbone"))
    worker.run_queue(store)
    encoders.build_encoder = build
    config = {"size": 32, "epochs": 3, "batch": 4, "encoder": {"arch": ARCH, "init": "random"}}
    paused = pipeline.create_pretrain(store, study, PretrainConfig.from_dict(config), name="paused")
    asked = iter([False] * 6)
    with contextlib.suppress(Stopped):
        pipeline.pretrain_run(store, paused, "cpu", should_stop=lambda: next(asked, True))
    cases = [row["id"] for row in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test'", [study])]
    scored = {**fits, "marked": marked}
    scores = {name: read_scores(store, run, np.array(cases), True).tolist() for name, run in scored.items()}
    store.close()
    shutil.copytree(out / "home", out / "copy")
    copy = opening.open(Home.at(out / "copy"))
    pipeline.pretrain_run(copy, paused, "cpu")
    final = load_file(records.run_folder(copy, paused) / "encoder.safetensors")
    copy.close()
    shutil.rmtree(out / "copy")
    facts = {
        "study": study, "blind": hidden, "encoder": encoder, "fits": fits, "marked": marked, "blind_fit": blind_fit,
        "paused": paused, "map": drawn["key"], "session": session, "cases": cases, "scores": scores,
        "resumed": {key: float(v.double().abs().sum()) for key, v in sorted(final.items()) if key.endswith("weight")},
    }  # fmt: skip
    (out / "facts.json").write_text(json.dumps(facts, indent=1))
