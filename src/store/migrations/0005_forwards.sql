-- Reports on their way to another HUD: the outbox, and for a day the record of what was sent. The body, an
-- envelope with what the downstream sent, goes once it was taken there.
CREATE TABLE forwards (
  id {{identity}},
  job BIGINT NOT NULL REFERENCES jobs (id),
  delivery_id TEXT NOT NULL,
  repo_key TEXT NOT NULL,
  repo TEXT NOT NULL,
  body {{bytes}},
  state TEXT NOT NULL,
  uncertain BIGINT NOT NULL DEFAULT 0,
  attempts BIGINT NOT NULL DEFAULT 0,
  not_before BIGINT NOT NULL,
  lease_owner TEXT,
  lease_until BIGINT,
  last_error TEXT,
  created_at BIGINT NOT NULL,
  first_attempt_at BIGINT,
  sent_at BIGINT
);
CREATE INDEX forwards_due ON forwards (state, not_before);
CREATE INDEX forwards_job ON forwards (job, id);
