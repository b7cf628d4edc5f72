"""Features cut into bins, and what the bins tell about the label.

`splitting`, `statistics` and `optimal` compute on arrays and know no parties; `guest`, `host` and
`session` hold the protocol by which the guest learns the statistics of the hosts' bins.
"""
