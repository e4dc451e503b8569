"""The report as a step of a job, which is queued, paused and resumed like a training."""

from __future__ import annotations

from core.studio.jobs.steps import Work, step


@step("report", long=True)
def report_step(work: Work) -> None:
    """Makes the report with the job's arguments, which are a result of `board.settings`."""
    from core.studio.report.board import FILES
    from core.studio.report.report import make_asked  # matplotlib, which no other step needs

    make_asked(work.store, work.args, work.report, work.should_stop)
    work.report({"message": f"Written: {', '.join(FILES.values())}"})  # all readers see it: no path
