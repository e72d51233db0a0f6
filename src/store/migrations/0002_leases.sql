-- Who does a periodic duty at the moment, among all processes on this store. One row a duty.
CREATE TABLE leases (
  name TEXT NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,                    -- names one process
  held_until BIGINT NOT NULL
);
