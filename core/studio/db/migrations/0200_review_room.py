"""The review room's tables. Triggers keep what can be derived in step and refuse what must not happen."""

from __future__ import annotations

import sqlite_utils

# The latest active review of each case, reader and stage is the one that counts.
_CURRENT = """
  INSERT OR REPLACE INTO current_reviews (case_id, reader, stage, review_id, decision, created)
    SELECT case_id, reader, stage, id, decision, created FROM reviews
    WHERE case_id = NEW.case_id AND reader = NEW.reader AND stage = NEW.stage AND active = 1 ORDER BY id DESC LIMIT 1;
"""
# How readers voted: each reader's last word (the second look where there is one) is one vote; adjudication is none.
_VOTES = """
  INSERT OR REPLACE INTO case_votes (case_id, study, readers, normal, abnormal, unsure, disagreement)
    SELECT NEW.case_id, (SELECT study FROM cases WHERE id = NEW.case_id), count(*),
      total(decision = 'normal'), total(decision = 'abnormal'), total(decision = 'unsure'),
      CASE count(*) WHEN 0 THEN 0.0 ELSE 1.0 - max(total(decision = 'normal'), total(decision = 'abnormal'),
        total(decision = 'unsure')) / count(*) END
    FROM (SELECT decision, max(stage) FROM current_reviews
      WHERE case_id = NEW.case_id AND stage != 'adjudication' GROUP BY reader);
"""

STATEMENTS = [
    """CREATE TABLE events (
  id INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, kind TEXT NOT NULL, study TEXT, case_id INTEGER,
  before TEXT NOT NULL DEFAULT 'null', after TEXT NOT NULL DEFAULT 'null', shown TEXT NOT NULL DEFAULT '{}',
  seconds REAL, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE)""",
    "CREATE INDEX events_by_case ON events (case_id, id)",
    "CREATE INDEX events_by_study ON events (study, id)",
    """CREATE TRIGGER events_no_update BEFORE UPDATE ON events
  BEGIN SELECT RAISE(ABORT, 'the audit trail is never changed'); END""",
    """CREATE TRIGGER events_no_delete BEFORE DELETE ON events
  BEGIN SELECT RAISE(ABORT, 'the audit trail is never shortened'); END""",
    # INSERT OR REPLACE deletes without firing the trigger above.
    """CREATE TRIGGER events_no_replace BEFORE INSERT ON events
  WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.id OR hash = NEW.hash)
  BEGIN SELECT RAISE(ABORT, 'the audit trail is never changed'); END""",
    """CREATE TABLE current_reviews (
  case_id INTEGER NOT NULL, reader TEXT NOT NULL, stage TEXT NOT NULL, review_id INTEGER NOT NULL, decision TEXT NOT
  NULL,
  created TEXT NOT NULL, PRIMARY KEY (case_id, reader, stage)) WITHOUT ROWID""",
    "CREATE INDEX current_reviews_by_reader ON current_reviews (reader, stage, created, case_id)",
    """CREATE TABLE case_votes (
  case_id INTEGER PRIMARY KEY, study TEXT NOT NULL, readers INTEGER NOT NULL, normal REAL NOT NULL, abnormal REAL NOT
  NULL,
  unsure REAL NOT NULL, disagreement REAL NOT NULL)""",
    "CREATE INDEX case_votes_by_disagreement ON case_votes (study, disagreement, case_id)",
    f"CREATE TRIGGER reviews_added AFTER INSERT ON reviews BEGIN {_CURRENT} {_VOTES} END",
    f"""CREATE TRIGGER reviews_changed AFTER UPDATE ON reviews BEGIN
  DELETE FROM current_reviews WHERE case_id = NEW.case_id AND reader = NEW.reader AND stage = NEW.stage;
  {_CURRENT} {_VOTES} END""",
    """CREATE TRIGGER reviews_no_delete BEFORE DELETE ON reviews
  BEGIN SELECT RAISE(ABORT, 'reviews are never deleted'); END""",
    """CREATE TRIGGER reviews_said_once BEFORE UPDATE OF case_id, reader, decision, comment, created, seconds, run,
    shown, stage
  ON reviews BEGIN SELECT RAISE(ABORT, 'a review is never rewritten: add another'); END""",
    """CREATE TRIGGER lesion_masks_kept BEFORE UPDATE ON lesion_masks
  BEGIN SELECT RAISE(ABORT, 'a lesion mask is never rewritten: add a version'); END""",
    "CREATE TABLE undone (review_id INTEGER PRIMARY KEY, reader TEXT NOT NULL, study TEXT NOT NULL)",
    "CREATE TABLE answered (token TEXT PRIMARY KEY, created TEXT NOT NULL, answer TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE assignments (
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, reader TEXT NOT NULL, by TEXT NOT NULL,
  created TEXT NOT NULL, PRIMARY KEY (reader, case_id)) WITHOUT ROWID""",
    """CREATE TABLE findings (
  id INTEGER PRIMARY KEY, case_id INTEGER NOT NULL REFERENCES cases(id), mask_version INTEGER, label TEXT NOT NULL,
  comment TEXT NOT NULL DEFAULT '', box TEXT, reader TEXT NOT NULL, created TEXT NOT NULL)""",
    "CREATE INDEX findings_by_case ON findings (case_id, id)",
    "CREATE INDEX cases_by_name ON cases (study, name, id)",
    "CREATE INDEX cases_by_added ON cases (study, added, id)",
    "CREATE INDEX cases_by_sha256 ON cases (study, sha256, id)",
    "CREATE INDEX readings_by_score ON readings (run, score, case_id)",
    "CREATE INDEX readings_by_score_roi ON readings (run, score_roi, case_id)",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)
    # Reviews written before this step existed.
    db.conn.execute("UPDATE reviews SET active = active")
