"""Vertical linear models of two parties without an arbiter: secret shares and encryption.

`shares.py` knows the ring, `matmul.py` products of shares with features, `training.py` the
iterations of both parties, `session.py` the messages and the security argument.
"""
