"""Caches of a serving process: results of requests, and hosts' parts of scores.

Keys are HMACs, so that no cache knows an id. What is shared between processes is signed: an entry
that somebody else wrote, or moved, is none.
"""
