"""Private set intersection: which sample ids the parties share, without showing the others.

`curve` hashes ids to points, `ecdh` blinds points, `workers` spreads that over processes,
`exchange` is the protocol between two parties, `intersection` the component with its `params`.
"""
