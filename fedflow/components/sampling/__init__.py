"""Choosing rows: samples, and splits into train, validate and test data."""
