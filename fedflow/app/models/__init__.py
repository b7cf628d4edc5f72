"""Models of this server: stored, changed at all sites or at none, exchanged, used by predict jobs.

Runs at every site that has a part of a model. Bytes on disk belong to `fedflow.blobs`.
"""
