"""Models in files and outside: content-addressed blobs, archives for exchange, external stores.

What a model version is, and who may use it, is in `domain/models.py` and `app/models/models.py`;
here are only bytes.
"""
