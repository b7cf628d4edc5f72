"""Retrieving a host's values of known ids, without showing which ids these are."""
