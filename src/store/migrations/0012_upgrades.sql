-- What upgrade gates decided, as it was published: one row a matrix, its newest report.
CREATE TABLE upgrades (
  id {{identity}},
  matrix TEXT NOT NULL UNIQUE,            -- SHA-256 of what was frozen before the first launch
  name TEXT NOT NULL,
  decision TEXT NOT NULL,                 -- adopt, isolate, defer, rollback
  decided_at BIGINT NOT NULL,
  bundle TEXT NOT NULL,                   -- SHA-256 of the bundle that it was judged from
  report TEXT NOT NULL,                   -- JSON, see docs/gate.md
  published_at BIGINT NOT NULL
);
CREATE INDEX upgrades_decided ON upgrades (decided_at);
