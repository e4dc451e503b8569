"""The report as a step of a job: queued behind trainings, paused and resumed like them."""

from __future__ import annotations

from core.studio.jobs.steps import Work, step


@step("report", long=True)
def report_step(work: Work) -> None:
    """Makes a report, as a job's step.

    args: study, tables, rows (labels, or none for all), seeds, out; and the options of `make_report`.
    """
    from core.studio.report.asked import FILES
    from core.studio.report.report import make_asked  # matplotlib, which no other step needs

    make_asked(work.store, work.args, work.report, work.should_stop)
    work.report({"message": f"Written: {', '.join(FILES.values())}"})  # all readers see it: no path
