"""The report as a step of a job: queued behind trainings, paused and resumed like them."""

from __future__ import annotations

from pathlib import Path

from core.studio.jobs.steps import Work, step


@step("report", long=True)
def report_step(work: Work) -> None:
    """args: study, tables, rows (labels, or none for all), seeds, out; and the options of `make_report`."""
    from core.studio.report.report import make_report  # matplotlib, which no other step needs
    from core.studio.report.tables import tables_of

    args = {k: v for k, v in work.args.items() if k not in ("tables", "rows", "out")}
    tables = [t for t in tables_of(work.args["tables"], args["budget"], work.args.get("rows")) if t.arms]
    out = Path(work.args["out"])
    made = make_report(work.store, tables=tables, out=out, report=work.report, should_stop=work.should_stop, **args)
    work.report({"message": f"Written: {made['out']}/report.html"})
