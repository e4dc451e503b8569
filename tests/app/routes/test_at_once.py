"""Each pair of requests that a page sends at once, while what both need has to be made first."""

from __future__ import annotations

import itertools
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.studio.clusters.config import MapConfig, PointsConfig
from core.studio.ingest.studies import import_study
from core.studio.jobs.steps import STEPS, Work
from core.studio.runs import pipeline
from tests.app.routes.clients import client_of
from tests.conftest import ARCH
from tests.studio.review.conftest import STUDY, draw_folder

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
    named = {"case": mask["case_id"], "mask": mask["id"], "run": run, "study": STUDY, "map": STEPS["embed"](work)}
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
    named = set(re.findall(r"`/api/case/\$\{[\w.]+\}/([a-z]+)", scripts))
    listed = {re.sub(r".*\{case\}/([a-z]+).*", r"\1", address) for address in REVIEW}
    assert named - listed == set(), named - listed
