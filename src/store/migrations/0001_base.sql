-- What upstream told us. One row a delivery id; the body is kept whole for its retention period.
CREATE TABLE deliveries (
  id {{identity}},
  delivery_id TEXT NOT NULL UNIQUE,       -- X-GitHub-Delivery; for nightly reports there is no delivery
  event_type TEXT NOT NULL,               -- pull_request, push
  action TEXT,
  pr_number BIGINT,
  pr_title TEXT,
  head_sha TEXT,
  head_ref TEXT,
  base_sha TEXT,
  base_ref TEXT,
  git_ref TEXT,                           -- a push's ref
  sender TEXT,
  labels TEXT NOT NULL DEFAULT '[]',      -- JSON array of names
  body {{bytes}},
  received_at BIGINT NOT NULL
);
CREATE INDEX deliveries_pr ON deliveries (pr_number, received_at);
CREATE INDEX deliveries_sha ON deliveries (head_sha);

-- The outbox, and afterwards the record of what was sent: one row a delivery and backend repository.
CREATE TABLE dispatches (
  id {{identity}},
  delivery BIGINT NOT NULL REFERENCES deliveries (id),
  repo_key TEXT NOT NULL,                 -- lower case
  repo TEXT NOT NULL,                     -- as the allowlist spells it
  level TEXT NOT NULL,                    -- L1..L4, as it was when accepted
  device TEXT,
  state TEXT NOT NULL,                    -- pending, sending, sent, dead, withdrawn
  uncertain BIGINT NOT NULL DEFAULT 0,    -- 1: an earlier attempt may have gone through
  attempts BIGINT NOT NULL DEFAULT 0,
  not_before BIGINT NOT NULL,
  lease_owner TEXT,
  lease_until BIGINT,
  last_error TEXT,
  created_at BIGINT NOT NULL,
  first_attempt_at BIGINT,                -- recorded before sending: callbacks count from here
  sent_at BIGINT,
  UNIQUE (delivery, repo_key)
);
CREATE INDEX dispatches_due ON dispatches (state, not_before);
CREATE INDEX dispatches_repo ON dispatches (repo_key, created_at);

-- A job downstream. The key is the wire's (relay-contract section 4); what the relay established stands
-- apart from what the downstream says (word_*).
CREATE TABLE jobs (
  id {{identity}},
  delivery BIGINT REFERENCES deliveries (id),   -- none for nightly and periodic reports
  delivery_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  repo_key TEXT NOT NULL,
  repo TEXT NOT NULL,
  level TEXT NOT NULL,
  device TEXT,
  head_sha TEXT,                          -- from the delivery's record
  pr_number BIGINT,
  run_id TEXT NOT NULL,
  run_attempt BIGINT NOT NULL,
  job_name TEXT NOT NULL,
  state TEXT NOT NULL,                    -- in_progress, completed
  conclusion TEXT,                        -- as reported, or timed_out by the relay
  concluded_by TEXT,                      -- downstream, relay
  completed_first BIGINT NOT NULL DEFAULT 0,
  first_seen_at BIGINT NOT NULL,
  started_at BIGINT,                      -- relay's clock at in_progress
  completed_at BIGINT,                    -- relay's clock at completed
  queue_us BIGINT,                        -- dispatch to in_progress; none on a re-run
  execution_us BIGINT,
  word_workflow TEXT NOT NULL,            -- workflow name
  word_url TEXT,                          -- http(s) only
  word_check_run_id TEXT,
  word_body TEXT NOT NULL,                -- the latest report's JSON without its echoed payload
  word_passed BIGINT,
  word_failed BIGINT,
  word_skipped BIGINT,
  word_combination TEXT,                  -- workflow.crosscheck.combination, JSON
  results_digest TEXT,                    -- workflow.crosscheck.results_digest
  commit_verified BIGINT NOT NULL DEFAULT 1,  -- 0: a nightly report whose commit was not looked up upstream
  UNIQUE (delivery_id, repo_key, run_id, run_attempt, job_name)
);
CREATE INDEX jobs_repo ON jobs (repo_key, first_seen_at);
CREATE INDEX jobs_reports ON jobs (repo_key, first_seen_at) WHERE delivery IS NULL;
CREATE INDEX jobs_pr ON jobs (pr_number);
CREATE INDEX jobs_sha ON jobs (head_sha, repo_key);
CREATE INDEX jobs_results ON jobs (results_digest);
CREATE INDEX jobs_running ON jobs (state, started_at);

-- Uploaded result files, by digest of the gzipped bytes, each at most 32 MiB. A file is its uploader's:
-- what another repository uploads is another's, though the bytes are the same.
CREATE TABLE result_files (
  repo_key TEXT NOT NULL,
  digest TEXT NOT NULL,
  size BIGINT NOT NULL,
  bytes {{bytes}} NOT NULL,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (repo_key, digest)
);

CREATE TABLE combinations (
  digest TEXT NOT NULL PRIMARY KEY,
  backend TEXT NOT NULL,
  backend_revision TEXT NOT NULL,
  core_revision TEXT NOT NULL,
  suite_revision TEXT NOT NULL,
  device TEXT NOT NULL,
  environment_digest TEXT NOT NULL
);

-- One run of tests: made here by `crosscheck run`, or read from a result file.
CREATE TABLE runs (
  id {{identity}},
  repo_key TEXT NOT NULL,                 -- whose file it was read from; '' for a run made here
  run_key TEXT NOT NULL,                  -- the run's own id
  results_digest TEXT,                    -- the file it was read from
  combination TEXT NOT NULL REFERENCES combinations (digest),
  command TEXT NOT NULL,                  -- JSON array
  selection TEXT NOT NULL,
  environment TEXT NOT NULL,              -- JSON object
  started_at BIGINT NOT NULL,
  finished_at BIGINT,                     -- none: still running or being read, or died
  counts TEXT NOT NULL DEFAULT '{}',      -- JSON: outcome name to number, latest attempts
  UNIQUE (repo_key, run_key)
);
CREATE INDEX runs_results ON runs (results_digest, repo_key);
CREATE INDEX runs_combination ON runs (combination, started_at);

CREATE TABLE tests (
  id {{identity}},
  digest TEXT NOT NULL UNIQUE,            -- of the four: PostgreSQL has no room for them in an index
  file TEXT NOT NULL,
  class_name TEXT NOT NULL,
  method TEXT NOT NULL,
  variant TEXT NOT NULL                   -- canonical JSON
);

CREATE TABLE test_results (
  run BIGINT NOT NULL REFERENCES runs (id),
  test BIGINT NOT NULL REFERENCES tests (id),
  attempt BIGINT NOT NULL,
  outcome TEXT NOT NULL,
  kind TEXT NOT NULL,
  fingerprint TEXT NOT NULL DEFAULT '',
  node_id TEXT NOT NULL,
  message TEXT NOT NULL DEFAULT '',
  detail TEXT NOT NULL DEFAULT '',
  mismatch TEXT,                          -- JSON
  duration_us BIGINT NOT NULL,
  PRIMARY KEY (run, test, attempt)
);
CREATE INDEX test_results_test ON test_results (test, run);
CREATE INDEX test_results_outcome ON test_results (run, outcome, test);
CREATE INDEX test_results_fingerprint ON test_results (fingerprint);

-- The allowlist as last loaded, so that the HUD shows what the relay uses.
CREATE TABLE allowlist_versions (
  id {{identity}},
  digest TEXT NOT NULL,
  source TEXT NOT NULL,                   -- path or URL
  text TEXT NOT NULL,
  error TEXT,                             -- why this version was refused; the one before stays in force
  loaded_at BIGINT NOT NULL
);
CREATE TABLE backends (
  repo_key TEXT NOT NULL PRIMARY KEY,
  repo TEXT NOT NULL,
  level TEXT NOT NULL,
  device TEXT,
  oncalls TEXT NOT NULL,                  -- JSON array
  listed BIGINT NOT NULL,                 -- 0: once listed, no longer
  since BIGINT NOT NULL                   -- first listed at this level
);
