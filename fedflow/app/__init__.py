"""The use cases behind the doors. Calls ports, applies decisions; knows no web framework,
database or socket.
"""
