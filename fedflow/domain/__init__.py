"""The core: values and decisions. No I/O, clock, thread, randomness, logging, ORM or Flask."""
