"""Compares what the components compute between parties with plaintext tools on the joined data.

Run by `bin/accuracy`. `rows` is one line of the report, `data` the data sets, `chain` runs
components in this process; the other modules have the checks, one per family of components.
"""
