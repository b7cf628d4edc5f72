"""The serving process of a party: answers of trained models to single rows and small batches.

A guest's process answers callers, and asks the processes of the hosts for their parts. Nothing here
knows jobs, the store of a server, or pages.
"""
