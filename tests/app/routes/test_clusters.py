"""What the Clusters tab asks of the server, without a browser."""

from core.studio.runs import records as runs
from core.studio.runs.pipeline import create_untrained
from core.studio.runs.weights import snapshots as snapshots_of
from tests.app.routes.clients import client_of
from tests.conftest import ARCH
from tests.studio.clusters.conftest import snapshots
from tests.studio.review.conftest import STUDY, room  # noqa: F401


def test_trained_encoders_come_before_untrained_ones(room):  # noqa: F811
    store, _ = room
    trained = []
    for _ in range(2):
        run = runs.create_run(store, STUDY, "pretrain", "pmsacl", {"size": 32, "k": 3})
        snapshots(runs.run_folder(store, run), 1)
        trained.append(run)
    bare = create_untrained(store, STUDY, 32, arch=ARCH)
    snapshots(runs.run_folder(store, bare), 1)
    listed = client_of(store).get("/api/clusters/runs", params={"study": STUDY}).json()["runs"]
    assert [r["id"] for r in listed] == [trained[1], trained[0], bare]
    assert [r["centred"] for r in listed] == [True, True, True]
    (snapshots_of(store, runs.get_run(store, bare))[-1].folder / "centres.safetensors").unlink()
    listed = client_of(store).get("/api/clusters/runs", params={"study": STUDY}).json()["runs"]
    assert [r["centred"] for r in listed] == [True, True, False], "as of pretrained weights"
