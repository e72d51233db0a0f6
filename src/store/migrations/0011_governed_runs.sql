-- What a run on a test configuration says of it.
ALTER TABLE runs ADD COLUMN config TEXT NOT NULL DEFAULT '[]';      -- JSON: path and digest of each file
ALTER TABLE runs ADD COLUMN observe BIGINT NOT NULL DEFAULT 0;      -- 1: run whatever it says
ALTER TABLE runs ADD COLUMN shard TEXT;                             -- which part of a selection: "2/4:1200-2400:0f3a9c20d4e5f607"
ALTER TABLE runs ADD COLUMN imported BIGINT NOT NULL DEFAULT 0;     -- 1: read from what another runner wrote
ALTER TABLE runs ADD COLUMN ended TEXT;                             -- complete, interrupted, died; none: going on, or from before
ALTER TABLE runs ADD COLUMN owner TEXT;                             -- the process that fills it, while it does
ALTER TABLE runs ADD COLUMN alive_at BIGINT;                        -- when that last said so
ALTER TABLE test_results ADD COLUMN mode TEXT;                      -- none: without a configuration
ALTER TABLE test_results ADD COLUMN basis TEXT;
ALTER TABLE test_results ADD COLUMN place TEXT;                     -- file:line:column
ALTER TABLE test_results ADD COLUMN observed TEXT;                  -- what it did; outcome is what that means under mode
ALTER TABLE test_results ADD COLUMN leak TEXT;                      -- JSON
CREATE INDEX runs_owned ON runs (alive_at) WHERE owner IS NOT NULL;
