"""The store in memory, for tests and the simulator: the same parts as `store.sql`."""
