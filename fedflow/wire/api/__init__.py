"""What the REST API answers, one class for each answer, by noun.

A server makes an instance and encodes it, OpenAPI describes the class (`web/openapi.py`), and the
Python client returns what it reads into it. Members have the names and the order of the JSON, their
defaults are for answers of servers that do not send them. Times are milliseconds since the epoch.
"""
