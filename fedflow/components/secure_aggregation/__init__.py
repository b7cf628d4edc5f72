"""Sums over many parties of which nobody sees a part: one round, for all components that add.

Pure: `Plan`, `Member` and `Aggregator` take and return messages; who moves them is the caller.
"""
