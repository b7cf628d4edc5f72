"""Errors, settings types, clock, ids and log set-up; knows nothing of jobs, stores or networks."""
