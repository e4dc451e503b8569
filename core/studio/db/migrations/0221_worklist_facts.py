"""What the worklist is filtered by, kept beside the cases so that no page has to work it out.

`reader_words`: each reader's last word on a case (the second look where there is one; adjudication is none), with the
time of the first. `case_tags`: the cases' tags, one row each. Triggers keep both right at every write.
"""

from __future__ import annotations

import sqlite_utils

_WORD = """
  DELETE FROM reader_words WHERE reader = {row}.reader AND case_id = {row}.case_id;
  INSERT INTO reader_words (reader, case_id, study, decision, created)
    SELECT k.reader, k.case_id, c.study, k.decision,
      (SELECT f.created FROM current_reviews f WHERE f.case_id = k.case_id AND f.reader = k.reader
        AND f.stage = 'first')
    FROM current_reviews k JOIN cases c ON c.id = k.case_id
    WHERE k.case_id = {row}.case_id AND k.reader = {row}.reader AND k.stage != 'adjudication'
    ORDER BY k.stage DESC LIMIT 1;
"""
_TAGS = "INSERT OR IGNORE INTO case_tags (tag, case_id) SELECT t.value, NEW.id FROM json_each(NEW.tags) t;"

STATEMENTS = [
    """CREATE TABLE reader_words (reader TEXT NOT NULL, case_id INTEGER NOT NULL, study TEXT NOT NULL,
  decision TEXT NOT NULL, created TEXT, PRIMARY KEY (reader, case_id)) WITHOUT ROWID""",
    "CREATE INDEX reader_words_by_time ON reader_words (reader, study, created, case_id)",
    f"CREATE TRIGGER words_added AFTER INSERT ON current_reviews BEGIN {_WORD.format(row='NEW')} END",
    f"CREATE TRIGGER words_taken_back AFTER DELETE ON current_reviews BEGIN {_WORD.format(row='OLD')} END",
    "CREATE TABLE case_tags (tag TEXT NOT NULL, case_id INTEGER NOT NULL, PRIMARY KEY (tag, case_id)) WITHOUT ROWID",
    "CREATE INDEX case_tags_by_case ON case_tags (case_id)",
    f"CREATE TRIGGER tags_with_case AFTER INSERT ON cases WHEN NEW.tags != '[]' BEGIN {_TAGS} END",
    f"""CREATE TRIGGER tags_changed AFTER UPDATE OF tags ON cases BEGIN
  DELETE FROM case_tags WHERE case_id = NEW.id; {_TAGS} END""",
    """CREATE TRIGGER facts_gone AFTER DELETE ON cases BEGIN
  DELETE FROM case_tags WHERE case_id = OLD.id; DELETE FROM reader_words WHERE case_id = OLD.id; END""",
    # A case's split is read with its place in an order, without its row.
    "DROP INDEX cases_by_name",
    "DROP INDEX cases_by_added",
    "DROP INDEX cases_by_sha256",
    "CREATE INDEX cases_by_name ON cases (study, name, id, split)",
    "CREATE INDEX cases_by_added ON cases (study, added, id, split)",
    "CREATE INDEX cases_by_sha256 ON cases (study, sha256, id, split)",
    "CREATE INDEX cases_by_id ON cases (study, id, split)",
    *(
        statement
        for end in ("", "_roi")
        for statement in (
            # Beside a heat map a reading's row is large; these answer without it.
            f"CREATE UNIQUE INDEX readings_scored{end} ON readings (run, case_id) WHERE score{end} IS NOT NULL",
            f"CREATE UNIQUE INDEX readings_flagged{end} ON readings (run, case_id) WHERE flagged{end} = 1",
        )
    ),
    # What was there before.
    """INSERT INTO reader_words (reader, case_id, study, decision, created)
  SELECT k.reader, k.case_id, c.study, (SELECT l.decision FROM current_reviews l WHERE l.case_id = k.case_id
    AND l.reader = k.reader AND l.stage != 'adjudication' ORDER BY l.stage DESC LIMIT 1),
    max(CASE k.stage WHEN 'first' THEN k.created END)
  FROM current_reviews k JOIN cases c ON c.id = k.case_id WHERE k.stage != 'adjudication'
  GROUP BY k.reader, k.case_id""",
    "INSERT OR IGNORE INTO case_tags (tag, case_id) SELECT t.value, c.id FROM cases c, json_each(c.tags) t",
]


def apply(db: sqlite_utils.Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)
