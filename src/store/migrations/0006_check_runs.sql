-- What upstream last said of a pull request.
CREATE TABLE pull_requests (
  number BIGINT NOT NULL PRIMARY KEY,
  is_open BIGINT NOT NULL,
  labels TEXT NOT NULL,                   -- JSON array of names
  own_branch TEXT,                        -- its head, lower case, where that is a branch of upstream's
  said_at BIGINT NOT NULL                 -- its own time: what arrives out of order changes nothing
);
CREATE INDEX pull_requests_branch ON pull_requests (own_branch) WHERE own_branch IS NOT NULL;

-- Calls to GitHub beside dispatches: an outbox, and afterwards the record of what was sent.
CREATE TABLE github_calls (
  id {{identity}},
  kind TEXT NOT NULL,                     -- create_check_run, rerun_failed_jobs, rerun, list_check_suite
  delivery BIGINT NOT NULL REFERENCES deliveries (id),  -- the event that it goes back to
  repo_key TEXT NOT NULL,                 -- the backend that it is for, lower case
  repo TEXT NOT NULL,
  subject TEXT NOT NULL,                  -- what it is about…
  says TEXT NOT NULL,                     -- …and what of it: never twice
  order_key TEXT NOT NULL,                -- calls of one key leave one after another
  job BIGINT REFERENCES jobs (id),        -- of a job's check run
  payload TEXT NOT NULL,                  -- JSON: the body, or what the address needs
  state TEXT NOT NULL,                    -- pending, sending, sent, dead, withdrawn
  uncertain BIGINT NOT NULL DEFAULT 0,
  attempts BIGINT NOT NULL DEFAULT 0,
  not_before BIGINT NOT NULL,
  lease_owner TEXT,
  lease_until BIGINT,
  last_error TEXT,
  created_at BIGINT NOT NULL,
  first_attempt_at BIGINT,
  sent_at BIGINT,
  UNIQUE (subject, says)
);
CREATE INDEX github_calls_due ON github_calls (state, not_before);
CREATE INDEX github_calls_order ON github_calls (order_key, id);
CREATE INDEX github_calls_job ON github_calls (job);
CREATE INDEX github_calls_delivery ON github_calls (delivery);

-- The one check of an L4 backend on a pull request's commit whose name does not depend on its jobs'.
CREATE TABLE stable_checks (
  id {{identity}},
  delivery BIGINT NOT NULL REFERENCES deliveries (id),  -- of the latest dispatch
  repo_key TEXT NOT NULL,
  repo TEXT NOT NULL,
  head_sha TEXT NOT NULL,
  pr_number BIGINT NOT NULL,
  round BIGINT NOT NULL,                  -- how often it was opened
  conclusion TEXT,                        -- none while it is open
  active_at BIGINT NOT NULL,              -- the last dispatch or report
  look_at BIGINT NOT NULL,                -- when to decide, while it is open
  UNIQUE (repo_key, head_sha)
);
CREATE INDEX stable_checks_open ON stable_checks (look_at) WHERE conclusion IS NULL;
