"""What counts as true: reference masks and readers' masks, which figures use them, and rows of unlike cases."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from core.studio.clusters import explore
from core.studio.db import audit
from core.studio.ingest import overview
from core.studio.ingest.masks import reference_masks
from core.studio.ingest.studies import load_arrays
from core.studio.review import masks
from core.studio.review import results as figures
from core.studio.review.cases import scored_runs
from core.studio.review.exports.formats import write_form
from core.studio.review.people import NotAllowed, invite
from core.studio.runs import marks, results, sheet
from tests.conftest import scored_padim
from tests.studio.review.conftest import asks, decide, save_mask


def abnormal(store, study) -> list[dict]:
    query = "SELECT * FROM cases WHERE study = ? AND split = 'test' AND label = 'abnormal' ORDER BY id"
    return store.query(query, [study])


def everything(store, study, fit, folder, kind="") -> str:
    """All figures that lesion masks have a part in, as text."""
    row = results.evaluate_run(store, fit, masks=kind, bootstrap=20)
    shown, against = sheet.cases_by_dice(store, fit, masks=kind)
    arrays = load_arrays(store, study, 32, masks=marks.truth_masks(store, study, kind).masks)
    parts = [
        {name: value for name, value in row.items() if "seconds" not in name},
        [(case.name, case.dice) for case in shown],
        against,
        figures.dice_by_size(store, study, fit, masks=kind),
        [r for r in figures.compared(store, study, scored_runs(store, study), masks=row["masks"])],
        np.asarray(arrays.masks[:]).sum((1, 2)).tolist(),
        [overview.outlines(store, case["id"])["lesion"] for case in abnormal(store, study)],
    ]
    for form in ("png", "coco", "yolo"):
        target = folder / f"{form}-{len(list(folder.iterdir()))}"
        target = target if form == "png" else target.with_suffix(".zip" if form == "yolo" else ".json")
        done = write_form(store, study, form, target, "root", masks=kind or "reference")
        parts.append(done["masks"])
        if form == "png":
            parts.append([path.read_bytes().hex() for path in sorted(target.iterdir())])
    return json.dumps(parts, default=str)


@pytest.mark.long
def test_no_mask_of_a_reader_changes_a_figure_until_it_is_made_the_reference(store, tiny_study, tmp_path):
    _, fit = scored_padim(store, tiny_study)
    cases, rng = abnormal(store, tiny_study), np.random.default_rng(0)
    before = everything(store, tiny_study, fit, tmp_path)
    assert reference_masks(store, tiny_study).keys() == {case["id"] for case in cases}
    for act in rng.permutation(
        np.repeat(["undecided", "abnormal", "normal", "heat map", "restored", "adjudicated"], 2)
    ):
        case, reader = cases[rng.integers(len(cases))], str(rng.choice(["ann", "ben"]))
        mask = rng.random((case["height"], case["width"])) > rng.random()
        run = {"source": "run", "run": fit} if act == "heat map" else {}
        saved = save_mask(store, case["id"], mask, reader, **run)
        if act == "restored":
            masks.restore(asks(store, reader, case_id=case["id"]), saved["mask"])
        if act in ("abnormal", "normal", "adjudicated"):
            decide(
                store,
                case["id"],
                reader,
                "normal" if act == "normal" else "abnormal",
                adjudication=act == "adjudicated",
            )
    assert everything(store, tiny_study, fit, tmp_path) == before
    row = store.first("SELECT m.id, m.case_id FROM lesion_masks m WHERE source = 'hand' ORDER BY id DESC LIMIT 1")
    masks.make_reference(asks(store, "root", case_id=row["case_id"], single_user=True), row["id"])
    assert reference_masks(store, tiny_study)[row["case_id"]] == row["id"]
    assert everything(store, tiny_study, fit, tmp_path) != before
    assert "reference" in {event["kind"] for event in audit.trail(store)} and audit.verify(store)["ok"]


@pytest.mark.long
def test_figures_against_accepted_masks_of_readers(store, tiny_study, tmp_path):
    _, fit = scored_padim(store, tiny_study)
    first, second, third, *_ = abnormal(store, tiny_study)
    half = np.zeros((first["height"], first["width"]), np.uint8)
    half[: len(half) // 2] = 1
    used = save_mask(store, first["id"], half, "ann")["mask"]
    decide(store, first["id"], "ann", "abnormal")
    save_mask(store, second["id"], half, "ann")  # undecided
    save_mask(store, third["id"], half, "ann", source="run", run=fit)  # from the run's own heat map
    decide(store, third["id"], "ann", "abnormal")
    assert marks.truth_masks(store, tiny_study, "readers").masks == {first["id"]: used}
    row = results.evaluate_run(store, fit, masks="readers", bootstrap=20)
    assert (row["masks"], row["n_localised"], row["cases"]) == ("readers", 1, 12)
    found = figures.dice_by_size(store, tiny_study, fit, masks="readers")
    assert found["of"] == 1 and found["against"] == "against 1 accepted reader’s mask"
    assert figures.dice_by_size(store, tiny_study, fit)["against"] == "against 6 reference masks"
    results.evaluate_run(store, fit, bootstrap=20)
    both = {r["masks"]: r["n_localised"] for r in results.evaluations(store, tiny_study, fit)}
    assert both == {"readers": 1, "reference": 6}, "one does not take the other's place"
    with pytest.raises(ValueError, match="reference or readers"):
        marks.truth_masks(store, tiny_study, "newest")
    store.execute("DELETE FROM lesion_masks WHERE source = 'import'")
    assert marks.truth_masks(store, tiny_study).kind == "readers", "a study without a reference has readers' masks"


def test_make_reference_takes_an_adjudicator_and_a_mask_that_no_run_made(room):
    store, run = room
    case = abnormal(store, "room")[0]
    mask = np.ones((case["height"], case["width"]), np.uint8)
    for name, role in (("root", "administrator"), ("ann", "reader"), ("eve", "adjudicator")):
        invite(store, name, role, "root")
    saved = save_mask(store, case["id"], mask, "ann")["mask"]
    with pytest.raises(NotAllowed, match="an adjudicator"):
        masks.make_reference(asks(store, "ann", case_id=case["id"]), saved)
    taken = save_mask(store, case["id"], mask, "ann", source="run", run=run)["mask"]
    with pytest.raises(ValueError, match="Correct it by hand"):
        masks.make_reference(asks(store, "eve", case_id=case["id"]), taken)
    masks.make_reference(asks(store, "eve", case_id=case["id"]), saved)
    shown = masks.versions(asks(store, "ann", study="room"), case["id"])
    assert [(m["source"], m["reference"]) for m in shown] == [("run", False), ("hand", True), ("import", False)]


def test_exported_masks_say_of_which_kind_they_are(room, tmp_path):
    store, _ = room
    cases = abnormal(store, "room")
    drawn = save_mask(store, cases[0]["id"], np.ones((60, 72), np.uint8), "ann")["mask"]
    store.execute("DELETE FROM lesion_masks WHERE case_id = ? AND source = 'import'", [cases[0]["id"]])
    save_mask(store, cases[1]["id"], np.ones((60, 72), np.uint8), "ann")
    for kind, wanted in (
        ("", {"reference": 5, "reader": 1}),
        ("reference", {"reference": 5}),
        ("readers", {"reader": 2}),
    ):
        done = write_form(store, "room", "png", tmp_path / f"png{kind}", "root", masks=kind)
        rows = list(csv.DictReader((tmp_path / f"png{kind}/masks.csv").open()))
        assert done["masks"] == wanted and len(rows) == sum(wanted.values())
        assert {r["kind"] for r in rows} == set(wanted)
        write_form(store, "room", "coco", tmp_path / f"{kind}.json", "root", masks=kind)
        kinds = {a["kind"] for a in json.loads((tmp_path / f"{kind}.json").read_text())["annotations"]}
        assert kinds == set(wanted)
    assert drawn and explore._mask(store, "room", cases[1]["id"]).mean() < 1, "a map shows the reference too"


@pytest.mark.long
def test_rows_of_other_cases_labels_or_masks_are_not_ranked(store, tiny_study):
    _, fit = scored_padim(store, tiny_study)
    _, other = scored_padim(store, tiny_study)
    runs = scored_runs(store, tiny_study) or [{"id": r, "title": r, "name": r, "encoder": ""} for r in (fit, other)]

    def rows():
        return [row for row in figures.compared(store, tiny_study, runs) if row["run"] in (fit, other)]

    results.evaluate_run(store, fit, bootstrap=0)
    results.evaluate_run(store, other, bootstrap=0)
    assert {row["cases"] for row in rows()} == {12} and len({row["set"] for row in rows()}) == 1
    assert any(row["best"] for row in rows())
    changes = [
        "DELETE FROM cases WHERE id = (SELECT max(id) FROM cases WHERE label = 'normal' AND split = 'test')",
        "UPDATE cases SET label = 'unknown' WHERE id = (SELECT max(id) FROM cases WHERE label = 'abnormal')",
        "DELETE FROM lesion_masks WHERE id = (SELECT min(id) FROM lesion_masks)",
    ]
    for change in changes:
        results.evaluate_run(store, other, bootstrap=0)
        store.execute(change)
        results.evaluate_run(store, fit, bootstrap=0)
        assert len({row["set"] for row in rows()}) == 2 and not any(row["best"] for row in rows()), change
        results.evaluate_run(store, other, bootstrap=0)
        assert len({row["set"] for row in rows()}) == 1 and any(row["best"] for row in rows())
