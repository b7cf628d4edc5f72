"""Calls to other parties: which way they take, and the clients that carry them.

A client sends once and says what happened; whether to try again is decided by the outbox in `app/`.
"""
