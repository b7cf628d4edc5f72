"""gRPC between servers: `server` takes calls, `client` makes them, `data_plane` carries values.

Translates between gRPC and what it is given; decides nothing about jobs, and opens nothing that
`wire/paths.py` does not list. Here are the credentials and the packet codec that all three use.
"""
