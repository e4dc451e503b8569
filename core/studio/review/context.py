"""The context of a request: reader, study, run, case, reading session, trial, hidden data and displayed names.

The context is read once, in the transaction of the request, and passed to all functions that answer the request. Runs
and cases of another study are refused here, so that no function can mix up studies. Requests that may involve several
studies, such as MedMix with lesions of another study or a comparison of runs, do not use this module.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from core.studio.db.store import NotFound, Row, Store
from core.studio.ingest.records import study_row
from core.studio.review import sessions
from core.studio.review.people import not_allowed, rights_of
from core.studio.review.sessions import DECIDE_FIRST, NO_MACHINE, NOT_OPEN, SIGHTED, Aliases, Hidden

_FACTS = f"""SELECT s.*,
  (SELECT role FROM readers WHERE name = :reader) AS reader_role,
  (SELECT value FROM settings WHERE key = 'blind:' || s.id) AS read_blind,
  (SELECT value FROM settings WHERE key = 'tags:' || s.id) AS people_tags,
  (SELECT json_object('id', h.id, 'study', h.study, 'reader', h.reader, 'blind', h.blind, 'neutral', h.neutral,
    'shuffled', h.shuffled, 'choice', h.choice, 'run', h.run, 'first_review', h.first_review, 'last_review', NULL,
    'created', h.created, 'ended', NULL, 'secret', h.secret)
    FROM reading_sessions h WHERE h.reader = :reader AND h.ended IS NULL AND h.study = s.id) AS reading_session,
  (SELECT json_object('id', r.id, 'kind', r.kind, 'method', r.method, 'parent', r.parent)
    FROM runs r WHERE r.id = :run AND r.study = s.id AND r.binned IS NULL) AS asked_run,
  (SELECT json_group_array(json_object('id', t.id, 'run', t.run, 'rated', json_extract(t.plan, '$.scale') = 'percent',
    'marks', json_extract(t.plan, '$.marks'), 'frozen', t.frozen, 'digest', t.digest, 'part', p.id, 'arm', p.arm,
    'session', p.session)) FROM trial_parts p JOIN trials t ON t.id = p.trial
    WHERE p.reader = :reader AND t.study = s.id AND t.started IS NOT NULL AND t.closed IS NULL) AS trial_parts,
  (SELECT json_group_array(json_object('id', o.id, 'session', o.session, 'secret', o.secret, 'first', o.first,
    'whole', o.whole))
    FROM neutral_orders o WHERE o.reader = :reader AND o.study = s.id) AS orders,
  {sessions.IN_BLIND_SESSION} AS in_blind_session, {sessions.ANY_READ_BLIND} AS any_read_blind,
  EXISTS ({sessions.IN_TRIALS}) AS in_trial
  FROM studies s WHERE s.id = :study AND s.binned IS NULL"""
_LAYER = ("reader_role", "read_blind", "people_tags", "reading_session", "asked_run", "trial_parts", "orders",
          "in_blind_session", "any_read_blind", "in_trial")  # fmt: skip


class NoOrder(Exception):
    """Raised if a blinded reader has no order of cases yet; `reading` then draws one and reads the context again."""

    def __init__(self, study: str, reader: str, session: int | None):
        self.order = study, reader, session


def no_case(number: int) -> NotFound:
    """Returns the error for a case number that does not exist or belongs to another study."""
    return NotFound(f"Unknown case {number}; it may have been removed with its study. Reload the page.")


@dataclass(frozen=True)
class RequestContext:
    """Context of one request: who asks about which study, run and case, and what may be shown.

    single_user: Whether the studio runs in single-user mode, in which the reader has all rights.
    role: Role of the reader, or None if the reader has no account.
    study: Id of the study.
    about_study: Row of the study.
    blind: Whether readers of the study, except adjudicators and administrators, read it blind first.
    reads_blind: Whether the reader reads any study blind or in a trial.
    session: Row of the reader's open reading session of the study, or None.
    trial: Running trial of the study in which the reader takes part, or None. Its "arm" is the arm of the reader's
        session: "unaided", "aided", "both" or "repeat".
    about_run: The requested run as {"id", "kind", "method", "parent"}, or None.
    case: Row of the requested case, or None.
    people_tags: Tags that people, not the import, have added to cases of the study.
    names: Translation between stored and displayed ids and names.
    """

    store: Store
    reader: str
    single_user: bool
    role: str | None
    study: str
    about_study: Row
    blind: bool
    reads_blind: bool
    session: Row | None
    trial: Row | None
    about_run: Row | None
    case: Row | None
    people_tags: frozenset[str]
    names: Aliases

    @classmethod
    def read(
        cls,
        store: Store,
        reader: str,
        *,
        study: str | None = None,
        number: int | None = None,
        case_id: int | None = None,
        run: str | None = None,
        single_user: bool = False,
    ) -> RequestContext:
        """Reads the context of a request about a study, or about a case and its study.

        number: Number of the case as the reader sees it, which may be a neutral number.
        case_id: Stored id of the case, instead of `number`.

        Raises NotFound if the study, case or run is unknown, or if the case or run belongs to another study. Raises
        Hidden if a trial hides them from the reader.
        """
        case, order = None, None
        if case_id is not None:
            case = store.one("SELECT * FROM cases WHERE id = ?", [case_id])
        elif number is not None:
            case, order = _named(store, reader, number)
        requested = number if case_id is None else case_id
        if requested is not None:
            if case is None or (study is not None and case["study"] != study):
                raise no_case(requested)
            study = case["study"]
        facts = store.one(_FACTS, {"study": study or "", "reader": reader, "run": run or None})
        if facts is None:
            if number is not None:
                raise no_case(number)
            study_row(store, study or "")  # raises NotFound
            raise NotFound(f"unknown study {study!r}")
        session = json.loads(facts["reading_session"]) if facts["reading_session"] else None
        about_run = json.loads(facts["asked_run"]) if facts["asked_run"] else None
        session_id = session["id"] if session else None
        rows = json.loads(facts["trial_parts"])
        trial = next((candidate for candidate in rows if candidate["session"] == session_id), rows[0] if rows else None)
        if trial is not None:
            _demand_part(store, trial, session, case, number, run)
        if run and about_run is None:
            raise NotFound(f"{study} has no run {run!r}. Reload the page.")
        blind = json.loads(facts["read_blind"] or "false")
        role = facts["reader_role"]
        hides_names = bool(session and (session["neutral"] or session["blind"])) or (blind and role not in SIGHTED)
        stored_order = next((o for o in json.loads(facts["orders"]) if o["session"] == session_id), None)
        if hides_names and (stored_order is None or not stored_order["whole"]):
            if store.in_snapshot:
                raise NoOrder(facts["id"], reader, session_id)
            sessions.make_order(store, facts["id"], reader, session_id)
            again = "SELECT * FROM neutral_orders WHERE reader = ? AND study = ? AND coalesce(session, 0) = ?"
            stored_order = store.first(again, [reader, facts["id"], session_id or 0])
        if number is not None and (
            hides_names and order is None or order is not None and (stored_order is None or order != stored_order["id"])
        ):
            raise no_case(number)
        names = Aliases(store, stored_order if hides_names else None, session)
        if case is not None and order is not None and number is not None:
            names.know(case["id"], number)
        return cls(
            store=store,
            reader=reader,
            single_user=single_user,
            role=role,
            study=facts["id"],
            about_study={k: v for k, v in facts.items() if k not in _LAYER},
            blind=blind,
            reads_blind=bool(
                facts["in_blind_session"] or facts["in_trial"] or (facts["any_read_blind"] and role not in SIGHTED)
            ),
            session=session,
            trial=trial,
            about_run=about_run,
            case=case,
            people_tags=frozenset(json.loads(facts["people_tags"] or "[]")),
            names=names,
        )

    @property
    def run(self) -> str | None:
        """Id of the requested run, or None."""
        return self.about_run["id"] if self.about_run else None

    @property
    def rights(self) -> dict:
        """Rights of the reader, as `people.rights` returns them."""
        return rights_of(self.role, self.single_user)

    @property
    def blinded(self) -> bool:
        """Whether the reader reads the study blind. This applies to every reader in a trial or a blind session, and in
        a blind study to all readers except adjudicators and administrators."""
        return (
            self.trial is not None
            or bool(self.session and self.session["blind"])
            or (self.blind and self.role not in SIGHTED)
        )

    @property
    def two_stages(self) -> bool:
        """Whether readers make two decisions on a case, one before and one after the results are shown."""
        if self.trial is not None:
            return bool(self.trial["arm"] == "both")
        return self.blind or bool(self.session and self.session["blind"])

    @property
    def first_review(self) -> int:
        """Id of the last decision before the open session, or 0 without a session. Later decisions have higher ids."""
        return self.session["first_review"] if self.session else 0

    @property
    def asked_case(self) -> Row:
        """Row of the requested case. Raises NotFound if the request names no case."""
        if self.case is None:
            raise NotFound("The request names no case.")
        return self.case

    def of_study(self, numbers: list[int]) -> list[int]:
        """Translates case numbers as the reader sees them into ids. Raises NotFound if a case is not in the study."""
        if not self.names.covers:
            query = "SELECT id FROM cases WHERE study = ? AND id IN (SELECT value FROM json_each(?))"
            case_ids = {row["id"]: row["id"] for row in self.store.query(query, [self.study, json.dumps(numbers)])}
        else:
            case_ids = self.names.cases(numbers)
        for number in numbers:
            if number not in case_ids:
                raise no_case(number)
        return [case_ids[number] for number in numbers]

    def committed(self, cases: list[int]) -> set[int]:
        """Returns which of the cases have a first decision by the reader, made in the open session if there is one."""
        rows = self.store.query(
            "SELECT r.case_id FROM json_each(?) j CROSS JOIN reviews r ON r.case_id = j.value AND r.reader = ? "
            "AND r.stage = 'first' AND r.active = 1 AND r.id > ?",
            [json.dumps(cases), self.reader, self.first_review],
        )
        return {row["case_id"] for row in rows}

    def hides(self, case_id: int) -> bool:
        """Returns whether results, masks, label, name and other readers' decisions on a case are hidden.

        In a trial, returns whether the run's results are hidden; everything else is always hidden.
        """
        if self.trial is not None and self.trial["arm"] != "both":
            return bool(self.trial["arm"] != "aided")
        return self.blinded and case_id not in self.committed([case_id])

    def demand_seen(self, *cases: int) -> None:
        """Raises Hidden if `hides` is True for any of the cases, by default for the requested case."""
        requested = list(cases) or [self.asked_case["id"]]
        if self.trial is not None and any(map(self.hides, requested)):
            raise Hidden(NO_MACHINE)
        if self.trial is None and self.blinded and set(requested) - self.committed(requested):
            raise Hidden(DECIDE_FIRST)

    def demand_marks(self) -> None:
        """Raises Hidden in a trial whose readers do not mark lesions."""
        if self.trial is not None and not self.trial["marks"]:
            raise Hidden("Readers mark no lesions in this trial.")

    def demand_open(self, *cases: int) -> None:
        """Raises Hidden in any trial, because trials have no masks, drafts or tags; otherwise as `demand_seen` does."""
        if self.trial is not None:
            raise Hidden(NO_MACHINE)
        self.demand_seen(*cases)

    def demand(self, right: str) -> None:
        """Raises NotAllowed unless the reader has the right 'administer' or 'adjudicate'."""
        if not self.rights[right]:
            raise not_allowed(right)


@contextlib.contextmanager
def reading(store: Store, reader: str, **request) -> Iterator[RequestContext]:
    """Opens a read transaction and yields the request's context. request: Arguments of `RequestContext.read`."""
    while True:
        try:
            with store.snapshot():
                context = RequestContext.read(store, reader, **request)
                yield context
                return
        except NoOrder as missing:
            sessions.make_order(store, *missing.order)


@contextlib.contextmanager
def writing(store: Store, reader: str, **request) -> Iterator[RequestContext]:
    """Opens a write transaction and yields the request's context. request: Arguments of `RequestContext.read`."""
    with store.write():
        yield RequestContext.read(store, reader, **request)


def _named(store: Store, reader: str, number: int) -> tuple[Row | None, int | None]:
    """Returns the row of a case by its displayed number, and the id of the neutral list if the number is neutral."""
    if number >= sessions.FIRST:
        return sessions.case_listed(store, reader, number)
    return store.one("SELECT * FROM cases WHERE id = ?", [number]), None


def _demand_part(
    store: Store, trial: Row, session: Row | None, case: Row | None, number: int | None, run: str | None
) -> None:
    """Raises Hidden or NotFound unless the reader's session of a trial is open, has the case and shows the run."""
    if session is None or session["id"] != trial["session"]:
        raise Hidden(NOT_OPEN) if number is None else no_case(number)
    listed = "SELECT 1 FROM reading_session_cases WHERE session = ? AND case_id = ?"
    if case is not None and store.one(listed, [session["id"], case["id"]]) is None:
        raise Hidden(NOT_OPEN) if number is None else no_case(number)
    if run and (run != trial["run"] or trial["arm"] not in ("aided", "both")):
        raise Hidden(NO_MACHINE)
