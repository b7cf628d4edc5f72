"""Data tables of one party: where the rows lie, and how they come in and go out as text.

Here belong the engines behind `fedflow.sdk.Table` and the CSV doors. Which tables exist is known to
the catalog, a port: the server keeps it in its store, an executor asks the server. Nothing here
knows jobs, roles or other parties.
"""
