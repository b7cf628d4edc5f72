"""Jobs of a single site that the server submits to itself: uploads, transfers, the model store.

Runs at the site that is asked. What the tables and models are belongs to `data` and `models`.
"""
