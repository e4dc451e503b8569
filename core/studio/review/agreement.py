"""Agreement between readers: Cohen's and Fleiss' kappa with 95 % intervals, and the cases on which readers differ."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping

import numpy as np

from core.studio.db.store import Store
from core.studio.ingest.records import name_shown
from core.studio.review.decisions import DECISIONS

Z = 1.959963984540054  # standard normal quantile of a two-sided 95 % interval


def cohen(table: np.ndarray) -> dict:
    """Computes Cohen's kappa of two readers, with the 95 % interval of Fleiss, Cohen and Everitt (1969).

    table: Number of cases for each pair of decisions, (K, K), with the first reader's decisions in rows.

    Returns {"kappa", "low", "high", "n": number of cases, "agreement": fraction of cases on which the readers agree}.
    "kappa" and its limits "low" and "high" are None if there are no cases or if all decisions are the same.
    """
    n = float(table.sum())
    if n == 0:
        return {"kappa": None, "low": None, "high": None, "n": 0, "agreement": None}
    p = table / n
    rows, columns = p.sum(1), p.sum(0)
    observed, chance = float(np.trace(p)), float(rows @ columns)
    out = {"n": int(n), "agreement": observed}
    if chance >= 1 - 1e-12:
        return {**out, "kappa": None, "low": None, "high": None}
    kappa = (observed - chance) / (1 - chance)
    diagonal = np.diag(p)
    a = float((diagonal * (1 - (rows + columns) * (1 - kappa)) ** 2).sum())
    weights = (columns[:, None] + rows[None, :]) ** 2
    off = p * weights
    b = (1 - kappa) ** 2 * float(off.sum() - np.trace(off))
    c = (kappa - chance * (1 - kappa)) ** 2
    error = math.sqrt(max(a + b - c, 0) / n) / (1 - chance)
    return {**out, "kappa": kappa, "low": max(kappa - Z * error, -1.0), "high": min(kappa + Z * error, 1.0)}


def table_of(first: Mapping[int, str], second: Mapping[int, str]) -> np.ndarray:
    """Returns a table, int (3, 3), of two readers' decisions on the cases that both read, first reader in rows.

    first, second: Decisions of each reader by case id. Rows and columns follow the order of DECISIONS.
    """
    table = np.zeros((len(DECISIONS), len(DECISIONS)), int)
    for case in first.keys() & second.keys():
        table[DECISIONS.index(first[case]), DECISIONS.index(second[case])] += 1
    return table


def fleiss(counts: np.ndarray) -> dict:
    """Computes Fleiss' kappa of several readers, with a 95 % interval from a bootstrap over the cases.

    counts: For each of N cases, the number of readers who chose each of K decisions, (N, K).

    Returns {"kappa", "n": number of cases, "readers": number of readers, "low" and "high": limits of the interval}.
    Raises ValueError unless all cases were read by the same number of readers, at least two.
    """
    if len(counts) == 0:
        return {"kappa": None, "low": None, "high": None, "n": 0, "readers": 0}
    readers = int(counts[0].sum())
    if readers < 2 or (counts.sum(1) != readers).any():
        raise ValueError("Fleiss' kappa needs cases that were all read by the same number of readers, at least two")

    def kappa(c: np.ndarray) -> float:
        share = c.sum(0) / c.sum()
        case_agreement = ((c**2).sum(1) - readers) / (readers * (readers - 1))
        chance = float((share**2).sum())
        return float("nan") if chance >= 1 - 1e-12 else (float(case_agreement.mean()) - chance) / (1 - chance)

    value = kappa(counts)
    generator = np.random.default_rng(0)
    resampled = [kappa(counts[generator.integers(0, len(counts), len(counts))]) for _ in range(1000)]
    resampled = [v for v in resampled if not math.isnan(v)]
    low, high = np.percentile(resampled, (2.5, 97.5)) if resampled else (None, None)
    out = {"kappa": None if math.isnan(value) else value, "n": len(counts), "readers": readers}
    return {**out, "low": None if low is None else float(low), "high": None if high is None else float(high)}


def opinions(store: Store, study: str) -> dict[int, dict[str, str]]:
    """Returns each reader's last decision on each case, excluding adjudications, as {case id: {reader: decision}}."""
    rows = store.query(
        "SELECT k.case_id, k.reader, k.stage, k.decision FROM current_reviews k JOIN cases c ON c.id = k.case_id "
        "WHERE c.study = ? AND k.stage != 'adjudication' ORDER BY k.stage",
        [study],
    )
    by_case: dict[int, dict[str, str]] = {}
    for row in rows:
        by_case.setdefault(row["case_id"], {})[row["reader"]] = row["decision"]
    return by_case


def agreement(store: Store, study: str) -> dict:
    """Computes how well a study's readers agree in their last decisions, for each pair and for all together.

    Returns {"stage": "last", "readers": names of the readers, "decisions": DECISIONS, "pairs": for each pair of readers
    with common cases, {"readers", "confusion": result of `table_of`} and the keys of `cohen`, "fleiss": result of
    `fleiss` on the cases that all readers read, or None for fewer than three readers, "differ": cases on which readers
    differ, as [{"case": id, "name", "decisions": {reader: decision}, "adjudication"}]}.
    """
    decisions = opinions(store, study)
    readers = sorted({r for case in decisions.values() for r in case})
    by_reader = {r: {i: case[r] for i, case in decisions.items() if r in case} for r in readers}
    pairs = []
    for a, b in itertools.combinations(readers, 2):
        table = table_of(by_reader[a], by_reader[b])
        if table.sum():
            pairs.append({"readers": [a, b], "confusion": table.tolist(), **cohen(table)})
    full = [case for case in decisions.values() if len(case) == len(readers)]
    overall = None
    if len(readers) > 2 and full:
        counts = np.array([[sum(d == c for c in case.values()) for d in DECISIONS] for case in full])
        overall = fleiss(counts)
    contested = {case: words for case, words in sorted(decisions.items()) if len(set(words.values())) > 1}
    named = "SELECT id, name, added FROM cases WHERE id IN (SELECT value FROM json_each(?))"
    names = {r["id"]: name_shown(r) for r in store.query(named, [json.dumps(list(contested))])}
    settled = {
        r["case_id"]: {"reader": r["reader"], "decision": r["decision"]}
        for r in store.query(
            "SELECT k.* FROM current_reviews k JOIN cases c ON c.id = k.case_id WHERE c.study = ? AND k.stage = "
            "'adjudication'",
            [study],
        )
    }
    differ = [
        {"case": i, "name": names[i], "decisions": case, "adjudication": settled.get(i)}
        for i, case in contested.items()
    ]
    return {
        "stage": "last",
        "readers": readers,
        "decisions": list(DECISIONS),
        "pairs": pairs,
        "fleiss": overall,
        "differ": differ,
    }
