"""Cluster maps travel with a bundle: same coordinates, the new numbers of the cases, the same neighbours."""

import json
import zipfile

import numpy as np
import pytest

from core.studio.bundle import export_bundle, import_bundle
from core.studio.clusters import explore, library
from core.studio.db.foreign import Refused
from tests.studio.bundle.conftest import rewrite
from tests.studio.review.conftest import fill


@pytest.mark.slow
def test_a_map_is_carried_with_its_points_and_features(world, other, tmp_path):
    plain = library.open_map(world.store, world.embed(epochs=(0, 2)))
    library.save_view(world.store, world.study, "mine", "ann", {"map": plain.key, "epoch": 2})
    made = export_bundle(world.store, world.study, tmp_path / "world.zip", "root")
    assert made["missing"] == {"images": [], "maps": []}
    fill(other, 20)  # so that numbers move
    done = import_bundle(other, tmp_path / "world.zip", "root")
    assert done["missing"]["maps"] == [] and done["rows"]["cluster_maps"] == len(
        library.list_maps(world.store, world.study)
    )
    names = {c["id"]: c["name"] for s in (world.store, other) for c in s.query("SELECT id, name FROM cases")}
    [view] = library.list_views(other, done["study"])
    here = library.open_map(other, view["state"]["map"])
    assert here.key != plain.key and here.about["study"] == done["study"]
    np.testing.assert_array_equal(np.asarray(here.coords), np.asarray(plain.coords))
    mine = {c["id"]: c["name"] for c in other.query("SELECT id, name FROM cases WHERE study = ?", [done["study"]])}
    theirs = {c["id"]: c["name"] for c in world.store.query("SELECT id, name FROM cases")}
    assert [mine[i] for i in here.points.case_id.tolist()] == [theirs[i] for i in plain.points.case_id.tolist()]
    assert explore.neighbours(other, here, 0) == explore.neighbours(world.store, plain, 0)
    assert explore.describe(other, here, 0)["case"]["name"] == names[int(here.points.case_id[0])]


def test_maps_cleared_from_the_cache_are_named(world, other, tmp_path):
    key = world.embed(epochs=(1,))
    (library.map_folder(world.store, key) / "map.json").unlink()
    assert key in export_bundle(world.store, world.study, tmp_path / "world.zip", "root")["missing"]["maps"]
    done = import_bundle(other, tmp_path / "world.zip", "root")
    assert key in done["missing"]["maps"]
    assert all(m["ready"] for m in library.list_maps(other, done["study"]))
    world.embed(epochs=(1,))


@pytest.mark.parametrize("change", [
    lambda about: about["epochs"][0].update(snapshot="../../../etc"),
    lambda about: about["epochs"][0].update(features_key="../../x"),
    lambda about: about.update(points_key="../points"),
    lambda about: about["epochs"].pop(),
    lambda about: about.pop("groups"),
])  # fmt: skip
def test_a_map_that_no_studio_made_is_refused(world, other, tmp_path, change):
    world.embed(epochs=(0, 2))
    export_bundle(world.store, world.study, tmp_path / "world.zip", "root")
    with zipfile.ZipFile(tmp_path / "world.zip") as good:
        maps = {name: json.loads(good.read(name)) for name in good.namelist() if name.endswith("map.json")}
    for about in maps.values():
        change(about)
    assert maps
    changed = {name: json.dumps(about).encode() for name, about in maps.items()}
    rewrite(tmp_path / "world.zip", tmp_path / "evil.zip", extra=changed)
    with pytest.raises(Refused, match="map"):
        import_bundle(other, tmp_path / "evil.zip", "root")
    assert other.query("SELECT 1 FROM studies") == []
