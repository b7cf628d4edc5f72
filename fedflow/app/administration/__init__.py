"""What administrators see and change: accounts, permissions, keys, providers, servers, leadership.

Runs at every site for that site alone. Nothing here knows a running job.
"""
