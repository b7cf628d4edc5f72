"""Waiting in real time, for a resource outside that cannot notify."""

from fedflow.base.clock import pause

__all__ = ["pause"]
