-- What is past its retention is found without reading the bodies.
CREATE INDEX deliveries_received ON deliveries (received_at);
CREATE INDEX deliveries_bodies ON deliveries (received_at) WHERE body IS NOT NULL;
CREATE INDEX runs_started ON runs (started_at);
