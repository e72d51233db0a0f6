-- What is past its retention, and what the relay itself ended, is found without reading the rest.
CREATE INDEX jobs_words ON jobs (first_seen_at) WHERE word_body <> '{}';
CREATE INDEX jobs_ended ON jobs (first_seen_at) WHERE concluded_by = 'relay';
CREATE INDEX github_calls_payloads ON github_calls (created_at) WHERE payload <> '{}';
