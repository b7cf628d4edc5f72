"""Values between executors of several parties: keys, codec, mailbox, sessions, executor's handle.

Knows nothing of jobs, stores, Flask or gRPC; how bytes reach another party is a port
(`sending.py`). The server needs `plane.py`; an executor needs `handle.py` only.
"""
