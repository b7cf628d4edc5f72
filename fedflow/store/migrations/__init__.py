"""The schema's history: one module per step, numbered, never changed once released.

A step is a function `up(schema)` that may be done twice. It names types and tables itself and does
not look at `tables.py`, which tells only what the newest schema is. A new step is a new module here
and a line in `steps.py`; `tests/contract` keeps a store of every older version to run it on.
"""
