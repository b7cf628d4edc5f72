"""Formats on the wire: packet, envelope, header names, paths, FATE field names <-> domain values.

Knows the spelling of things, never what to do about them.
"""
