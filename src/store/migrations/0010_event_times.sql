-- When upstream says it happened: of a pull request's events the later by this time is the newer, whenever
-- it arrives. None where the event says no time, or came before this column was.
ALTER TABLE deliveries ADD COLUMN said_at BIGINT;
