"""bench NAME: one measurement that anybody can repeat; the result has a "ratio"."""

from __future__ import annotations

from app.commands._common import finish, say, verb


def add(subparsers) -> None:
    parser = verb(subparsers, "bench", "Run a benchmark by name, or list them", run)
    parser.add_argument("name", nargs="?", help="a benchmark, or all that have an aim")
    parser.add_argument(
        "--only", action="append", metavar="PART", help="part of a long one, or one of all (repeatable)"
    )
    parser.add_argument("--seconds", type=float, help="how long to measure, where the benchmark has a length")
    parser.add_argument("--soak", action="store_true", help="an hour at a lower rate (load)")
    parser.add_argument("--decisions", type=int, help="without pauses until so many, for the server's memory (load)")
    parser.add_argument("--data", metavar="FOLDER", help="the images, where the benchmark needs some of its own")
    parser.add_argument("--quick", action="store_true", help="a smaller measurement, to see that it works")


def run(args) -> int:
    from app import benches as bench

    if args.name is None:
        found = bench.titles()
        for name, title in found.items():
            say(args, f"{name:16} {title}")
        return finish(args, {"benches": found})
    if args.name == "all":
        result = bench.run_all(args.quick, args.device, args.only)
        for row in result["benches"]:
            aim = f"{'at least' if row['at_least'] else 'at most'} {row['aim']:g}"
            figure = row.get("error") or f"{row['figure']} {row[row['figure']]:.3g}"
            say(args, f"{row['name']:16} {figure} (aim: {aim}){'' if row['met'] else ', not met'}")
        return finish(args, result)
    result = bench.run(
        args.name, args.quick, args.device, args.only, args.seconds, args.soak, args.data, args.decisions
    )
    for key, value in result.items():
        say(args, f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}")
    return finish(args, result)
