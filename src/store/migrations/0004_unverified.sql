-- Nightly reports whose commit nobody could be asked about (`commit_verified` 0) are asked about later:
-- 1 then means that it is upstream's, 2 that upstream has no such commit.
CREATE INDEX jobs_unverified ON jobs (head_sha) WHERE commit_verified = 0;
