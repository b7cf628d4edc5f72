"""The `fedflow` command: what people and scripts type.

Here belong options, texts and exit codes; what is asked of a server goes through `fedflow.client`.
Command modules import nothing heavy, so that `fedflow job query` starts at once.
"""
