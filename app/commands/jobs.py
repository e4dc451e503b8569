"""jobs: list, pause, resume, cancel, follow, stop."""

from __future__ import annotations

from app.commands._common import finish, follow, open_store, say, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "jobs", "List the jobs; pause, resume, cancel or follow one; stop: pause all", run)
    parser.add_argument(
        "what", nargs="?", default="list", choices=("list", "pause", "resume", "cancel", "follow", "stop")
    )
    parser.add_argument("job", nargs="?", type=int)


def run(args) -> int:
    from core.studio.jobs import queue as jobs

    store = open_store(args)
    if args.what == "list":
        rows = jobs.list_jobs(store)
        training = next((r["id"] for r in rows if r["status"] == "running" and r["queue"] == "long"), None)
        for row in rows:
            steps = " > ".join(("*" if i == row["position"] else "") + s["step"] for i, s in enumerate(row["chain"]))
            beside = training and row["status"] == "running" and row["queue"] == "short"
            message = row["message"] + (f" (beside job {training})" if beside else "")
            say(args, f"{row['id']:4}  {row['status']:11} {row['progress']:4.0%}  {steps}  {message}")
        return finish(args, {"jobs": [as_json(r) for r in rows]}, None if rows else "No jobs yet")
    if args.what == "stop":
        from core.studio.jobs import stopping

        paused = stopping.pause(store)
        return finish(args, {"paused": paused}, stopping.sentence(store, paused) or "Nothing is at work")
    if args.job is None:
        raise ValueError(f"jobs {args.what} takes the number of a job")
    if args.what == "follow":
        follow(args, store, args.job, f"Job {args.job}")
    else:
        {"pause": jobs.pause, "resume": jobs.resume, "cancel": jobs.cancel}[args.what](store, args.job)
    row = jobs.get_job(store, args.job)
    asked = f" (asked to {row['wants']})" if row["wants"] != "run" and row["status"] == "running" else ""
    return finish(args, as_json(row), f"Job {args.job}: {row['status']}{asked}")


def as_json(row: dict) -> dict:
    """A job's row for --json: `step` and `queue` under the names that readers of version 0.1's output know."""
    other = {k: v for k, v in row.items() if k not in ("step", "queue", "chain")}
    chain = [{"verb": one["step"], "run": one["run"], "args": one["args"]} for one in row["chain"]]
    return {**other, "verb": row["step"], "lane": row["queue"], "chain": chain}
