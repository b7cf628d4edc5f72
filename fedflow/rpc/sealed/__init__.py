"""Calls over an exchange, sealed from one party's server to the other's.

Here belongs what both ends do: agree on a session, seal and open records, count calls. What the
exchange itself reads is in `wire/exchange.py`. `cryptography` is imported by these modules, so they
are imported where a route goes over an exchange, and not before.
"""
