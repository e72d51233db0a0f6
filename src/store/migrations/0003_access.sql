-- Who may change something: a token is kept as the SHA-256 of its text, which has 256 random bits.
CREATE TABLE access_tokens (
  id {{identity}},
  name TEXT NOT NULL,                     -- one live token a name
  role TEXT NOT NULL,                     -- operator, admin
  digest TEXT NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT,
  last_used_at BIGINT
);

-- What people changed, and what they were refused: written in the transaction of the change.
CREATE TABLE audit_log (
  id {{identity}},
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,                    -- token:<name>, or user:<name> at the command line
  origin TEXT NOT NULL,                   -- the caller's address, or the command line's host
  action TEXT NOT NULL,                   -- token.create, replay, …
  subject TEXT NOT NULL,                  -- what it was done to
  outcome TEXT NOT NULL                   -- in words, with numbers
);
CREATE INDEX audit_log_at ON audit_log (at);
