"""Tables and caches of this server: who wrote them, who uses them, which folders may be read.

Runs at the site that holds the data. Rows belong to `fedflow.tables`.
"""
