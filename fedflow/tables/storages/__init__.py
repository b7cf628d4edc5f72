"""Rows that lie elsewhere: databases and data sets, read once for a job, and written.

Each kind of storage has a `RowSource`; `opening.py` opens the one that a `Connection` names. What
an address may say is `domain/data/storages.py`, who may read it is the server's to check.
"""
