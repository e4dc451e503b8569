"""The tables: the paper's rows with the paper's numbers, and arms that can be made."""

import sys
from pathlib import Path

import pytest

from core.engine.objectives.presets import PRETRAIN_PRESETS, PUBLISHED
from core.engine.registry import DETECTORS, OBJECTIVES
from core.studio.report.published import COMPARED, DATASETS, SOURCES, SPREAD, compared, dataset_of, published, spread
from core.studio.report.summary import lines_of
from core.studio.report.tables import QUICK_FIT, TABLES, is_starred, network_of, tables_of
from core.studio.runs.pipeline import UNTRAINED

ALL = tables_of(list(TABLES), "quick")


def test_every_published_row_of_hyperkvasir_has_an_arm_and_its_numbers():
    """Rows of Tables 1, 5, 7, 8 and 9 of the paper, counted there by hand."""
    counts = {"detection": 13, "localisation": 6, "ssl": 8, "ablation": 5, "centres": 4}
    for table in ALL:
        known = [arm.label for arm in table.arms if published(table.name, "hyperkvasir", arm.label)]
        assert len(known) == counts.get(table.name, len(known)), table.name
    lengths = {t.name: len(t.arms) for t in ALL}
    assert lengths["classes"] == 7 and lengths["augment"] == 6 and lengths["centres"] == 4
    assert published("detection", "lag", "PMSACL - IGD")["auroc"] == 0.908
    assert published("localisation", "hyperkvasir", "PMSACL - PaDiM")["dice"] == 0.554
    assert set(SPREAD) < set(DATASETS)
    assert spread("detection", "lag", "PMSACL - PaDiM")["auroc"] == spread("ssl", "lag", "PMSACL")["auroc"] == 0.0163
    assert not spread("detection", "lag", "PMSACL - IGD") and not spread("detection", "liu", "PMSACL - PaDiM")


@pytest.mark.parametrize("table", ALL, ids=lambda t: t.name)
def test_every_arm_is_a_configuration_that_exists(table):
    labels = [arm.label for arm in table.arms]
    assert len(set(labels)) == len(labels)
    assert all(set(claim) <= set(labels) for claim in table.claims)
    for arm in table.arms:
        DETECTORS.get(arm.detector).Config().replace(**arm.fit)
        if arm.encoder != UNTRAINED:
            config = PRETRAIN_PRESETS[arm.preset].replace(objective=arm.encoder, **arm.pretrain)
            assert config.objective in OBJECTIVES.names()


def test_every_detector_has_a_row():
    (detection,) = tables_of(["detection"], "paper")
    assert {arm.detector for arm in detection.arms} == set(DETECTORS.names())
    assert {arm.preset for arm in detection.arms} == {"paper", "published-ccd"}
    for arm in detection.arms:
        assert arm.fit_preset == ("published" if arm.detector in SOURCES else "paper")


def test_comparators_as_published_are_used_by_name_and_every_difference_has_a_reason():
    (ssl,) = tables_of(["ssl"], "paper")
    assert {arm.label: arm.preset for arm in ssl.arms if arm.preset != "paper"} == {
        "CSI": "published-csi", "DROC": "published-droc", "CCD": "published-ccd",
    }  # fmt: skip
    (ablation,) = tables_of(["ablation"], "paper")
    assert {arm.preset for arm in ablation.arms} == {"paper"}  # its rows differ in one thing each
    rows = compared()
    differing = {(row[0], row[2]) for row in rows}
    titles = {name: (OBJECTIVES if name in PUBLISHED else DETECTORS).title(name) for name in SOURCES}
    assert differing == {(titles[name], setting) for name, source in SOURCES.items() for setting in source.why}
    for name, source in SOURCES.items():  # and the class or its file says so
        member = (OBJECTIVES if name in PUBLISHED else DETECTORS).get(name)
        text = f"{sys.modules[member.__module__].__doc__}\n{member.__doc__}"
        assert [setting for setting in source.why if f"`{setting}`" not in text] == [], name
    assert {n for n in DETECTORS.names() if "published" in DETECTORS.get(n).presets} < set(SOURCES)
    kept = Path(__file__).parents[3] / "assets" / "results" / "comparators.md"
    table = [f"| {' | '.join(row)} |\n" for row in [COMPARED, ("---",) * len(COMPARED), *rows]]
    assert kept.read_text() == "".join(table), "assets/results/comparators.md is not what this test makes of `compared`"


@pytest.mark.parametrize("budget", ["quick", "paper"])
@pytest.mark.parametrize(
    ("name", "weights", "sentence"),
    [
        ("narrow", None, "All rows: ResNet of 0.4 million weights, from random weights."),
        ("lite0", None, "All rows: EfficientNet-lite0, from ImageNet's weights."),
        ("resnet18", None, "All rows: ResNet-18, from ImageNet's weights (or EfficientNet-lite0 if"),
        ("resnet18", "random", "All rows: ResNet-18, from random weights."),
        ("resnet18", "/models/r18.pth", "All rows: ResNet-18, from the weights in r18.pth."),
        (None, None, {"quick": "All rows: ResNet of 0.4", "paper": "All rows: ResNet-18, from ImageNet's weights"}),
    ],
)
def test_all_rows_are_of_one_network_and_one_start(budget, name, weights, sentence):
    network = network_of(budget, name, weights)
    assert network.sentence.startswith(sentence if isinstance(sentence, str) else sentence[budget])
    arms = [arm for table in tables_of(list(TABLES), budget, None, network) for arm in table.arms]
    configs = [PRETRAIN_PRESETS[arm.preset].replace(objective=arm.encoder, **arm.pretrain)
               for arm in arms if arm.encoder != UNTRAINED]  # fmt: skip
    starts = {(config.encoder.arch, config.encoder.init) for config in configs}
    own = {arm.label: arm.pretrain for arm in arms if DETECTORS.fact(arm.detector, "own_network", False)}
    assert own == dict.fromkeys(("DAE", "OCGAN", "f-AnoGAN", "ADGAN", "MS-SSIM"), {}), "made once for all tables"
    starts |= {tuple(a.pretrain.values()) for a in arms if a.encoder == UNTRAINED and a.label not in own}
    assert starts == {(network.arch, network.weights)}
    careful = {(config.frozen, config.frozen_norm, config.backbone_rate) for config in configs}
    learns = network.weights == "random" or budget == "paper"
    assert careful == {(0, False, 1.0) if learns else (8, True, 0.1)}
    if budget == "paper":  # with z on the unit sphere a random start collapses
        assert {config.encoder.unit for config in configs} == {network.weights != "random"}
    assert {config.epochs for config in configs} == {4 if budget == "quick" else PRETRAIN_PRESETS["paper"].epochs}
    short = {arm.detector for arm in arms if "steps" in str(arm.fit)}
    assert short == (set(QUICK_FIT) if budget == "quick" else set())
    starred = {arm.label for arm in arms if is_starred(arm)}
    assert starred == (set(own) if network.weights != "random" else {arm.label for arm in arms})


def test_rows_are_starred_where_the_paper_stars_them():
    (detection,) = tables_of(["detection"], "paper", None, network_of("paper", "lite0"))
    lines = {name: lines_of(detection, [], name, False, "paper") for name in DATASETS}
    starred = {(name, line.label) for name, of_set in lines.items() for line in of_set if line.paper_starred}
    assert starred == {("liu", "DAE"), ("liu", "OCGAN"), ("liu", "ADGAN")}
    assert not next(line for line in lines["liu"] if line.label == "PMSACL - PaDiM").starred


def test_a_network_that_there_is_not_is_refused_by_name():
    with pytest.raises(ValueError, match="networks are narrow, lite0, resnet18, not vgg"):
        network_of("quick", "vgg")


def test_a_study_is_known_by_its_name():
    assert dataset_of("hyper-kvasir-64") == "hyperkvasir" and dataset_of("lag") == "lag"
    assert dataset_of("covid-x") == "covidx" and dataset_of("demo") is None
