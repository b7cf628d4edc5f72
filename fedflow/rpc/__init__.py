"""gRPC doors of a server: commands between parties, and the data plane's streams.

Translates between gRPC and what it is given; decides nothing about jobs, and opens nothing that
`wire/paths.py` does not list.
"""
