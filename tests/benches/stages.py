"""Whole verbs on one set of real images, as a user runs them: seconds and memory by stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2

from core.studio.programs.studio import Studio
from core.studio.training.estimate import first_look
from tests.benches import ROOT, bench
from tests.benches._server import memory_mb

STUDY, READER, MARKS = "stages", "reader", 5


@bench("stages")
def stages(quick: bool = False, device: str = "auto", data: str = "", only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Import, first look, pre-training, fit and score, evaluation and learning from five marks, each verb by itself.

    --data FOLDER: a set as `study import` reads it, with masks in test/mask. --only: some of these stages; what they
    need comes with them. Each verb is a process, and its start counts.

    "stages": {stage: {"seconds" by the clock, "cpu_seconds" of all processes that work on the home, "peak_mib" of the
    largest of them}}, in their order, on Linux; of the look also "promised_seconds", as the page says before it; of
    learning "first_seconds", until there is a first result, before the encoder is fine-tuned. "load": what else the
    machine did at the start and at the end.
    """
    if not data:
        raise ValueError("the stages are measured on real images: give --data FOLDER")
    at_start, found = os.getloadavg()[0], {}
    with tempfile.TemporaryDirectory(prefix="pmsacl-stages-") as name:

        def verb(stage: str, *words: str) -> str:
            """Runs a verb and measures it; returns the run that it made, if any."""
            line = [sys.executable, "launch.py", *words, "--home", name, "--device", device, "--json"]
            while _used(name):  # the worker of the stage before ends: it is not of this one
                time.sleep(0.05)
            began, used = time.perf_counter(), {}
            with tempfile.TemporaryFile("w+") as said:  # a pipe that nobody reads would stop it
                process = subprocess.Popen(line, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT)
                while process.poll() is None:
                    used |= _used(name)
                    time.sleep(0.1)
                said.seek(0)
                output = said.read()
            if process.returncode:
                raise RuntimeError(f"{stage} failed: {output.strip()[-500:]}")
            found[stage] = {
                "seconds": round(time.perf_counter() - began, 1),
                "cpu_seconds": round(sum(busy for busy, _ in used.values()), 1),
                "peak_mib": round(max(peak for _, peak in used.values())),
            }
            print(f"{stage}: {found[stage]}", flush=True)
            answer = next(line for line in reversed(output.splitlines()) if line.startswith("{"))
            return str(json.loads(answer).get("run", ""))

        verb("import", "study", "import", STUDY, str(Path(data).absolute()))
        if not only or "look" in only:
            with Studio(name) as studio:
                promised = first_look(studio.store, STUDY)
            verb("look", "look", STUDY)
            found["look"]["promised_seconds"] = promised
        if not only or set(only) & {"pretrain", "fit and score", "evaluate", "learn"}:
            encoder = verb("pretrain", "pretrain", STUDY, *(("--set", "steps=4") if quick else ()))
            fit = verb("fit and score", "fit", encoder, "--score", *(("--detector", "padim") if quick else ()))
            verb("evaluate", "evaluate", fit)
            if not only or "learn" in only:
                _mark(Path(name), Path(data))
                began = time.time()
                verb("learn", "learn", fit)
                found["learn"]["first_seconds"] = round(_compared(Path(name)) - began, 1)
    return {"set": Path(data).name, "load": [at_start, os.getloadavg()[0]], "stages": found}


def _compared(home: Path) -> float:
    """Returns the time at which the first run that learnt was compared with the run before."""
    studio = Studio(home)
    query = (
        "SELECT min(t.began + t.seconds) FROM step_times t JOIN jobs j ON j.id = t.job "
        "WHERE json_extract(j.chain, '$[' || t.position || '].step') = 'compare'"
    )
    ((ended,),) = studio.store.db.execute(query).fetchall()
    studio.close()
    return float(ended)


def _used(home: str) -> dict[str, tuple[float, float]]:
    """Reads of each process that works on a home its processor seconds so far and its largest memory in MiB."""
    used = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if home not in (process / "cmdline").read_text():
                continue
            ticks = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:  # it ended
            continue
        if peak := memory_mb(int(process.name), "VmHWM"):
            used[process.name] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), peak
    return used


def _mark(home: Path, folder: Path) -> None:
    """Marks five abnormal test images with their reference masks, as a reader would."""
    studio = Studio(home)
    query = "SELECT id, path FROM cases WHERE study = ? AND split = 'test' AND label = 'abnormal' ORDER BY id LIMIT ?"
    for row in studio.store.query(query, [STUDY, MARKS]):
        file = next((folder / "test/mask").glob(f"{Path(row['path']).stem}.*"))
        studio.mark(row["id"], cv2.imread(str(file), cv2.IMREAD_GRAYSCALE), READER)
        studio.decide(row["id"], "abnormal", READER)
    studio.close()
