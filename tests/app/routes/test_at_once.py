"""Each pair of requests that a page sends at once, while what both need has to be made first."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from app import routes
from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.incoming import dicomweb
from core.studio.ingest.studies import import_study
from core.studio.jobs.steps import Work, load_step
from core.studio.medmix import match
from core.studio.runs import pipeline
from core.studio.runs import records as runs
from tests.app.routes.clients import client_of
from tests.app.routes.every_route import POINTS, SMALL, encoder_with_fit
from tests.conftest import ARCH, at_once, picture, write
from tests.studio.clusters.conftest import snapshots
from tests.studio.review.conftest import STUDY, decide, draw_folder, room, save_mask  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
TIMES = 3  # how often each of a pair is sent
# What the page's scripts ask for: Review with a case on screen, Study with a study open, Clusters with a map.
REVIEW = (
    "/api/case/{case}/nearest?run={run}", "/api/case/{case}/explain?run={run}", "/api/case/{case}/heat?run={run}",
    "/api/case/{case}/roi.bits?side=256&v=1", "/api/case/{case}/mask.bits?id={mask}&v=1",
    "/api/case/{case}/image.png?v=1", "/api/case/{case}/raw?v=1", "/api/case/{case}/tile.webp?side=64&v=1",
    "/api/case/{case}/pack?run={run}", "/api/case/{case}/thumb.png?size=80&v=1", "/api/review/drafts?study={study}",
    "/api/review/list?study={study}&run={run}", "/api/review/counts?study={study}&run={run}",
    "/api/review/place?study={study}&run={run}&case={case}", "/api/review/case/{case}?study={study}&run={run}",
)  # fmt: skip
STUDY_TAB = (
    "/api/status?study={study}", "/api/study/{study}/overview", "/api/study/{study}/next",
    "/api/study/{study}/sample?count=28&seed=0&part=all", "/api/study/{study}/sample?count=28&seed=1&part=test",
    "/api/study/case/{case}/outlines", "/api/training/runs?study={study}", "/api/manage/{study}",
    "/api/accounts/{study}", "/api/case/{case}/thumb.png?size=80&v=1",
)  # fmt: skip
CLUSTERS = (
    "/api/clusters/runs?study={study}", "/api/clusters/maps?study={study}", "/api/clusters/maps/{map}",
    "/api/clusters/maps/{map}/coords", "/api/clusters/maps/{map}/placed", "/api/clusters/maps/{map}/columns",
    "/api/clusters/maps/{map}/columns?fit={run}", "/api/clusters/maps/{map}/points/1",
    "/api/clusters/maps/{map}/points/1/thumb.png?side=96", "/api/clusters/maps/{map}/points/9/heat.png?fit={run}",
    "/api/clusters/maps/{map}/points/1/neighbours?epoch=-1&k=5",
)  # fmt: skip
MATCHING = (
    "/api/medmix/lesions?study={study}", "/api/medmix/lesions/{case}/patch.png?study={study}", "/api/medmix/presets",
)  # fmt: skip
PAGES = {"review": REVIEW, "study": STUDY_TAB, "clusters": CLUSTERS, "matching": MATCHING}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """(store, client, what stands in the addresses) of a study that is scored and has a map."""
    from core.studio.db import opening

    base = tmp_path_factory.mktemp("pairs")
    store = opening.open(str(base / "home"))
    import_study(store, STUDY, draw_folder(base / "images", 8, 2, 2))
    encoder = pipeline.create_untrained(store, STUDY, 32, arch=ARCH)
    run = pipeline.create_fit(store, encoder, "nearest", {"patches": 200, "pool": 400})
    pipeline.pretrain_run(store, encoder)
    pipeline.fit_run(store, run, "cpu")
    pipeline.score_run(store, run, "cpu")
    store.execute("UPDATE readings SET extra = '{}'")  # so that the nearest images are looked for when asked
    mask = store.first("SELECT id, case_id FROM lesion_masks LIMIT 1")
    points = PointsConfig(train=6, holdout=2, mixed=0, test_normal=2, abnormal=2)
    drawn = MapConfig(method="pca", feature="backbone", points=points).to_dict()
    work = Work(store, encoder, {"config": drawn, "device": "cpu"})
    named = {"case": mask["case_id"], "mask": mask["id"], "run": run, "study": STUDY, "map": load_step("embed")(work)}
    yield store, client_of(store, single_user=True), named
    store.close()


def answer(client, address: str) -> tuple[int, bytes]:
    got = client.get(address, headers={"x-user": "ann"})
    return got.status_code, got.content


def pairs_at_once(home, page: str, rounds: int) -> None:
    store, client, named = home
    addresses = [address.format(**named) for address in PAGES[page]]
    alone = {address: answer(client, address) for address in addresses}
    odd = [address for address, (status, _) in alone.items() if status != 200]
    assert all("/raw?" in address for address in odd), f"{odd} is not answered"  # these images have 8 bits alone
    with ThreadPoolExecutor(2 * TIMES) as pool:
        for _ in range(rounds):
            for pair in itertools.combinations_with_replacement(addresses, 2):
                shutil.rmtree(store.home.cache / STUDY)
                asked = [(address, pool.submit(answer, client, address)) for address in pair * TIMES]
                for address, got in asked:
                    assert got.result() == alone[address], f"{address} beside {pair}"
                (store.home.cache / STUDY).mkdir(exist_ok=True)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_pairs_of_requests_once(home, page):
    pairs_at_once(home, page, 1)


@pytest.mark.longest
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("page", "rounds"), [("review", 9), ("study", 19), ("clusters", 16)])
def test_pairs_of_requests_a_thousand_times(home, page, rounds):
    pairs_at_once(home, page, rounds)


def test_what_the_page_asks_of_a_case_is_listed():
    """An address of a case that a script of Review gets, and that is not in REVIEW, fails here."""
    scripts = "".join(file.read_text("utf-8") for file in (ROOT / "app/widgets/review/js").glob("*.js"))
    named = set(re.findall(r"/api/case/\$\{[\w.]+\}/([a-z]+)", scripts))
    listed = {re.sub(r".*\{case\}/([a-z]+).*", r"\1", address) for address in REVIEW}
    assert named - listed == set(), named - listed


MAPS = "/api/clusters/maps"
CONFIG = {"method": "pca", "feature": "projected", "points": POINTS}
# Their answers name a job that is there; the tour opens the demo as /api/study/demo does.
OTHERS = {
    "/api/tour/reset", "/api/tour/prepare", "/api/reading/agree", "/api/reading/planted",
    "/api/medmix/match/{match_id}/stop",
}  # fmt: skip
CAME = 4  # runs that the demo study brings


def bodies(store, tmp_path) -> dict[str, tuple[str, dict]]:
    """{path of a route that starts a job: (address, body)}."""
    encoder, fit = encoder_with_fit(store)
    for case in store.query("SELECT * FROM cases WHERE study = ? AND label = 'abnormal'", [STUDY]):
        mask = np.zeros((case["height"], case["width"]), np.uint8)
        mask[: len(mask) // 2] = 1
        save_mask(store, case["id"], mask, "di")
        decide(store, case["id"], "di", "abnormal")
    run = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32, "k": 3, "strong": "medmix", "medmix": {}})
    snapshots(runs.run_folder(store, run), 1)
    key = load_step("embed")(Work(store, run, {"config": CONFIG, "device": "cpu"}))
    write(tmp_path / "new" / "one.png", picture(1)[0])
    dicomweb.name_server(store, "pacs", "http://localhost:8042/dicom-web", None, "root")
    pipeline.create_untrained(store, STUDY, 32)
    scored = store.first("SELECT run FROM readings")["run"]
    return {
        "/api/training/start": ("", {"study": STUDY, "config": SMALL, "detectors": {"padim": {}}}),
        "/api/training/run/{run_id}/fit": (f"/api/training/run/{encoder}/fit", {"detectors": {"padim": {}}}),
        "/api/training/run/{run_id}/repeat": (f"/api/training/run/{fit}/repeat", {}),
        "/api/learn/{study}": (f"/api/learn/{STUDY}", {"fit": fit}),
        MAPS: ("", {"run": run, "config": CONFIG | {"seed": 1}}),
        f"{MAPS}/{{key}}/placed": (f"{MAPS}/{key}/placed", {"folder": str(tmp_path / "new")}),
        "/api/report/{study}": (f"/api/report/{STUDY}", {"tables": ["ssl"], "seeds": 1}),
        "/api/export/{study}/send": (f"/api/export/{STUDY}/send", {"server": "pacs", "kinds": ["seg"]}),
        "/api/study/{study}/look": (f"/api/study/{STUDY}/look", {}),
        "/api/results/{study}/evaluate": (f"/api/results/{STUDY}/evaluate", {}),
        "/api/results/{study}/believe": (f"/api/results/{STUDY}/believe?run={scored}", {}),
        "/api/study/demo": ("", {}),
        "/api/medmix/match": ("", {"study": STUDY, "cases": [match.offered(store, STUDY)[0]["case"]]}),
    }


@pytest.mark.long
def test_ten_threads_start_one_job_by_any_route(room, no_worker, tmp_path):  # noqa: F811
    store, _ = room
    tried = bodies(store, tmp_path)
    answer_jobs = {r.path for r in routes.every_route() if "job" in getattr(r.response_model, "__annotations__", {})}
    posts = {route.path for route in routes.every_route() if "POST" in route.methods}
    assert (answer_jobs & posts) - OTHERS == set(tried)
    wrong = []
    with client_of(store, single_user=True) as client:
        for path, (address, body) in tried.items():
            store.execute("UPDATE jobs SET status = 'cancelled'")
            counts = "SELECT (SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM runs) AS runs"
            before = store.first(counts)
            answers = at_once(lambda i, to=address or path, body=body: client.post(to, json=body), 10)
            after = store.first(counts)
            texts = {json.dumps(answer.json()) for answer in answers}
            if after["jobs"] - before["jobs"] != 1 or {answer.status_code for answer in answers} != {200}:
                wrong.append(f"{path}: {after['jobs'] - before['jobs']} jobs, {texts}")
            if after["runs"] - before["runs"] > (CAME if path == "/api/study/demo" else 2):
                wrong.append(f"{path}: {after['runs'] - before['runs']} runs")
    assert not wrong, "\n".join(wrong)
