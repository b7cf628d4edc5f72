"""Contents of models in files and outside: content-addressed blobs, archives, external stores.

What a model version is, and who may use it, is in `domain/models/model.py` and
`app/models/models.py`; here are only bytes.
"""
