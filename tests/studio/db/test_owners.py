"""Who made what."""

from core.studio.db import opening, owners


def test_the_first_who_made_a_thing_stays_its_owner_until_the_thing_is_gone(tmp_path):
    store = opening.open(str(tmp_path / "home"))
    owners.set_owner(store, "run", ["a", "b"], "ann")
    owners.set_owner(store, "run", ["b", "c"], "ben")
    owners.set_owner(store, "map", ["a"], "ben")
    assert [owners.owner(store, "run", i) for i in "abcd"] == ["ann", "ann", "ben", None]
    assert owners.owned(store, "run", "ann") == ["a", "b"]
    owners.forget_owner(store, "run", "a")
    assert owners.owner(store, "run", "a") is None and owners.owner(store, "map", "a") == "ben"
    store.close()
