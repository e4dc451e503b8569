-- All tables of a home's database, as created in a new home. `migrations.py` migrates older homes to this schema.
--
-- JSON columns are text. Times are UTC in ISO 8601 with milliseconds. Ids are never reused (AUTOINCREMENT), so that a
-- page that still shows a deleted case cannot act on another case. Triggers keep derived tables up to date and refuse
-- invalid changes.

-- Studies and their cases.

CREATE TABLE studies (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL, folder TEXT, layout TEXT,
  config TEXT NOT NULL DEFAULT '{}', -- JSON
  fingerprint TEXT, -- SHA-256 over the content, split and label of all cases
  binned TEXT -- time of the move to the bin
);

CREATE TABLE cases (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  name TEXT NOT NULL, path TEXT NOT NULL, frame INTEGER NOT NULL DEFAULT 0,
  split TEXT NOT NULL CHECK (split IN ('train', 'holdout', 'test')),
  label TEXT NOT NULL CHECK (label IN ('normal', 'abnormal', 'unknown')),
  width INTEGER, height INTEGER, bits INTEGER, modality TEXT, sha256 TEXT, phash TEXT,
  "row" INTEGER NOT NULL, -- row in the study's prepared arrays
  added TEXT NOT NULL,
  tags TEXT NOT NULL DEFAULT '[]', -- JSON
  burned_in INTEGER, -- 1 if the image probably contains burned-in text
  series TEXT, place REAL, slice INTEGER, -- position of the image in its volume
  patient TEXT, -- a keyed hash; NULL if the patient is unknown
  scale TEXT, -- for more than 8 bits: JSON [low, high], the stored values that are shown as 0 and 255
  device TEXT, -- name of the device in the image's header
  UNIQUE (study, path, frame), UNIQUE (study, "row")
);
-- These indexes contain the split, so that a case's position and split are read without the case's row.
CREATE INDEX cases_by_name ON cases (study, name, id, split);
CREATE INDEX cases_by_added ON cases (study, added, id, split);
CREATE INDEX cases_by_sha256 ON cases (study, sha256, id, split);
CREATE INDEX cases_by_id ON cases (study, id, split);
CREATE INDEX cases_by_study ON cases (study, split, label);
CREATE INDEX cases_by_series ON cases (study, series, place, slice) WHERE series IS NOT NULL;
CREATE INDEX cases_by_patient ON cases (study, patient) WHERE patient IS NOT NULL;

-- The tags of the cases, one row per case and tag.
CREATE TABLE case_tags (
  tag TEXT NOT NULL, case_id INTEGER NOT NULL, PRIMARY KEY (tag, case_id)
) WITHOUT ROWID;
CREATE INDEX case_tags_by_case ON case_tags (case_id);
CREATE TRIGGER tags_with_case AFTER INSERT ON cases WHEN NEW.tags != '[]' BEGIN
  INSERT OR IGNORE INTO case_tags (tag, case_id) SELECT t.value, NEW.id FROM json_each(NEW.tags) t;
END;
CREATE TRIGGER tags_changed AFTER UPDATE OF tags ON cases BEGIN
  DELETE FROM case_tags WHERE case_id = NEW.id;
  INSERT OR IGNORE INTO case_tags (tag, case_id) SELECT t.value, NEW.id FROM json_each(NEW.tags) t;
END;

CREATE TRIGGER facts_gone AFTER DELETE ON cases BEGIN
  DELETE FROM case_tags WHERE case_id = OLD.id;
  DELETE FROM reader_words WHERE case_id = OLD.id;
END;

CREATE TABLE lesion_masks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, version INTEGER NOT NULL,
  source TEXT NOT NULL CHECK (source IN ('import', 'hand', 'run')),
  reader TEXT, created TEXT NOT NULL, run TEXT, threshold REAL, png BLOB NOT NULL, note TEXT NOT NULL DEFAULT '',
  UNIQUE (case_id, version)
);
CREATE TRIGGER lesion_masks_kept BEFORE UPDATE ON lesion_masks
WHEN NOT EXISTS (SELECT 1 FROM erasures WHERE step = 'rows') BEGIN
  SELECT RAISE(ABORT, 'a lesion mask is never rewritten: add a version');
END;

-- The mask that a reader chose as a case's reference; without a row, the reference is the last imported mask.
CREATE TABLE reference_masks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  case_id INTEGER NOT NULL UNIQUE REFERENCES cases(id) ON DELETE CASCADE,
  mask INTEGER NOT NULL REFERENCES lesion_masks(id) ON DELETE CASCADE, reader TEXT NOT NULL, created TEXT NOT NULL
);

-- Sources of images.

-- Folders of this machine from which images may be imported.
CREATE TABLE roots (folder TEXT PRIMARY KEY, named TEXT NOT NULL, by TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE watches (
  study TEXT PRIMARY KEY REFERENCES studies(id) ON DELETE CASCADE, folder TEXT NOT NULL, run TEXT,
  active INTEGER NOT NULL DEFAULT 1, copy INTEGER NOT NULL DEFAULT 0, looked TEXT,
  message TEXT NOT NULL DEFAULT '', changed TEXT
);

CREATE TABLE incoming (
  study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, path TEXT NOT NULL,
  size INTEGER NOT NULL, mtime INTEGER NOT NULL, since REAL NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'ready', 'taken', 'double', 'failed')),
  tries INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '', at TEXT NOT NULL,
  PRIMARY KEY (study, path)
) WITHOUT ROWID;
CREATE INDEX incoming_by_state ON incoming (study, state, at);

-- Runs and their results on the cases.

CREATE TABLE runs (
  id TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('pretrain', 'fit')), name TEXT NOT NULL, parent TEXT REFERENCES runs(id),
  method TEXT NOT NULL, config TEXT NOT NULL DEFAULT '{}', -- JSON
  status TEXT NOT NULL DEFAULT 'new' CHECK (
    status IN ('new', 'queued', 'running', 'done', 'stopped', 'interrupted', 'failed', 'collapsed')),
  folder TEXT, created TEXT NOT NULL, finished TEXT, seconds REAL, code TEXT, packages TEXT, device TEXT,
  note TEXT NOT NULL DEFAULT '', archived INTEGER NOT NULL DEFAULT 0,
  summary TEXT NOT NULL DEFAULT '{}', -- JSON
  binned TEXT -- time of the move to the bin
);
CREATE INDEX runs_by_study ON runs (study, kind, created);
CREATE INDEX runs_by_parent ON runs (parent);

CREATE TABLE metrics (
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, step INTEGER NOT NULL, name TEXT NOT NULL, value REAL,
  PRIMARY KEY (run, name, step)
) WITHOUT ROWID;

CREATE TABLE logs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, at TEXT NOT NULL, line TEXT NOT NULL
);
CREATE INDEX logs_by_run ON logs (run, id);

-- Columns with _roi use only the region of interest. map is a map_h x map_w heat map with values from map_lo to map_hi.
CREATE TABLE readings (
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE,
  score REAL, score_roi REAL, percentile REAL, percentile_roi REAL, flagged INTEGER, flagged_roi INTEGER,
  map BLOB, map_h INTEGER, map_w INTEGER, map_lo REAL, map_hi REAL,
  not_judged BLOB, -- zlib-compressed bits on the map's grid, 1 where nothing is judged; NULL if everything is
  extra TEXT NOT NULL DEFAULT '{}', -- JSON
  created TEXT NOT NULL,
  PRIMARY KEY (run, case_id)
);
CREATE INDEX readings_by_percentile ON readings (run, percentile_roi);
CREATE INDEX readings_by_score ON readings (run, score, case_id);
CREATE INDEX readings_by_score_roi ON readings (run, score_roi, case_id);
-- A reading's row is large, because it contains the heat map; these indexes avoid reading the row.
CREATE UNIQUE INDEX readings_scored ON readings (run, case_id) WHERE score IS NOT NULL;
CREATE UNIQUE INDEX readings_flagged ON readings (run, case_id) WHERE flagged = 1;
CREATE UNIQUE INDEX readings_scored_roi ON readings (run, case_id) WHERE score_roi IS NOT NULL;
CREATE UNIQUE INDEX readings_flagged_roi ON readings (run, case_id) WHERE flagged_roi = 1;

-- Operating points that were chosen for a run; the last one is in effect.
CREATE TABLE operating_points (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  source TEXT NOT NULL CHECK (source IN ('dragged', 'limit', 'readers', 'default')),
  threshold REAL, labels INTEGER NOT NULL, reader TEXT NOT NULL, created TEXT NOT NULL
);
CREATE INDEX operating_points_by_run ON operating_points (run, id);

-- The order in which cases are worth annotating, for each run that was trained on annotations.
CREATE TABLE next_marks (
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE,
  value REAL NOT NULL, -- cases with larger values are shown earlier
  why TEXT NOT NULL, PRIMARY KEY (run, case_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX next_marks_by_value ON next_marks (run, value, case_id);
CREATE INDEX next_marks_by_case ON next_marks (case_id);

CREATE TABLE evaluations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, run TEXT,
  created TEXT NOT NULL, "row" TEXT NOT NULL -- JSON
);
CREATE INDEX evaluations_by_study ON evaluations (study, run);

-- Named and versioned settings of a strong augmentation.
CREATE TABLE presets (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, version INTEGER NOT NULL, strong TEXT NOT NULL,
  config TEXT NOT NULL, note TEXT NOT NULL DEFAULT '', reader TEXT, created TEXT NOT NULL,
  removed INTEGER NOT NULL DEFAULT 0, UNIQUE (name, version)
);

-- Searches for MedMix settings whose synthetic lesions resemble chosen lesions.
CREATE TABLE matches (
  id TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE, created TEXT NOT NULL,
  asked TEXT NOT NULL, state TEXT NOT NULL DEFAULT '{}' -- JSON
);

-- Jobs.

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, chain TEXT NOT NULL, position INTEGER NOT NULL DEFAULT 0, run TEXT,
  step TEXT, args TEXT NOT NULL DEFAULT '{}', -- JSON
  status TEXT NOT NULL DEFAULT 'queued' CHECK (
    status IN ('queued', 'running', 'done', 'failed', 'cancelled', 'paused', 'interrupted')),
  pid INTEGER, pid_start TEXT, heartbeat TEXT, created TEXT NOT NULL, started TEXT, finished TEXT,
  progress REAL NOT NULL DEFAULT 0, message TEXT NOT NULL DEFAULT '', error TEXT,
  wants TEXT NOT NULL DEFAULT 'run' CHECK (wants IN ('run', 'pause', 'cancel')),
  queue TEXT NOT NULL DEFAULT 'long' CHECK (queue IN ('long', 'short')),
  key TEXT -- identifies the request, so that equal requests share a queued or running job
);
CREATE INDEX jobs_by_key ON jobs (key);
CREATE INDEX jobs_by_status ON jobs (status, id);
CREATE UNIQUE INDEX jobs_one_running ON jobs (queue) WHERE status = 'running';

CREATE TABLE step_times (
  id INTEGER PRIMARY KEY AUTOINCREMENT, job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  began REAL NOT NULL, -- seconds since 1970
  share REAL NOT NULL DEFAULT 0, -- fraction of the step that was done at the start (in a resumed training run)
  seconds REAL
);
CREATE INDEX step_times_by_job ON step_times (job, position);

-- Maps of a feature space.

CREATE TABLE cluster_maps (
  key TEXT PRIMARY KEY, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, config TEXT NOT NULL, created TEXT NOT NULL, job INTEGER,
  points INTEGER, epochs TEXT, seconds REAL
);
CREATE INDEX cluster_maps_by_study ON cluster_maps (study, created);

CREATE TABLE cluster_views (
  id INTEGER PRIMARY KEY AUTOINCREMENT, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  name TEXT NOT NULL, reader TEXT NOT NULL, created TEXT NOT NULL, state TEXT NOT NULL, UNIQUE (study, name)
);

CREATE TABLE cluster_projected (
  key TEXT PRIMARY KEY, map TEXT NOT NULL REFERENCES cluster_maps(key) ON DELETE CASCADE, title TEXT NOT NULL,
  config TEXT NOT NULL, created TEXT NOT NULL, job INTEGER, images INTEGER
);

-- People.

CREATE TABLE readers (name TEXT PRIMARY KEY, role TEXT NOT NULL, password_hash TEXT, created TEXT NOT NULL);

CREATE TABLE sessions (
  hash TEXT PRIMARY KEY, -- SHA-256 of the secret in the browser's cookie, because the database must let nobody sign in
  reader TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX sessions_by_reader ON sessions (reader);

-- Tokens with which programs sign in as a reader.
CREATE TABLE tokens (
  id INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT NOT NULL UNIQUE, -- SHA-256 of the token, which itself is not stored
  reader TEXT NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL
);
CREATE INDEX tokens_by_reader ON tokens (reader);

-- Owners of runs, maps, views, presets and uploads.
CREATE TABLE owners (
  kind TEXT NOT NULL, id TEXT NOT NULL, reader TEXT NOT NULL, created TEXT NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;

CREATE TABLE assignments (
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, reader TEXT NOT NULL, by TEXT NOT NULL,
  created TEXT NOT NULL, PRIMARY KEY (reader, case_id)
) WITHOUT ROWID;

-- Reviews.

CREATE TABLE reviews (
  id INTEGER PRIMARY KEY AUTOINCREMENT, case_id INTEGER NOT NULL REFERENCES cases(id), reader TEXT NOT NULL,
  decision TEXT NOT NULL CHECK (decision IN ('normal', 'abnormal', 'unsure')), comment TEXT NOT NULL DEFAULT '',
  created TEXT NOT NULL, seconds REAL, run TEXT, shown TEXT NOT NULL DEFAULT '{}', -- JSON
  stage TEXT NOT NULL DEFAULT 'first' CHECK (stage IN ('first', 'second', 'adjudication')),
  active INTEGER NOT NULL DEFAULT 1,
  salt TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))) -- salt of the review's hash in the audit trail
);
CREATE INDEX reviews_by_case ON reviews (case_id, reader, stage, active);
CREATE TRIGGER reviews_no_delete BEFORE DELETE ON reviews
WHEN NOT EXISTS (SELECT 1 FROM erasures WHERE step = 'rows') BEGIN
  SELECT RAISE(ABORT, 'reviews are never deleted');
END;
CREATE TRIGGER reviews_said_once
BEFORE UPDATE OF case_id, reader, decision, comment, created, seconds, run, shown, stage ON reviews
WHEN NOT EXISTS (SELECT 1 FROM erasures WHERE step = 'rows') BEGIN
  SELECT RAISE(ABORT, 'a review is never rewritten: add another');
END;

-- The latest active review of each case, reader and stage, which is the valid one.
CREATE TABLE current_reviews (
  case_id INTEGER NOT NULL, reader TEXT NOT NULL, stage TEXT NOT NULL, review_id INTEGER NOT NULL,
  decision TEXT NOT NULL, created TEXT NOT NULL, PRIMARY KEY (case_id, reader, stage)
) WITHOUT ROWID;
CREATE INDEX current_reviews_by_reader ON current_reviews (reader, stage, created, case_id);

-- Votes of readers: each reader's latest decision (after the second look, if any) is one vote; adjudications are none.
CREATE TABLE case_votes (
  case_id INTEGER PRIMARY KEY, study TEXT NOT NULL, readers INTEGER NOT NULL, normal REAL NOT NULL,
  abnormal REAL NOT NULL, unsure REAL NOT NULL, disagreement REAL NOT NULL
);
CREATE INDEX case_votes_by_disagreement ON case_votes (study, disagreement, case_id);

-- Each reader's latest decision on a case, with the time of the first review, by which the worklist is filtered.
CREATE TABLE reader_words (
  reader TEXT NOT NULL, case_id INTEGER NOT NULL, study TEXT NOT NULL, decision TEXT NOT NULL, created TEXT,
  PRIMARY KEY (reader, case_id)
) WITHOUT ROWID;
CREATE INDEX reader_words_by_time ON reader_words (reader, study, created, case_id);
CREATE INDEX reader_words_by_decision ON reader_words (reader, study, decision, case_id);

CREATE TRIGGER reviews_added AFTER INSERT ON reviews BEGIN
  INSERT OR REPLACE INTO current_reviews (case_id, reader, stage, review_id, decision, created)
    SELECT case_id, reader, stage, id, decision, created FROM reviews
    WHERE case_id = NEW.case_id AND reader = NEW.reader AND stage = NEW.stage AND active = 1 ORDER BY id DESC LIMIT 1;
  INSERT OR REPLACE INTO case_votes (case_id, study, readers, normal, abnormal, unsure, disagreement)
    SELECT NEW.case_id, (SELECT study FROM cases WHERE id = NEW.case_id), count(*),
      total(decision = 'normal'), total(decision = 'abnormal'), total(decision = 'unsure'),
      CASE count(*) WHEN 0 THEN 0.0 ELSE 1.0 - max(total(decision = 'normal'), total(decision = 'abnormal'),
        total(decision = 'unsure')) / count(*) END
    FROM (SELECT decision, max(stage) FROM current_reviews
      WHERE case_id = NEW.case_id AND stage != 'adjudication' GROUP BY reader);
END;
CREATE TRIGGER reviews_changed AFTER UPDATE ON reviews BEGIN
  DELETE FROM current_reviews WHERE case_id = NEW.case_id AND reader = NEW.reader AND stage = NEW.stage;
  INSERT OR REPLACE INTO current_reviews (case_id, reader, stage, review_id, decision, created)
    SELECT case_id, reader, stage, id, decision, created FROM reviews
    WHERE case_id = NEW.case_id AND reader = NEW.reader AND stage = NEW.stage AND active = 1 ORDER BY id DESC LIMIT 1;
  INSERT OR REPLACE INTO case_votes (case_id, study, readers, normal, abnormal, unsure, disagreement)
    SELECT NEW.case_id, (SELECT study FROM cases WHERE id = NEW.case_id), count(*),
      total(decision = 'normal'), total(decision = 'abnormal'), total(decision = 'unsure'),
      CASE count(*) WHEN 0 THEN 0.0 ELSE 1.0 - max(total(decision = 'normal'), total(decision = 'abnormal'),
        total(decision = 'unsure')) / count(*) END
    FROM (SELECT decision, max(stage) FROM current_reviews
      WHERE case_id = NEW.case_id AND stage != 'adjudication' GROUP BY reader);
END;
CREATE TRIGGER words_added AFTER INSERT ON current_reviews BEGIN
  DELETE FROM reader_words WHERE reader = NEW.reader AND case_id = NEW.case_id;
  INSERT INTO reader_words (reader, case_id, study, decision, created)
    SELECT k.reader, k.case_id, c.study, k.decision,
      (SELECT f.created FROM current_reviews f
        WHERE f.case_id = k.case_id AND f.reader = k.reader AND f.stage = 'first')
    FROM current_reviews k JOIN cases c ON c.id = k.case_id
    WHERE k.case_id = NEW.case_id AND k.reader = NEW.reader AND k.stage != 'adjudication'
    ORDER BY k.stage DESC LIMIT 1;
END;
CREATE TRIGGER words_taken_back AFTER DELETE ON current_reviews BEGIN
  DELETE FROM reader_words WHERE reader = OLD.reader AND case_id = OLD.case_id;
  INSERT INTO reader_words (reader, case_id, study, decision, created)
    SELECT k.reader, k.case_id, c.study, k.decision,
      (SELECT f.created FROM current_reviews f
        WHERE f.case_id = k.case_id AND f.reader = k.reader AND f.stage = 'first')
    FROM current_reviews k JOIN cases c ON c.id = k.case_id
    WHERE k.case_id = OLD.case_id AND k.reader = OLD.reader AND k.stage != 'adjudication'
    ORDER BY k.stage DESC LIMIT 1;
END;

CREATE TABLE undone (review_id INTEGER PRIMARY KEY, reader TEXT NOT NULL, study TEXT NOT NULL);

CREATE TABLE answered (token TEXT PRIMARY KEY, created TEXT NOT NULL, answer TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE findings (
  id INTEGER PRIMARY KEY AUTOINCREMENT, case_id INTEGER NOT NULL REFERENCES cases(id), mask_version INTEGER,
  label TEXT NOT NULL, comment TEXT NOT NULL DEFAULT '', box TEXT, reader TEXT NOT NULL, created TEXT NOT NULL
);
CREATE INDEX findings_by_case ON findings (case_id, id);

-- Unsaved drawings of readers.
CREATE TABLE mask_drafts (
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, reader TEXT NOT NULL, body BLOB NOT NULL,
  updated TEXT NOT NULL, PRIMARY KEY (reader, case_id)
) WITHOUT ROWID;
CREATE INDEX mask_drafts_by_case ON mask_drafts (case_id);

-- A reader's statements about a case: whether all lesions are annotated, and which area is normal.
CREATE TABLE case_marks (
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, reader TEXT NOT NULL,
  finished INTEGER NOT NULL DEFAULT 0,
  normal BLOB, -- mask as in lesion_masks, with the size of the image
  updated TEXT NOT NULL, PRIMARY KEY (reader, case_id)
) WITHOUT ROWID;
CREATE INDEX case_marks_by_case ON case_marks (case_id);

-- Reading sessions.

CREATE TABLE reading_sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  reader TEXT NOT NULL, blind INTEGER NOT NULL, neutral INTEGER NOT NULL, shuffled INTEGER NOT NULL,
  choice TEXT NOT NULL, run TEXT,
  first_review INTEGER NOT NULL, -- id of the last review before the session, which only later reviews can belong to
  last_review INTEGER, created TEXT NOT NULL, ended TEXT,
  secret TEXT NOT NULL DEFAULT '' -- secret of the session's neutral names
);
CREATE INDEX reading_sessions_by_reader ON reading_sessions (reader, ended, study);

CREATE TABLE reading_session_cases (
  session INTEGER NOT NULL REFERENCES reading_sessions(id) ON DELETE CASCADE, position INTEGER NOT NULL,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX reading_session_cases_by_position ON reading_session_cases (session, position, case_id);
CREATE UNIQUE INDEX reading_session_cases_by_case ON reading_session_cases (case_id, session);

-- The order and the numbers in which a reader sees cases with hidden names, drawn at random once: one order for each
-- reader and study, and one for each reading session.
CREATE TABLE neutral_orders (
  id INTEGER PRIMARY KEY AUTOINCREMENT, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  reader TEXT NOT NULL, session INTEGER REFERENCES reading_sessions(id) ON DELETE CASCADE, secret TEXT NOT NULL,
  first INTEGER NOT NULL, -- number of the first case in the order; the following cases are numbered consecutively
  whole INTEGER NOT NULL DEFAULT 1 -- 0 if cases were imported later
);
CREATE UNIQUE INDEX neutral_orders_by_reader ON neutral_orders (reader, study, coalesce(session, 0));
CREATE INDEX neutral_orders_by_study ON neutral_orders (study);
CREATE TABLE neutral_cases (
  list INTEGER NOT NULL REFERENCES neutral_orders(id) ON DELETE CASCADE, position INTEGER NOT NULL,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX neutral_cases_by_position ON neutral_cases (list, position, case_id);
CREATE UNIQUE INDEX neutral_cases_by_case ON neutral_cases (case_id, list, position);
CREATE TRIGGER neutral_orders_incomplete AFTER INSERT ON cases BEGIN
  UPDATE neutral_orders SET whole = 0 WHERE study = NEW.study AND whole = 1;
END;

-- Reader trials: plans, cases with the reference standard, each reader's parts, and the ratings and marks.

CREATE TABLE trials (
  id INTEGER PRIMARY KEY AUTOINCREMENT, study TEXT NOT NULL REFERENCES studies(id) ON DELETE CASCADE,
  name TEXT NOT NULL, plan TEXT NOT NULL, -- JSON (core/studio/trials/plan.py)
  run TEXT, digest TEXT NOT NULL, made_by TEXT NOT NULL, created TEXT NOT NULL, started TEXT,
  frozen TEXT, -- time of the first decision of any reader
  closed TEXT
);
CREATE INDEX trials_by_study ON trials (study);

-- truth and mask are the reference standard at the time of the plan.
CREATE TABLE trial_cases (
  trial INTEGER NOT NULL REFERENCES trials(id) ON DELETE CASCADE, position INTEGER NOT NULL,
  case_id INTEGER NOT NULL REFERENCES cases(id) ON DELETE CASCADE, truth TEXT NOT NULL, mask INTEGER,
  repeated INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (trial, position)
) WITHOUT ROWID;
CREATE INDEX trial_cases_by_case ON trial_cases (case_id);

CREATE TABLE trial_parts (
  id INTEGER PRIMARY KEY AUTOINCREMENT, trial INTEGER NOT NULL REFERENCES trials(id) ON DELETE CASCADE,
  reader TEXT NOT NULL, number INTEGER NOT NULL, arm TEXT NOT NULL,
  session INTEGER UNIQUE REFERENCES reading_sessions(id)
);
CREATE INDEX trial_parts_by_reader ON trial_parts (reader, trial, number);
CREATE INDEX trial_parts_by_trial ON trial_parts (trial);

CREATE TABLE trial_reads (
  review INTEGER PRIMARY KEY REFERENCES reviews(id) ON DELETE CASCADE,
  part INTEGER NOT NULL REFERENCES trial_parts(id) ON DELETE CASCADE, rating REAL,
  marks TEXT NOT NULL -- JSON [[x0, y0, x1, y1, rating], ...] at the time of the decision
);
CREATE INDEX trial_reads_by_part ON trial_reads (part);

CREATE TABLE trial_marks (
  finding INTEGER PRIMARY KEY REFERENCES findings(id) ON DELETE CASCADE, rating REAL NOT NULL
);

-- The audit trail, and audit trails from imported bundles.

CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, who TEXT NOT NULL, kind TEXT NOT NULL, study TEXT,
  case_id INTEGER, before TEXT NOT NULL DEFAULT 'null', after TEXT NOT NULL DEFAULT 'null', -- JSON
  shown TEXT NOT NULL DEFAULT '{}', -- JSON
  seconds REAL, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE
);
CREATE INDEX events_by_case ON events (case_id, id);
CREATE INDEX events_by_study ON events (study, id);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN
  SELECT RAISE(ABORT, 'the audit trail is never changed');
END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN
  SELECT RAISE(ABORT, 'the audit trail is never shortened');
END;
-- INSERT OR REPLACE deletes without firing the trigger above.
CREATE TRIGGER events_no_replace BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.id OR hash = NEW.hash) BEGIN
  SELECT RAISE(ABORT, 'the audit trail is never changed');
END;

CREATE TABLE foreign_events (
  bundle TEXT NOT NULL, id INTEGER NOT NULL, at TEXT, who TEXT, kind TEXT, study TEXT, case_id INTEGER, before TEXT,
  after TEXT, shown TEXT, seconds REAL, previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (bundle, id)
) WITHOUT ROWID;
CREATE TRIGGER foreign_events_no_update BEFORE UPDATE ON foreign_events BEGIN
  SELECT RAISE(ABORT, 'the audit trail is never changed');
END;
CREATE TRIGGER foreign_events_no_delete BEFORE DELETE ON foreign_events BEGIN
  SELECT RAISE(ABORT, 'the audit trail is never changed');
END;

-- Erasures of patients; reviews may be deleted only while `step` is 'rows'.
CREATE TABLE erasures (
  id INTEGER PRIMARY KEY AUTOINCREMENT, by TEXT NOT NULL, asked TEXT NOT NULL,
  step TEXT, -- next step (core/studio/review/erasing.py); NULL once all steps are done
  request TEXT, -- JSON description of the data to delete; NULL once they are deleted
  backup TEXT, -- name of the backup that replaces the older backups
  done TEXT
);
CREATE INDEX erasures_by_step ON erasures (step) WHERE step IS NOT NULL;

-- Keyed digests of erased images, by which these are recognised if they are imported again.
CREATE TABLE erased (digest TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL); -- JSON
