"""Images of one patient: read from table, name or header, kept as a keyed hash, held out and drawn as a whole."""

import numpy as np
import pytest

from core.studio.ingest.decode import read_image
from core.studio.ingest.patients import Patients, patients_of, straddling
from core.studio.ingest.studies import add_cases, import_study
from tests.studio.ingest.dicoms import write_dicom
from tests.studio.review.conftest import draw_folder


@pytest.fixture
def folder(tmp_path):
    """12 training normals of 4 patients, 4 normal and 4 abnormal test images of two others and of one of the four."""
    draw_folder(tmp_path / "images", 12, 4, 4)
    for part, start in (("train/normal", 0), ("test/normal", 12), ("test/abnormal", 16)):
        for i, path in enumerate(sorted((tmp_path / "images" / part).iterdir())):
            patient = "QA" if part == "test/abnormal" and i == 0 else f"P{(start + i) // 3}"
            path.rename(path.with_name(f"{patient}_{part.replace('/', '-')}_{i}{path.suffix}"))
    return tmp_path / "images"


def rows(store, study):
    return store.query("SELECT id, name, split, label, patient FROM cases WHERE study = ? ORDER BY id", [study])


def of(name):
    return name.split("_")[0]


def test_a_pattern_over_names_gives_patients_that_are_held_out_as_a_whole(store, folder):
    report = import_study(store, "a", folder, patients=r"^(\w+?)_")
    found = rows(store, "a")
    by_hash = {r["patient"]: of(r["name"]) for r in found}
    assert len(by_hash) == len({of(r["name"]) for r in found}) == report.patients
    assert all(by_hash[r["patient"]] == of(r["name"]) for r in found)
    train = [r for r in found if r["split"] != "test"]
    held = {of(r["name"]) for r in train if r["split"] == "holdout"}
    assert held and held.isdisjoint({of(r["name"]) for r in train if r["split"] == "train"})
    assert len([r for r in train if r["split"] == "holdout"]) == 3 * len(held)


def test_no_name_of_a_patient_is_kept_and_another_home_hashes_otherwise(store, folder, tmp_path):
    from core.studio.db import opening

    import_study(store, "a", folder, patients=r"^(\w+?)_")
    other = opening.open(str(tmp_path / "other"))
    import_study(other, "a", folder, patients=r"^(\w+?)_")
    ours, theirs = ({r["patient"] for r in rows(s, "a")} for s in (store, other))
    assert ours.isdisjoint(theirs) and not any("P1" in p for p in ours)
    other.close()


def test_a_patient_on_both_sides_is_named(store, folder):
    report = import_study(store, "a", folder, patients=r"^(.)")  # a coarse pattern: all P are one
    assert report.straddling == [{"train": [r["name"] for r in rows(store, "a") if r["split"] != "test"][:3], "test": [
        r["name"] for r in rows(store, "a") if r["split"] == "test" and r["name"].startswith("P")][:3]}]  # fmt: skip
    assert {r["split"] for r in rows(store, "a")} == {"train", "holdout", "test"}, "one patient alone is still parted"
    assert import_study(store, "b", folder, patients=r"^(\w+?)_").straddling == []
    assert (
        straddling([{"name": "x", "split": "train", "patient": None}, {"name": "y", "split": "test", "patient": None}])
        == []
    )


def test_table_file_and_header_say_it_too(store, folder, tmp_path):
    files = sorted((folder / "train/normal").iterdir())
    lines = [f"{p.relative_to(folder)},train,normal,{i // 6}" for i, p in enumerate(files)]
    (folder / "list.csv").write_text("\n".join(["path,split,label,patient", *lines]) + "\n")
    assert import_study(store, "table", folder / "list.csv").patients == 2
    (folder / "patients.csv").write_text(
        "\n".join(["name,patient", *(f"{p.name},{i % 3}" for i, p in enumerate(files))])
    )
    assert import_study(store, "file", folder, layout="plain").patients == 3
    (tmp_path / "dicom/train/normal").mkdir(parents=True)
    for i in range(4):
        write_dicom(
            tmp_path / f"dicom/train/normal/{i}.dcm", np.random.default_rng(i).integers(0, 99, (32, 32), np.uint16),
            PatientID=f"MRN-{i // 2}",
        )  # fmt: skip
    assert import_study(store, "dicom", tmp_path / "dicom").patients == 2
    (folder / "patients.csv").write_text("file,who\n1,2\n")
    with pytest.raises(ValueError, match="columns name and patient"):
        import_study(store, "bad", folder, layout="plain")


def test_cases_that_come_later_are_of_the_same_patients(store, folder, tmp_path):
    import_study(store, "a", folder, patients=r"^(\w+?)_")
    first = next(r for r in rows(store, "a") if r["split"] == "test" and r["name"].startswith("P4"))
    import cv2

    later = tmp_path / "P4_later.png"
    cv2.imwrite(str(later), 255 - read_image(sorted((folder / "test/normal").iterdir())[0], 0))
    add_cases(store, "a", [later])
    new = next(r for r in rows(store, "a") if r["name"] == later.name)
    assert new["patient"] == first["patient"]


def test_those_without_a_patient_stand_by_themselves(store, folder):
    import_study(store, "a", folder, patients=r"^(P4)_")
    found = [r for r in rows(store, "a") if r["split"] == "test"]
    whose = patients_of(store, "a", np.array([r["id"] for r in found]))
    alone = [r["patient"] is None for r in found]
    assert len(set(whose)) == sum(alone) + 1 and len(set(whose[~np.array(alone)])) == 1
    import_study(store, "b", folder)
    assert patients_of(store, "b", np.array([r["id"] for r in rows(store, "b")])) is None


def test_every_home_numbers_patients_alike(folder, tmp_path):
    """Their hashes differ from home to home; what a seed draws among them must not."""
    from core.studio.db import opening

    numbers = []
    for i in range(6):
        home = opening.open(str(tmp_path / f"home {i}"))
        import_study(home, "a", folder, patients=r"^(\w+?)_")
        numbers.append(patients_of(home, "a", np.array([r["id"] for r in rows(home, "a")])).tolist())
        home.close()
    assert len(set(numbers[0])) > 2 and all(n == numbers[0] for n in numbers)


@pytest.mark.parametrize("pattern", ["(", "x" * 201])
def test_a_pattern_that_is_none_is_refused(store, pattern):
    with pytest.raises(ValueError, match="pattern|expression"):
        Patients(store, pattern=pattern)
