"""A map as a table, CSV or Parquet: a row per point and epoch, with what the point is and what colours it."""

from __future__ import annotations

import csv
import io

import numpy as np

from core.studio.clusters import columns
from core.studio.clusters.library import Map
from core.studio.clusters.projected import Projected
from core.studio.db.store import Store
from core.studio.review.exports.names import Names

FORMATS = ("csv", "parquet")


def table(store: Store, m: Map, names: Names, fit: str | None = None) -> dict[str, list]:
    """column -> values, E x N of each, epoch by epoch: epoch, point, x, y, case_id, case, lesions, then the colours."""
    count, epochs = len(m.points), [e["epoch"] for e in m.about["epochs"]]
    rows = store.query("SELECT id, name FROM cases WHERE study = ?", [m.about["study"]])
    called = {c["id"]: c["name"] if names.keep else names.case(c) for c in rows}
    cases = m.points.case_id.tolist()
    out: dict[str, list] = {
        "epoch": np.repeat(epochs, count).tolist(),
        "point": list(range(count)) * len(epochs),
        "x": np.asarray(m.coords[:, :, 0], float).ravel().tolist(),
        "y": np.asarray(m.coords[:, :, 1], float).ravel().tolist(),
        "case_id": cases * len(epochs),
        "case": [called.get(c, "") for c in cases] * len(epochs),
        "pasted_lesions": m.points.lesions.tolist() * len(epochs),
    }
    for column in columns.with_names(columns.columns(store, m, fit), names):
        values = column.get("values") or [column["names"][c] for c in column["codes"]]
        values = [None if v == columns.NONE else v for v in values]
        out[column["name"]] = values * len(epochs)
    return out


def add_projected(out: dict[str, list], m: Map, projected: list[Projected]) -> None:
    """Rows of new images after those of the map, numbered on; two more columns: `placed` (by which name) and `far`."""
    rows = len(out["epoch"])
    out["placed"], out["far"] = [None] * rows, [None] * rows
    first = len(m.points)
    for new in projected:
        for e, epoch in enumerate(m.about["epochs"]):
            for j, (x, y) in enumerate(new.coords[e].astype(float).tolist()):
                case = new.about["cases"][j]
                row = {"epoch": epoch["epoch"], "point": first + j, "x": x, "y": y, "case": new.about["names"][j]}
                row |= {"case_id": case if case >= 0 else None, "placed": new.about["title"]}
                row["far"] = bool(new.out_of_support[e, j])
                for column, values in out.items():
                    values.append(row.get(column))
        first += len(new)


def write(
    store: Store, m: Map, format: str, names: Names, fit: str | None = None, projected: list[Projected] | None = None
) -> bytes:
    """The table as a file's bytes; `format` is csv or parquet; `projected`: with these new images."""
    if format not in FORMATS:
        raise ValueError(f"a table is saved as {', '.join(FORMATS)}, not {format!r}")
    found = table(store, m, names, fit)
    if projected:
        add_projected(found, m, projected)
    if format == "parquet":
        import pyarrow
        from pyarrow import parquet

        sink = io.BytesIO()
        parquet.write_table(pyarrow.table(found), sink)
        return sink.getvalue()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(found)
    for row in zip(*found.values(), strict=True):
        writer.writerow([_plain(v) for v in row])
    return out.getvalue().encode()


def _plain(value):
    """A spreadsheet must not take a file's name for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value
