"""Values between executors of different parties, over streams between their servers.

Which values there are, and who waits for them, belongs to `fedflow.federation`.
"""
