"""The library: one module a lane, each with `make`, imported once torch is."""
