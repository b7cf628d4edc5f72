"""Plain JSON read into types, safely from several threads."""

from fedflow.base.decoding import read_as

__all__ = ["read_as"]
