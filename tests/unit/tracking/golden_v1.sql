-- A ledger as schema version 1 wrote it. Never edited: every later gofer must open it.
PRAGMA journal_mode = WAL;
CREATE TABLE runs (
    id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, group_id TEXT, row_index INTEGER,
    name TEXT NOT NULL, target TEXT NOT NULL, backend TEXT NOT NULL, store TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT, detail TEXT, exit_code INTEGER,
    command TEXT NOT NULL, args TEXT NOT NULL,
    gpus INTEGER NOT NULL, nodes INTEGER NOT NULL, procs INTEGER NOT NULL, priority INTEGER NOT NULL,
    submitted_at REAL NOT NULL, started_at REAL, ended_at REAL, elapsed_s REAL,
    attempts TEXT NOT NULL, snapshot TEXT, tags TEXT NOT NULL, counts TEXT NOT NULL,
    size INTEGER NOT NULL, submitter TEXT NOT NULL, observed_at REAL
);
CREATE INDEX runs_by_time ON runs (submitted_at, id) WHERE group_id IS NULL;
CREATE INDEX runs_by_state ON runs (state, submitted_at, id);
CREATE INDEX runs_by_group ON runs (group_id, row_index) WHERE group_id IS NOT NULL;
CREATE TABLE records (id TEXT NOT NULL PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE events (run_id TEXT NOT NULL, at REAL NOT NULL, event TEXT NOT NULL, data TEXT NOT NULL);
CREATE INDEX events_by_run ON events (run_id);
PRAGMA application_id = 1735353970;
PRAGMA user_version = 1;
INSERT INTO runs VALUES (
    'r261116-091233-bbbbbb', 'run', NULL, NULL, 'train', 'local', 'local', 'file:///store',
    'failed', 'exit-code', 'exit code 3', 3, '["python","train.py"]', '{}', 2, 1, 2, 5,
    1794820353.0, 1794820354.5, 1794820360.0, 5.5, '[{"number":1,"state":"failed"}]', 'abcd',
    '{"lr":"0.1"}', '{}', 1, '1:2:boot', 1794820361.0
);
INSERT INTO records VALUES ('r261116-091233-bbbbbb', x'7b7d');
INSERT INTO events VALUES ('r261116-091233-bbbbbb', 1794820353.0, 'recorded', '{}');
