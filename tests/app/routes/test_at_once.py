"""Each pair of requests that the Review page sends at once, while what both need has to be made first."""

from __future__ import annotations

import itertools
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from core.studio.ingest.studies import import_study
from core.studio.runs import pipeline
from tests.app.routes.clients import client_of
from tests.conftest import ARCH
from tests.studio.review.conftest import STUDY, draw_folder

ROOT = Path(__file__).resolve().parents[3]
TIMES = 3  # how often each of a pair is sent
# What the page's scripts ask for with a case on screen.
ASKED = (
    "/api/case/{case}/nearest?run={run}", "/api/case/{case}/explain?run={run}", "/api/case/{case}/heat?run={run}",
    "/api/case/{case}/roi.bits?side=256&v=1", "/api/case/{case}/mask.bits?id={mask}&v=1",
    "/api/case/{case}/image.png?v=1", "/api/case/{case}/raw?v=1", "/api/case/{case}/tile.webp?side=64&v=1",
    "/api/case/{case}/pack?run={run}", "/api/case/{case}/thumb.png?size=80&v=1", "/api/review/drafts?study={study}",
    "/api/review/list?study={study}&run={run}", "/api/review/counts?study={study}&run={run}",
    "/api/review/place?study={study}&run={run}&case={case}", "/api/review/case/{case}?study={study}&run={run}",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """(store, client, addresses) of a study that a detector which compares with training images has scored."""
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
    named = {"case": mask["case_id"], "mask": mask["id"], "run": run, "study": STUDY}
    yield store, client_of(store, single_user=True), [address.format(**named) for address in ASKED]
    store.close()


def answer(client, address: str) -> tuple[int, bytes]:
    got = client.get(address, headers={"x-user": "ann"})
    return got.status_code, got.content


def pairs_at_once(home, rounds: int) -> None:
    store, client, addresses = home
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
def test_pairs_of_requests_once(home):
    pairs_at_once(home, 1)


@pytest.mark.longest
@pytest.mark.timeout(7200)
def test_pairs_of_requests_many_times(home):
    pairs_at_once(home, 9)  # 120 pairs: a thousand


def test_what_the_page_asks_of_a_case_is_listed():
    """An address of a case that a script of Review gets, and that is not in ASKED, fails here."""
    scripts = "".join(file.read_text("utf-8") for file in (ROOT / "app/widgets/review/js").glob("*.js"))
    named = set(re.findall(r"`/api/case/\$\{[\w.]+\}/([a-z]+)", scripts))
    listed = {re.sub(r".*\{case\}/([a-z]+).*", r"\1", address) for address in ASKED}
    assert named - listed == set(), named - listed
