"""The Python client of a fedflow server, over its REST API; the CLI and notebooks use it.

Here belong requests, signatures, and answers as typed values. Nothing here prints, reads the
environment, or knows what a server does inside.
"""

from fedflow.client.client import Client

__all__ = ["Client"]
