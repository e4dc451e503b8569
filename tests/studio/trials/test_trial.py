"""A trial from plan to figures: who reads what, what is frozen, what the arms hide, what the reads come to."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from core.engine.config import BadConfig
from core.studio.db.store import NotFound
from core.studio.review import cases, decisions, people, session_report, sessions
from core.studio.review.sessions import Hidden
from core.studio.review.worklist import Query, Worklist
from core.studio.runs import marks
from core.studio.trials import analysis, mrmc, plan, report
from core.studio.trials.analysis import Mark, Marked, hits
from core.studio.trials.mrmc import Figure
from core.studio.trials.options import TrialPlan
from tests.studio.review.conftest import STUDY, asks, decide, room, save_mask  # noqa: F401

READERS = ("ann", "ben", "cleo")


@pytest.fixture
def staffed(room):  # noqa: F811
    """(store, run), with accounts of three plain readers and of root, who administers."""
    store, run = room
    for name in READERS:
        people.add_reader(store, name, "long enough")
    people.add_reader(store, "root", "long enough", "administrator")
    return store, run


def planned(run: str, **more) -> TrialPlan:
    return TrialPlan.from_dict({"name": "T", "readers": READERS, "run": run, "washout": 0, "seed": 1, **more})


def begun(store, run, **more) -> int:
    trial = plan.make(store, STUDY, planned(run, **more), "root")
    plan.start(store, trial, "root")
    return trial


def truth_of(store, trial) -> dict[int, str]:
    return {r["case_id"]: r["truth"] for r in store.query("SELECT * FROM trial_cases WHERE trial = ?", [trial])}


def test_a_plan_says_what_is_wrong_with_it(staffed):
    store, run = staffed
    for wrong, words in (
        ({"name": " "}, "needs a name"),
        ({"readers": ("ann",)}, "two different readers"),
        ({"run": ""}, "Name the run"),
        ({"reference": "panel"}, "Name the members"),
        ({"panel": ("ann",)}, "member of the panel"),
        ({"washout": -1}, "at least 0|within"),
        ({"rule": "touch"}, "must be one of"),
    ):
        with pytest.raises(BadConfig, match=words):
            planned(**{"run": run, **wrong})
    for wrong, words in (
        ({"readers": ("ann", "root")}, "must have the role reader"),
        ({"readers": ("ann", "nobody")}, "must have the role reader"),
        ({"cases": "drawn", "normal": 500}, "the plan needs 500"),
        ({"repeats": 400}, "can be read again, not 400"),
        ({"run": "nothing"}, "no run"),
    ):
        with pytest.raises(ValueError, match=words):
            plan.make(store, STUDY, planned(**{"run": run, **wrong}), "root")
    assert store.query("SELECT 1 FROM trials") == []


def test_orders_draws_and_first_arms_follow_from_the_seed(staffed):
    store, run = staffed
    arms = plan.parts_of(planned(run, repeats=2))
    assert sorted(a[0] for a in arms.values()) in (["aided", "aided", "unaided"], ["aided", "unaided", "unaided"])
    assert all(sorted(a[:2]) == ["aided", "unaided"] and a[2] == "repeat" for a in arms.values())
    drawn = [
        plan.make(store, STUDY, planned(run, cases="drawn", normal=2, abnormal=3, seed=s), "root") for s in (5, 5, 6)
    ]
    listed = [truth_of(store, trial) for trial in drawn]
    assert listed[0] == listed[1] != listed[2] and sorted(listed[0].values()) == ["abnormal"] * 3 + ["normal"] * 2
    digests = [plan.get(store, trial)["digest"] for trial in drawn]
    assert digests[0] == digests[1] != digests[2]
    plan.start(store, drawn[0], "root")
    orders = []
    for reader in READERS:
        plan.open_part(store, drawn[0], reader)
        orders.append(tuple(r["id"] for r in Worklist(asks(store, reader, study=STUDY), Query()).page()["rows"]))
    assert {frozenset(o) for o in orders} == {frozenset(listed[0])} and len(set(orders)) > 1


def test_a_reader_sees_the_list_and_nothing_else(staffed):
    store, run = staffed
    trial = begun(store, run, cases="drawn", normal=3, abnormal=3)
    inside = next(iter(truth_of(store, trial)))
    outside = store.first(
        "SELECT id FROM cases WHERE id NOT IN (SELECT case_id FROM trial_cases) AND study = ?", [STUDY]
    )
    for asked in ({"study": STUDY}, {"case_id": inside}, {"study": STUDY, "run": run}):
        with pytest.raises(Hidden, match="in the room Trials"):
            asks(store, "ann", **asked)
    with pytest.raises(NotFound):
        asks(store, "ann", number=inside)
    assert asks(store, "root", study=STUDY).trial is None and not asks(store, "root", study=STUDY).blinded
    assert sessions.reads_blind(store, "ann") and not sessions.reads_blind(store, "root")
    assert sessions.session_status(store, "ann")["blind"] == [STUDY]
    plan.open_part(store, trial, "ann")
    context = asks(store, "ann", study=STUDY)
    assert context.blinded and context.names.covers
    with pytest.raises(NotFound):
        asks(store, "ann", number=context.names.number(outside["id"]))
    with pytest.raises(ValueError, match="6 unread cases"):
        sessions.end_session(store, "ann")
    plan.close(store, trial, "root")
    assert not sessions.reads_blind(store, "ann") and asks(store, "ann", study=STUDY).trial is None


@pytest.mark.parametrize("design", ["crossover", "sequential"])
def test_an_arm_shows_what_it_shows_and_no_truth(staffed, design):
    store, run = staffed
    trial = begun(store, run, design=design, marks=True)
    truth = truth_of(store, trial)
    sick = next(i for i, t in truth.items() if t == "abnormal")
    for reader, arms in plan.parts_of(planned(run, design=design)).items():
        plan.open_part(store, trial, reader)
        context = asks(store, reader, case_id=sick)
        machine = arms[0] == "aided"
        shown = cases.detail(context)
        assert (shown["label"], shown["split"], shown["tags"], shown["masks"]) == ("unknown", "test", [], [])
        assert list(shown["readings"]) == ([run] if machine else []) and context.hides(sick) is not machine
        assert not {"others", "about", "frames"} & set(shown)
        if arms[0] == "unaided":
            with pytest.raises(Hidden):
                asks(store, reader, case_id=sick, run=run)
        decisions.add_finding(context, "lesion", box=(5, 5, 5, 5))
        assert decide(store, sick, reader, "normal")["stage"] == "first"
        after = cases.detail(asks(store, reader, case_id=sick))
        assert list(after["readings"]) == ([run] if machine or arms[0] == "both" else [])
        assert (after["label"], after["masks"]) == ("unknown", []) and len(after["findings"]) == 1
        rows = Worklist(asks(store, reader, study=STUDY), Query()).page()["rows"]
        assert not any({"score", "flagged", "tags", "disagreement"} & set(row) for row in rows)
        stage = decide(store, sick, reader, "abnormal")["stage"]
        assert stage == ("second" if arms[0] == "both" else "first")


def test_the_first_decision_freezes_the_plan_with_its_digest_in_the_trail(staffed):
    store, run = staffed
    trial = begun(store, run)
    plan.open_part(store, trial, "ann")
    plan.make(store, STUDY, planned(run, repeats=2), "root", trial)  # nothing was decided: still open to change
    assert sessions.open_session(store, "ann") is None and plan.get(store, trial)["started"] is None
    plan.start(store, trial, "root")
    plan.open_part(store, trial, "ann")
    first = next(iter(truth_of(store, trial)))
    decide(store, first, "ann", "normal")
    decide(store, first, "ann", "abnormal")
    events = store.query("SELECT * FROM events WHERE kind = 'trial-frozen'")
    assert [json.loads(e["after"])["digest"] for e in events] == [plan.get(store, trial)["digest"]]
    with pytest.raises(ValueError, match="frozen"):
        plan.make(store, STUDY, planned(run), "root", trial)
    other = plan.make(store, STUDY, planned(run, name="other"), "root")
    with pytest.raises(ValueError, match="another open trial"):
        plan.start(store, other, "root")


def read_all(store, trial, reader, say) -> None:
    """The reader's next list: say(case, arm) -> (decision, rating)."""
    plan.open_part(store, trial, reader)
    context = asks(store, reader, study=STUDY)
    for row in Worklist(context, Query()).page(limit=500)["rows"]:
        for arm in ("unaided", "aided") if context.trial["arm"] == "both" else (context.trial["arm"],):
            decision, rating = say(row["id"], arm)
            decide(store, row["id"], reader, decision, rating=rating, seconds=2.0 if arm == "aided" else 1.0)
    sessions.end_session(store, reader)


@pytest.mark.parametrize("design", ["crossover", "sequential"])
def test_reads_come_to_figures(staffed, design):
    store, run = staffed
    trial = begun(store, run, design=design, scale="percent", repeats=4)
    truth = truth_of(store, trial)
    wrong = sorted(truth)[0]

    def say(case: int, arm: str) -> tuple[str, float]:
        sick = (truth[case] == "abnormal") != (arm != "aided" and case == wrong)
        return ("abnormal", 80.0) if sick else ("normal", 20.0)

    with pytest.raises(ValueError, match="0 to 100 first"):
        plan.open_part(store, trial, "ann")
        decide(store, wrong, "ann", "normal")
    for reader, arms in plan.parts_of(planned(run, design=design, repeats=4)).items():
        for _ in arms:
            read_all(store, trial, reader, say)
        with pytest.raises(ValueError, match="Thank you"):
            plan.open_part(store, trial, reader)
    found = analysis.figures(store, trial)
    n = len(truth)
    assert found["flow"]["analysed"]["normal"] + found["flow"]["analysed"]["abnormal"] == n == found["flow"]["in_trial"]
    assert found["by_reader"][1][0]["area"]["value"] == 1 > found["by_reader"][0][0]["area"]["value"]
    assert [c["helped"] for c in found["changes"]] == [1, 1, 1] and not any(c["harmed"] for c in found["changes"])
    assert found["seconds"]["ratio"]["ratio"] == pytest.approx(2)
    assert set(found["kappa"]["within"]) == set(READERS)
    assert all(k["kappa"] == 1 for k in found["kappa"]["within"].values())
    test = found["analysis"]["Area under the ROC curve"]["tests"]["both"]
    assert test["difference"] < 0
    json.dumps(found)


def test_places_are_held_against_lesions(staffed):
    store, run = staffed
    trial = begun(store, run, marks=True, scale="percent")
    truth = truth_of(store, trial)
    masks = {r["case_id"]: r["mask"] for r in store.query("SELECT * FROM trial_cases WHERE trial = ?", [trial])}
    arms = plan.parts_of(planned(run))
    for part in range(2):
        for reader in READERS:
            plan.open_part(store, trial, reader)
            aided = arms[reader][part] == "aided"
            for case, kind in truth.items():
                context = asks(store, reader, case_id=case)
                if kind == "abnormal":
                    lesion = analysis.lesions(store, masks[case])[0]
                    ys, xs = np.nonzero(lesion)
                    k = len(ys) // 2
                    at = (float(xs[k]), float(ys[k])) if aided else (0.0, 0.0)
                    decisions.add_finding(context, "lesion", box=(*at, *at), rating=70)
                decide(store, case, reader, kind, rating=70 if kind == "abnormal" else 10)
            sessions.end_session(store, reader)
    found = analysis.figures(store, trial)
    values = np.array(found["analysis"]["Weighted JAFROC"]["values"])
    assert (values[1] > values[0]).all() and (values[0] <= 0.5).all()
    assert np.array(found["froc"][1][0])[1].max() > 0 == np.array(found["froc"][0][0])[1].max()


def test_a_wash_out_is_waited_for(staffed):
    store, run = staffed
    trial = begun(store, run, washout=28)
    read_all(store, trial, "ann", lambda case, arm: ("normal", None))
    (mine,) = plan.lists_of(store, "ann")
    assert (mine["part"], mine["state"], mine["read"]) == (2, "waits", 0)
    with pytest.raises(ValueError, match="opens on"):
        plan.open_part(store, trial, "ann")
    store.execute("UPDATE reading_sessions SET ended = '2020-01-01T00:00:00.000Z' WHERE reader = 'ann'")
    assert plan.lists_of(store, "ann")[0]["state"] == "ready" and plan.open_part(store, trial, "ann")


def test_nothing_of_a_trial_teaches_before_it_is_closed(staffed):
    store, run = staffed
    sick, well = (
        store.first("SELECT * FROM cases WHERE study = ? AND label = ? AND split = 'test'", [STUDY, label])
        for label in ("abnormal", "normal")
    )
    drawn = np.zeros((sick["height"], sick["width"]), np.uint8)
    drawn[10:30, 10:30] = 1
    save_mask(store, sick["id"], drawn, "dora")  # not even what others have marked on its cases before
    decide(store, sick["id"], "dora", "abnormal")
    decide(store, well["id"], "dora", "normal")

    def taught() -> tuple[list[int], list[int]]:
        return [r["case_id"] for r in marks.accepted(store, STUDY)], marks.normal_cases(store, STUDY)

    assert taught() == ([sick["id"]], [well["id"]])
    trial = plan.make(store, STUDY, planned(run), "root")
    assert taught() == ([sick["id"]], [well["id"]])  # planned, not begun
    plan.start(store, trial, "root")
    assert taught() == ([], [])
    for reader in READERS:
        read_all(store, trial, reader, lambda case, arm: ("abnormal" if case == sick["id"] else "normal", None))
    assert taught() == ([], [])  # each reader's list is closed, the trial is not
    plan.close(store, trial, "root")
    assert taught()[0] == [sick["id"]] and len(taught()[1]) > 1


def test_a_panel_is_a_reference(staffed):
    store, run = staffed
    ids = [r["id"] for r in store.query("SELECT id FROM cases WHERE study = ? AND split = 'test' ORDER BY id", [STUDY])]
    for place, case in enumerate(ids):
        decide(store, case, "dora", "abnormal" if place % 2 else "normal")
        decide(store, case, "emil", "abnormal" if place % 2 or place == 0 else "normal")
    made = {"reference": "panel", "panel": ("dora", "emil"), "disagreement": "left out"}
    truth = truth_of(store, plan.make(store, STUDY, planned(run, **made), "root"))
    assert ids[0] not in truth and truth == {i: ("abnormal" if k % 2 else "normal") for k, i in enumerate(ids) if k}
    decide(store, ids[0], "root", "abnormal", adjudication=True)
    made["disagreement"] = "adjudication"
    assert truth_of(store, plan.make(store, STUDY, planned(run, **made), "root"))[ids[0]] == "abnormal"


def test_a_summary_of_a_trials_list_can_be_read_once_it_is_closed(staffed):
    store, run = staffed
    trial = begun(store, run)
    read_all(store, trial, "ann", lambda case, arm: ("normal", None))
    plan.close(store, trial, "root")
    number = store.first("SELECT session FROM trial_parts WHERE session IS NOT NULL")["session"]
    held = sessions.get_session(store, number, "ann")
    assert session_report.sheet(store, held, True)["which"] == session_report.TRIAL


@pytest.mark.slow
def test_the_report_holds_the_figures_and_lists_that_others_read(staffed, tmp_path):
    store, run = staffed
    trial = begun(store, run, repeats=2)
    truth = truth_of(store, trial)
    for reader, arms in plan.parts_of(planned(run, repeats=2)).items():
        for _ in arms:
            read_all(store, trial, reader, lambda case, arm: ("unsure" if arm == "unaided" else truth[case], None))
    with pytest.raises(ValueError, match="closed"):
        report.write(store, trial, tmp_path / "out")
    plan.close(store, trial, "root")
    done = report.write(store, trial, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(report.FILES)
    page = (tmp_path / "out/report.html").read_text()
    assert done["digest"] in page and "Changes of decision" in page and not any(f">{name}<" in page for name in READERS)
    assert (tmp_path / "out/report.pdf").read_bytes().startswith(b"%PDF")
    for file in ("plan.json", "figures.json", "imrmc.csv", "truth.csv"):
        text = (tmp_path / "out" / file).read_text()
        assert not any(name in text for name in READERS), f"{file} holds a reader's name"
    assert json.loads((tmp_path / "out/plan.json").read_text())["plan"]["readers"] == ["R1", "R2", "R3"]
    with (tmp_path / "out/imrmc.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["readerID", "caseID", "modalityID", "score"]
    assert {r["caseID"]: r["score"] for r in rows if r["modalityID"] == "truth"} == {
        str(k + 1): str(int(t == "abnormal")) for k, t in enumerate(truth.values())
    }
    # Read back, the list gives the same analysis.
    n = len(truth)
    cells = {(r["modalityID"], r["readerID"], int(r["caseID"])): float(r["score"]) for r in rows}
    ratings = [[[cells[a, f"R{j + 1}", k + 1] for k in range(n)] for j in range(3)] for a in ("unaided", "aided")]
    again = mrmc.analyse(mrmc.area(np.array(ratings), np.array([t == "abnormal" for t in truth.values()])))
    figures = json.loads((tmp_path / "out/figures.json").read_text())["analysis"]["Area under the ROC curve"]
    assert again.tests["both"].p == figures["tests"]["both"]["p"]
    with (tmp_path / "out/truth.csv").open() as file:
        assert sum(r["LesionID"] == "1" for r in csv.DictReader(file)) == sum(t == "abnormal" for t in truth.values())


def lesion(x0: int, x1: int) -> np.ndarray:
    mask = np.zeros((20, 40), bool)
    mask[5:15, x0:x1] = True
    return mask


def test_a_mark_hits_by_centre_or_by_overlap():
    lesions = [lesion(0, 10), lesion(20, 30)]
    marks = [Mark(70, (4.5, 8)), Mark(90, (9, 14)), Mark(50, (15, 8)), Mark(20, (39, 19)), Mark(10, (-1, 8))]
    assert hits(marks, lesions, "centre") == Marked((90, -np.inf), (50, 20, 10))
    near = Mark(60, (15, 8), lesion(8, 18))  # 2 of 18 columns in common
    far = Mark(60, (15, 8), lesion(9, 25))  # 5 of 21 with the second, 1 of 25 with the first
    less = Mark(40, (4, 8), lesion(9, 19))  # 1 of 19
    assert hits([near, less], lesions, "overlap") == Marked((60, -np.inf), (40,))
    assert hits([far], lesions, "overlap") == Marked((-np.inf, 60), ())
    assert hits([near], lesions, "centre") == Marked((-np.inf, -np.inf), (60,))
    assert hits([near], [], "overlap") == Marked((), (60,))
    with pytest.raises(ValueError, match="centre, overlap"):
        hits([], lesions, "touch")


def reads(seed: int = 0, n: int = 24, skill: float = 1.0) -> tuple[list[Marked], np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.5
    truth[:4] = [True, True, False, False]
    out = []
    for sick in truth:
        rated = [
            float(np.round(rng.normal(skill), 1)) if rng.random() < 0.8 else -np.inf
            for _ in range(rng.integers(1, 4) if sick else 0)
        ]
        misses = [float(np.round(rng.normal(), 1)) for _ in range(rng.poisson(0.6))]
        out.append(Marked(tuple(rated), tuple(misses)))
    return out, truth


def literal(read, truth, weights=None) -> float:
    """Chakraborty's sum as it is printed: over normal cases, abnormal cases and their lesions."""
    total = pairs = 0.0
    for i, normal in enumerate(read):
        if truth[i]:
            continue
        worst = max(normal.false_positives) if normal.false_positives else -np.inf
        for j, abnormal in enumerate(read):
            if not truth[j]:
                continue
            pairs += 1
            for k, rating in enumerate(abnormal.lesions):
                w = weights[j][k] if weights else 1 / len(abnormal.lesions)
                total += w * (1.0 if rating > worst else 0.5 if rating == worst else 0.0)
    return total / pairs


@pytest.mark.parametrize("seed", range(4))
def test_weighted_jafroc_is_the_literal_sum_and_the_area_below_its_curve(seed):
    read, truth = reads(seed)
    figure = analysis.jafroc(read, truth)
    assert figure.value == pytest.approx(literal(read, truth), abs=1e-12)
    x, y = analysis.afroc(read, truth)
    assert np.trapezoid(y, x) == pytest.approx(float(figure.value), abs=1e-12)
    weights = {j: np.random.default_rng(j).dirichlet(np.ones(len(read[j].lesions))) for j in np.flatnonzero(truth)}
    assert analysis.jafroc(read, truth, weights).value == pytest.approx(literal(read, truth, weights), abs=1e-12)
    with pytest.raises(ValueError, match="sum to 1"):
        analysis.jafroc(
            read, truth, {int(np.flatnonzero(truth)[0]): [0.3] * len(read[np.flatnonzero(truth)[0]].lesions)}
        )


def test_the_jackknife_of_jafroc_is_that_of_leaving_cases_out():
    read, truth = reads(9)
    figure = analysis.jafroc(read, truth)
    without = []
    for k in range(len(truth)):
        left = [i for i in range(len(truth)) if i != k]
        without.append(literal([read[i] for i in left], truth[left]))
    n = len(truth)
    assert mrmc.covariances(figure)[0, 0] == pytest.approx((n - 1) / n * n * np.var(without), rel=1e-9)


def test_froc_counts_false_positives_an_image_and_lesions_that_are_hit():
    read = [Marked((3.0, -np.inf), (1.0,)), Marked((), (2.0, 1.0)), Marked((1.0,), ())]
    x, y = analysis.froc(read, np.array([True, False, True]))
    assert (x, y) == (pytest.approx([0, 0, 1 / 3, 1]), pytest.approx([0, 1 / 3, 1 / 3, 2 / 3]))


def test_readers_who_localise_better_in_one_arm_are_found():
    rows = [[analysis.jafroc(*reads(20, 80, skill)) for skill in (0.3, 0.4, 0.35)], []]
    rows[1] = [analysis.jafroc(*reads(20, 80, skill)) for skill in (2.0, 2.1, 2.2)]
    figure = Figure(*(np.stack([np.stack([np.asarray(f[k]) for f in row]) for row in rows]) for k in range(3)))
    found = mrmc.analyse(figure)
    assert found.tests["both"].difference < -0.05 and found.tests["both"].p < 0.01
