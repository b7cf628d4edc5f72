"""Shipped with fedflow for tests of components: an in-process federation, recorders, fakes.

What belongs here runs for real within one process (threads, memory, temporary folders) and
satisfies the ports of `fedflow.sdk` and `fedflow.app`. The rest of fedflow does not import this.
"""
