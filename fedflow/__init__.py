"""fedflow: a federated scheduler server.

Each organisation runs one server; the servers start the components of a job at every party and the
parties' processes exchange encrypted intermediate values. See docs/architecture.md.
"""

__version__ = "0.1.0"
