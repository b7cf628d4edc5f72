"""The store over SQL: one module per part of the ports, `store` puts them together.

Opening a database, its schema and the two dialects belong to the package above.
"""
