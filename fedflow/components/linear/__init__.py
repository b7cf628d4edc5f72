"""Vertical linear models: guest and host keep their own features, an arbiter holds the keys.

What belongs here is the protocol between the three roles and the plaintext mathematics of each. The
encryption itself is in `sdk.crypto`.
"""
