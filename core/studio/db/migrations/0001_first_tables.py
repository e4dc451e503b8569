"""The first tables. JSON columns are text; times are UTC in ISO 8601 with milliseconds."""

from __future__ import annotations

import sqlite_utils

TABLES = """
CREATE TABLE studies (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL, folder TEXT, layout TEXT,
  config TEXT NOT NULL DEFAULT '{}', fingerprint TEXT);

CREATE TABLE cases (
  id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, name TEXT NOT NULL,
  path TEXT NOT NULL, frame INTEGER NOT NULL DEFAULT 0,
  split TEXT NOT NULL CHECK (split IN ('train', 'holdout', 'test')),
  label TEXT NOT NULL CHECK (label IN ('normal', 'abnormal', 'unknown')),
  width INTEGER, height INTEGER, bits INTEGER, modality TEXT, sha256 TEXT, phash TEXT,
  "row" INTEGER NOT NULL, added TEXT NOT NULL, tags TEXT NOT NULL DEFAULT '[]',
  UNIQUE (study, path, frame), UNIQUE (study, "row"));
CREATE INDEX cases_by_study ON cases (study, split, label);

CREATE TABLE runs (
  id TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('pretrain', 'fit')), name TEXT NOT NULL, parent TEXT REFERENCES runs(id),
  method TEXT NOT NULL, config TEXT NOT NULL DEFAULT '{}', status TEXT NOT NULL DEFAULT 'new'
    CHECK (status IN ('new', 'queued', 'running', 'done', 'stopped', 'interrupted', 'failed', 'collapsed')),
  folder TEXT, created TEXT NOT NULL, finished TEXT, seconds REAL, code TEXT, packages TEXT, device TEXT,
  note TEXT NOT NULL DEFAULT '', archived INTEGER NOT NULL DEFAULT 0, summary TEXT NOT NULL DEFAULT '{}');
CREATE INDEX runs_by_study ON runs (study, kind, created);
CREATE INDEX runs_by_parent ON runs (parent);

CREATE TABLE lesion_masks (
  id INTEGER PRIMARY KEY, case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE,
  version INTEGER NOT NULL, source TEXT NOT NULL CHECK (source IN ('import', 'hand', 'run')), reader TEXT,
  created TEXT NOT NULL, run TEXT, threshold REAL, png BLOB NOT NULL, note TEXT NOT NULL DEFAULT '',
  UNIQUE (case_id, version));

CREATE TABLE metrics (
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, step INTEGER NOT NULL, name TEXT NOT NULL, value REAL,
  PRIMARY KEY (run, name, step)) WITHOUT ROWID;
CREATE TABLE logs (
  id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, at TEXT NOT NULL,
  line TEXT NOT NULL);
CREATE INDEX logs_by_run ON logs (run, id);

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY, chain TEXT NOT NULL, position INTEGER NOT NULL DEFAULT 0, run TEXT, verb TEXT,
  args TEXT NOT NULL DEFAULT '{}', status TEXT NOT NULL DEFAULT 'queued'
    CHECK (status IN ('queued', 'running', 'done', 'failed', 'cancelled', 'paused', 'interrupted')),
  pid INTEGER, pid_start TEXT, heartbeat TEXT, created TEXT NOT NULL, started TEXT, finished TEXT,
  progress REAL NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '', error TEXT,
  wants TEXT NOT NULL DEFAULT 'run' CHECK (wants IN ('run', 'pause', 'cancel')));
CREATE UNIQUE INDEX jobs_one_running ON jobs (status) WHERE status = 'running';
CREATE INDEX jobs_by_status ON jobs (status, id);

CREATE TABLE readings (
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, score REAL, score_roi REAL, percentile REAL,
  percentile_roi REAL, flagged INTEGER, flagged_roi INTEGER, map BLOB, map_h INTEGER, map_w INTEGER, map_lo REAL,
  map_hi REAL, extra TEXT NOT NULL DEFAULT '{}', created TEXT NOT NULL, PRIMARY KEY (run, case_id));
CREATE INDEX readings_by_percentile ON readings (run, percentile_roi);

CREATE TABLE evaluations (
  id INTEGER PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, run TEXT, created TEXT NOT NULL,
  "row" TEXT NOT NULL);
CREATE INDEX evaluations_by_study ON evaluations (study, run);

CREATE TABLE readers (name TEXT PRIMARY KEY, role TEXT NOT NULL, password_hash TEXT, created TEXT NOT NULL);
CREATE TABLE reviews (
  id INTEGER PRIMARY KEY, case_id INTEGER NOT NULL REFERENCES cases(id), reader TEXT NOT NULL,
  decision TEXT NOT NULL CHECK (decision IN ('normal', 'abnormal', 'unsure')), comment TEXT NOT NULL DEFAULT '',
  created TEXT NOT NULL, seconds REAL, run TEXT, shown TEXT NOT NULL DEFAULT '{}',
  stage TEXT NOT NULL DEFAULT 'first' CHECK (stage IN ('first', 'second', 'adjudication')),
  active INTEGER NOT NULL DEFAULT 1);
CREATE INDEX reviews_by_case ON reviews (case_id, reader, stage, active);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


def apply(db: sqlite_utils.Database) -> None:
    # Statement by statement: sqlite3's executescript would commit the transaction that the migration runs in.
    for statement in TABLES.split(";"):
        if statement.strip():
            db.conn.execute(statement)
