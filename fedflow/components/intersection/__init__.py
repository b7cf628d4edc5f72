"""Private set intersection: which sample ids the parties share, without showing the others.

From below: `hashing` and `elements` (ids and blinded ids as bytes); the ciphers `curve` and `ecdh`,
`prime_group`, `blind_rsa`, whose arithmetic the task's workers do; the `sides` of a pair of parties
and who plays them, `commutative` and `blind_rsa_sides`, chosen by `methods`. `exchange` is the
protocol between one guest and its hosts, with `handshake` before it, `pruning` by `bloom` filters,
`caching` for later jobs, and `cardinality` where only the number is wanted. `keys` says what a
table is matched by, `alignment` which rows come out, `writing` writes them; `intersection` is the
component, with its `params`.
"""
