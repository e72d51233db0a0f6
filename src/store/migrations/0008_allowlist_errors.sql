-- Why the allowlist cannot be read or used at the moment, as the relay that last saw it change has it.
CREATE TABLE allowlist_errors (
  source TEXT NOT NULL PRIMARY KEY,       -- path or address
  error TEXT NOT NULL,
  since BIGINT NOT NULL
);
