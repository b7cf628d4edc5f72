"""HeteroKmeans: k-means over the columns of several parties with the same rows.

What belongs here: Lloyd's iteration as plaintext mathematics (`lloyd.py`), the protocol between
data parties and arbiter, the model. Measures of clusters are in `evaluation/`.
"""
