"""Writes the files of a trial's report: HTML page, PDF, CSV lists for iMRMC and RJafroc, plan and figures as JSON.

The files contain neither people's names nor the studio's case ids: readers are called R1, R2, ..., members of the panel
P1, P2, ..., and cases 1, 2, ... in the order of the plan. The digest is that of the plan with people's names.
"""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from core.studio.db.store import Store, now
from core.studio.trials import analysis, mrmc, plan
from core.studio.trials.analysis import Reads
from core.studio.trials.mrmc import Binormal
from core.studio.trials.options import DESIGNS

FILES = ("report.html", "report.pdf", "imrmc.csv", "truth.csv", "tp.csv", "fp.csv", "plan.json", "figures.json")
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")  # Paul Tol's bright
NAMED = ("readers", "panel", "within", "by_reader", "read")  # keys of the plan and the figures that hold names
Table = tuple[str, str, list[str], list[list[str]]]  # title, note, head, rows

STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}
table{border-collapse:collapse;margin:.4rem 0 1.2rem;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .7rem;text-align:left;border-bottom:1px solid #ddd}th{font-weight:600}h2{margin:1.8rem 0 .3rem}
p.note{color:#555;margin:.1rem 0}img{max-width:100%}@media print{h2{break-after:avoid}table,img{break-inside:avoid}}"""


def write(store: Store, trial: int, folder: Path) -> dict[str, Any]:
    """Writes FILES to a folder; returns {"trial", "digest", "files"}. Raises ValueError if the trial is not closed."""
    row = plan.get(store, trial)
    if not row["closed"]:
        raise ValueError("The trial is not closed: close it first, because readers must not see results before.")
    reads = analysis.collect(store, trial)
    names = {name: f"P{j + 1}" for j, name in enumerate(row["plan"].panel)}
    names |= {name: f"R{j + 1}" for j, name in enumerate(reads.readers)}
    results = _coded(analysis.figures(store, trial), names)
    folder.mkdir(parents=True, exist_ok=True)
    pictures = drawn(results, row["plan"].marks)
    (folder / "report.html").write_text(page(row, results, pictures), "utf-8")
    _pdf(folder / "report.pdf", row, results, pictures)
    for name, text in lists(store, reads).items():
        (folder / name).write_text(text, "utf-8")
    dates = {"digest": row["digest"], **{k: row[k] for k in ("created", "started", "frozen", "closed")}}
    for file, content in (("plan", {"plan": _coded(row["plan"].to_dict(), names), **dates}), ("figures", results)):
        (folder / f"{file}.json").write_text(json.dumps(content, indent=1) + "\n")
    return {"trial": trial, "digest": row["digest"], "files": list(FILES)}


def _coded(value: Any, names: dict[str, str], here: bool = False) -> Any:
    """Replaces people's names by codes under the keys NAMED. `here` is whether `value` itself is under such a key."""
    if isinstance(value, dict):
        return {names.get(k, k) if here else k: _coded(v, names, k in NAMED) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_coded(item, names, here) for item in value]
    return names.get(value, value) if here and isinstance(value, str) else value


def bundled(folder: Path) -> bytes:
    """Returns a zip archive of the FILES in a report's folder."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name in FILES:
            file.write(folder / name, name)
    return out.getvalue()


def lists(store: Store, reads: Reads) -> dict[str, str]:
    """Returns CSV lists for iMRMC and RJafroc by file name. They contain only the complete cases, like the analysis.

    imrmc.csv has the columns readerID, caseID, modalityID and score; in rows with readerID -1, the score is the ground
    truth. truth.csv, fp.csv and tp.csv are the sheets TRUTH, FP and TP of an RJafroc workbook.
    """
    complete = np.flatnonzero(reads.complete)
    imrmc = [[-1, k + 1, "truth", int(reads.truth[k])] for k in complete]
    for i, arm in enumerate(reads.arms):
        for j in range(len(reads.readers)):
            imrmc += [[f"R{j + 1}", k + 1, arm, _number(reads.ratings[i, j, k])] for k in complete]
    tables = {"imrmc.csv": (["readerID", "caseID", "modalityID", "score"], imrmc)}
    marks = analysis.assigned_marks(store, reads)
    truth: list[list] = []
    hit: list[list] = []
    false_positives: list[list] = []
    codes = [f"R{j + 1}" for j in range(len(reads.readers))]
    for index, k in enumerate(complete):
        lesions = len(marks[0][0][index].lesions) if marks else int(reads.truth[k])
        for n in range(max(lesions, 1)):
            weight = 1 / lesions if lesions else 0
            labels = [", ".join(codes), ", ".join(reads.arms), "FROC" if marks else "ROC"]
            truth.append([k + 1, n + 1 if lesions else 0, _number(weight), *labels])
        for i, arm in enumerate(reads.arms):
            for j, code in enumerate(codes):
                if marks:
                    read = marks[i][j][index]
                    false_positives += [[code, arm, k + 1, _number(v)] for v in read.false_positives]
                    hit += [[code, arm, k + 1, n + 1, _number(v)] for n, v in enumerate(read.lesions) if np.isfinite(v)]
                elif reads.truth[k]:
                    hit.append([code, arm, k + 1, 1, _number(reads.ratings[i, j, k])])
                else:
                    false_positives.append([code, arm, k + 1, _number(reads.ratings[i, j, k])])
    tables["truth.csv"] = (["CaseID", "LesionID", "Weight", "ReaderID", "ModalityID", "Paradigm"], truth)
    tables["fp.csv"] = (["ReaderID", "ModalityID", "CaseID", "FP_Rating"], false_positives)
    tables["tp.csv"] = (["ReaderID", "ModalityID", "CaseID", "LesionID", "TP_Rating"], hit)
    return {name: _csv(head, rows) for name, (head, rows) in tables.items()}


def _number(value: float) -> str:
    return f"{value:.6g}"


def _csv(head: list[str], rows: list[list]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()


def _f(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _with(row: dict | None) -> str:
    """Formats a value with its interval."""
    if row is None or row["value"] is None:
        return "–"
    return f"{row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f})"


def tables(row: dict[str, Any], results: dict[str, Any]) -> list[Table]:
    """Returns the tables of the report, each as (title, note, column heads, rows).

    row: Row of the trial, as returned by `plan.get`.
    results: Results of the trial, as returned by `analysis.figures`, with readers' codes instead of names.
    """
    trial_plan = row["plan"]
    codes = results["readers"]
    out: list[Table] = [_of_plan(row), _of_flow(results)]
    if not results["enough"]:
        return out
    truth = "imported labels" if trial_plan.reference == "labels" else f"a panel of {len(trial_plan.panel)}"
    against = f"Reference standard: {truth}, fixed on {row['created'][:10]}."
    if results["analysis"]:
        rows = []
        for measure, result in results["analysis"].items():
            for test in result["tests"].values():
                df = f"{test['df1']:g}, {'∞' if test['df2'] is None else format(test['df2'], '.2f')}"
                rows.append([
                    measure, test["generalises"], f"{-test['difference']:+.4f}",
                    f"{-test['high']:+.4f} to {-test['low']:+.4f}", _f(test["error"], 4), _f(test["statistic"], 3), df,
                    _p(test["p"]),
                ])  # fmt: skip
        head = ["Measure", "Generalises to", "Aided minus unaided", "95 % interval", "Standard error", "F", "df", "p"]
        note = f"Obuchowski-Rockette with Hillis' degrees of freedom; covariances by {results['method']}. {against}"
        out.append(("Effect of AI assistance", note, head, rows))
        rows = [
            [name, arm, f"{a['mean']:.4f} ({max(a['low'], 0.0):.4f} to {min(a['high'], 1.0):.4f})"]
            for name, result in results["analysis"].items()
            for arm, a in zip(results["arms"], result["arms"], strict=True)
        ]
        out.append(
            (
                "Results by arm",
                f"Mean over readers, with random readers and cases; intervals are clipped to 0 and 1. {against}",
                ["Measure", "Arm", "Mean (95 %)"],
                rows,
            )
        )
        rows = [
            [name, *(f"{result['components'][k]:.6f}" for k in ("error", "cov1", "cov2", "cov3")),
             f"{result['reader_variance']:.6f}", f"{result['interaction_variance']:.6f}"]
            for name, result in results["analysis"].items()
        ]  # fmt: skip
        head = ["Measure", "Error", "Cov1", "Cov2", "Cov3", "Reader", "Arm x reader"]
        out.append(("Variance components", "For planning further trials.", head, rows))
    rows = []
    for arm, arm_rows in zip(results["arms"], results["by_reader"], strict=True):
        for code, fit_row in zip(codes, arm_rows, strict=True):
            fit = fit_row["binormal"]
            rows.append([
                code, arm, _with(fit_row["area"]), "–" if fit is None else f"{fit['area']:.3f} ({fit['error']:.3f})",
                _f(fit_row.get("jafroc")), _with(fit_row["sensitivity"]), _with(fit_row["specificity"]),
            ])  # fmt: skip
    head = ["Reader", "Arm", "Area (95 %)", "Binormal (SE)", "JAFROC", "Sensitivity", "Specificity"]
    note = f"Unsure counts as abnormal. A dash under binormal means that no binormal curve could be fitted. {against}"
    out.append(("Results by reader", note, head, rows))
    if "machine" in results:
        m = results["machine"]
        out.append(
            (
                "AI alone",
                against,
                ["Sensitivity", "Specificity"],
                [[_with(m["sensitivity"]), _with(m["specificity"])]],
            )
        )
    if "changes" in results:
        rows = [
            [code, str(c["both_right"]), str(c["helped"]), str(c["harmed"]), str(c["both_wrong"]), _p(c["p"]),
             _share(c.get("corrected")), _share(c.get("misled"))]
            for code, c in zip(codes, results["changes"], strict=True)
        ]  # fmt: skip
        head = ["Reader", "Correct in both", "Helped", "Harmed", "Wrong in both", "McNemar p", "Corrected", "Misled"]
        note = (
            "Helped: only the aided decision is correct. Harmed: only the unaided decision is correct. Corrected: "
            "wrong decisions that a correct AI result changed. Misled: correct decisions that a wrong one changed."
        )
        out.append(("Changes of decision", note, head, rows))
    return out + _of_agreement(results)


def _share(row: dict | None) -> str:
    return "–" if row is None or not row["n"] else f"{row['hits']} of {row['n']}"


def _of_plan(row: dict[str, Any]) -> Table:
    trial_plan = row["plan"]
    rows = [
        ["Arms", f"{trial_plan.design}: {DESIGNS[trial_plan.design]}"],
        ["Readers", str(len(trial_plan.readers))],
        ["Cases", "all test cases with ground truth" if trial_plan.cases == "all" else
         f"random sample: {trial_plan.normal} normal, {trial_plan.abnormal} abnormal"],
        ["Wash-out", f"{trial_plan.washout} days"],
        ["Cases read twice", str(trial_plan.repeats)],
        ["Scale", ("0 to 100, and " if trial_plan.scale == "percent" else "") + "normal, unsure, abnormal"],
        ["Lesion marks", f"yes; hit criterion: {trial_plan.rule}" if trial_plan.marks else "none"],
        ["Run shown in the aided arm", trial_plan.run or "none"],
        ["Reference standard", "imported labels" if trial_plan.reference == "labels" else
         f"panel of {len(trial_plan.panel)}, blind to {trial_plan.blind_to}; disagreements: {trial_plan.disagreement}"],
        ["Date of the reference standard", row["created"]],
        ["Seed", str(trial_plan.seed)],
        ["Difference to detect", f"{trial_plan.difference:g}"],
        ["Started, frozen, closed", " / ".join((row[k] or "–")[:19] for k in ("started", "frozen", "closed"))],
        ["Digest of the plan", row["digest"]],
    ]  # fmt: skip
    return ("The plan", "The plan as it was when the first decision was stored.", ["", ""], rows)


def _of_flow(results: dict[str, Any]) -> Table:
    flow = results["flow"]
    patients = flow["patients"]
    rows = [
        ["Test cases of the study", str(flow["in_study"])],
        ["In the trial", f"{flow['in_trial']} ({flow['normal']} normal, {flow['abnormal']} abnormal)"],
        *([["Patients", f"{patients}; images of the same patient are analysed as if they were independent"]]
          if patients is not None and patients < flow["in_trial"] else []),
        *([f"Read by {code}", ", ".join(f"{arm} {n}" for arm, n in read.items())]
          for code, read in flow["read"].items()),
        ["Excluded: not read by all readers in all arms", str(flow["left_out"])],
        ["Analysed", f"{flow['analysed']['normal']} normal, {flow['analysed']['abnormal']} abnormal"],
    ]  # fmt: skip
    return ("Flow of cases", "", ["", ""], rows)


def _of_agreement(results: dict[str, Any]) -> list[Table]:
    rows = [
        [arm, " and ".join(pair["readers"]), _kappa(pair)]
        for arm, pairs in results["kappa"]["between"].items()
        for pair in pairs
    ]
    rows += [["read twice", name, _kappa(figure)] for name, figure in results["kappa"]["within"].items()]
    out: list[Table] = [
        ("Agreement", "Cohen's kappa of normal, unsure, abnormal.", ["Arm", "Readers", "Kappa (95 %)"], rows)
    ]
    rows = [
        [name, *(f"{t['median']:.1f} ({t['low']:.1f} to {t['high']:.1f})" if t else "–" for t in arms.values())]
        for name, arms in results["seconds"]["by_reader"].items()
    ]
    ratio = results["seconds"]["ratio"]
    note = "Seconds per case: median and quartiles."
    if ratio:
        note += f" Aided reading takes {ratio['ratio']:.2f} times as long ({ratio['low']:.2f} to {ratio['high']:.2f})."
    out.append(("Time", note, ["Reader", *results["arms"]], rows))
    return out


def _kappa(row: dict) -> str:
    return "–" if row["kappa"] is None else f"{row['kappa']:.3f} ({row['low']:.3f} to {row['high']:.3f}), n {row['n']}"


def drawn(results: dict[str, Any], marks: bool) -> list[tuple[str, Any]]:
    """Draws the case flow, and ROC, FROC and AFROC curves if there are results for them; returns [(title, figure)]."""
    out = [("Flow of cases", _flow_figure(results))]
    if results["enough"]:
        curves = [[reader_row["points"] for reader_row in arm] for arm in results["by_reader"]]
        out.append(("ROC curves", _curves(results, curves, "False positive fraction", "Sensitivity", fits=True)))
    if marks and "froc" in results:
        for kind, x in (
            ("froc", "False positives per image"),
            ("afroc", "Fraction of normal cases with a false positive"),
        ):
            turned = [[np.array(curve).T.tolist() for curve in arm] for arm in results[kind]]
            out.append((f"{kind.upper()} curves", _curves(results, turned, x, "Fraction of lesions hit", fits=False)))
    return out


def _figure(width: float, height: float, count: int = 1):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, count, squeeze=False)[0]


def _flow_figure(results: dict[str, Any]):
    flow = results["flow"]
    read = [f"R{j + 1}: {', '.join(f'{a} {n}' for a, n in r.items())}" for j, r in enumerate(flow["read"].values())]
    boxes = [
        f"{flow['in_study']} test cases of the study",
        f"{flow['in_trial']} in the trial\n{flow['normal']} normal, {flow['abnormal']} abnormal",
        "Read\n" + "\n".join(read),
        f"Analysed\n{flow['analysed']['normal']} normal, {flow['analysed']['abnormal']} abnormal",
    ]
    aside = {
        1: f"{flow['in_study'] - flow['in_trial']} not in the trial",
        3: f"{flow['left_out']} not read by all readers in all arms",
    }
    figure, (axes,) = _figure(7, 2.6 + 0.22 * len(read) + 1.4)
    axes.axis("off")
    axes.set(xlim=(0, 10), ylim=(-3.6, 0.7))
    style = {"boxstyle": "round,pad=0.5", "fc": "white", "ec": "#444"}
    for i, text in enumerate(boxes):
        axes.text(3.2, -i * 1.05, text, ha="center", va="center", fontsize=8.5, bbox=style, zorder=2)
        if i:
            axes.annotate(
                "",
                (3.2, -i * 1.05),
                (3.2, -(i - 1) * 1.05),
                arrowprops={"arrowstyle": "-|>", "color": "#444"},
                zorder=0,
            )
        if i in aside:
            y = -(i - 0.5) * 1.05
            axes.annotate("", (6.1, y), (3.2, y), arrowprops={"arrowstyle": "-|>", "color": "#444"}, zorder=0)
            axes.text(6.2, y, aside[i], ha="left", va="center", fontsize=8.5, bbox=style)
    return figure


def _curves(results: dict[str, Any], curves: list[list], x: str, y: str, fits: bool):
    figure, all_axes = _figure(4.2 * len(results["arms"]), 4.2, len(results["arms"]))
    for i, (axes, arm) in enumerate(zip(all_axes, results["arms"], strict=True)):
        for j, curve in enumerate(curves[i]):
            at, colour = np.array(curve), COLOURS[j % len(COLOURS)]
            axes.plot(at[:, 0], at[:, 1], "o-", ms=3, lw=1.3, color=colour, label=f"R{j + 1}")
            fit = results["by_reader"][i][j]["binormal"] if fits else None
            if fit:
                grid = np.linspace(1e-4, 1 - 1e-4, 300)
                axes.plot(grid, Binormal(**fit).curve(grid), ":", lw=1, color=colour)
        axes.set(
            xlabel=x, ylabel=y, title=arm, ylim=(-0.02, 1.02), xlim=(-0.02, 1.02) if "fraction" in x.lower() else None
        )
        axes.legend(loc="lower right", fontsize=8, frameon=False)
        axes.grid(alpha=0.25)
    return figure


CAPTIONS = {"ROC curves": "Solid lines are empirical curves; dotted lines are binormal fits, if they exist."}


def page(row: dict[str, Any], results: dict[str, Any], pictures: list[tuple[str, Any]]) -> str:
    """Returns the report as a self-contained HTML page. `pictures` is a result of `drawn`."""
    escape = html.escape
    sections = [
        f"<h1>{escape(row['name'])}</h1><p class=note>A reader trial. Made {now()[:10]} by PMSACL Studio. {WARNING}</p>"
    ]
    remaining = dict(pictures)
    for title, note, head, rows in tables(row, results):
        sections.append(f"<h2>{escape(title)}</h2>" + (f"<p class=note>{escape(note)}</p>" if note else ""))
        if title in remaining:
            sections.append(_image(title, remaining.pop(title)))
        top = "".join(f"<th>{escape(c)}</th>" for c in head) if any(head) else ""
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in line) + "</tr>" for line in rows)
        sections.append(f"<table>{f'<tr>{top}</tr>' if top else ''}{body}</table>")
    for title, figure in remaining.items():
        sections.append(f"<h2>{escape(title)}</h2><p class=note>{CAPTIONS.get(title, '')}</p>{_image(title, figure)}")
    title = escape(row["name"])
    top = f"<meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
    return f"<!doctype html><html lang=en>{top}{''.join(sections)}</html>\n"


WARNING = "For research; not a medical device."


def _image(title: str, figure) -> str:
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return (
        f'<img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{base64.b64encode(out.getvalue()).decode()}">'
    )


LENGTH, WIDTH = 0.88 * 11.69 * 72, 100  # text area of a page: height in points, width in characters at 8 points


def _pdf(path: Path, row: dict[str, Any], results: dict[str, Any], pictures: list[tuple[str, Any]]) -> None:
    """Writes the tables on A4 pages, then each figure on a page."""
    import textwrap

    from matplotlib.backends.backend_pdf import PdfPages

    with PdfPages(path, metadata={"Title": row["name"], "CreationDate": None}) as file:
        figure: Any = None
        axes: Any = None
        y = 0.0

        def fresh():
            nonlocal figure, axes, y
            if figure is not None:
                file.savefig(figure)
            figure, (axes,) = _figure(8.27, 11.69)
            figure.set_layout_engine("none")
            axes.set_position([0.09, 0.06, 0.82, 0.88])
            axes.axis("off")
            axes.set(xlim=(0, 1), ylim=(0, 1))
            y = 1.0

        def line(text: str, size: float, weight: str = "normal", step: float = 1.35) -> None:
            nonlocal y
            if axes is None or y < 0.03:
                fresh()
            axes.text(0, y, text, fontsize=size, weight=weight, va="top", parse_math=False)
            y -= step * size / LENGTH

        line(row["name"], 15, "bold", 1.6)
        line(f"A reader trial. Made {now()[:10]} by PMSACL Studio. {WARNING}", 8)
        for title, note, head, rows in tables(row, results):
            if y < 0.12:
                fresh()
            y -= 0.012
            line(title, 11, "bold", 1.5)
            for words in textwrap.wrap(note, 120):
                line(words, 7.5)
            lines = ([head] if any(head) else []) + rows
            widths = [max(len(cell[i]) for cell in lines) for i in range(len(head))]
            total = sum(min(w, 70) + 2 for w in widths)
            size = min(8.0, 8.0 * WIDTH / total)
            for k, cells in enumerate(lines):
                bold = "bold" if k == 0 and any(head) else "normal"
                wrapped = [textwrap.wrap(cell, 70) or [""] for cell in cells]
                for n in range(max(map(len, wrapped))):
                    if y < 0.03:
                        fresh()
                    at = 0.0
                    for w, cell_lines in zip(widths, wrapped, strict=True):
                        text = cell_lines[n] if n < len(cell_lines) else ""
                        axes.text(at, y, text, fontsize=size, weight=bold, va="top", parse_math=False)
                        at += (min(w, 70) + 2) / total * min(1.0, total * size / 8.0 / WIDTH)
                    y -= 1.4 * size / LENGTH
        file.savefig(figure)
        for title, picture in pictures:
            picture.suptitle(title, fontsize=11, weight="bold")
            file.savefig(picture, bbox_inches="tight", pad_inches=0.6)


def sizes(difference: float, area: float, abnormal: float) -> list[dict]:
    """Returns the power to detect a difference in AUROC with various numbers of readers and cases (`sample_sizes`)."""
    return mrmc.sample_sizes(difference, mrmc.Expected(area=area, abnormal=abnormal))
