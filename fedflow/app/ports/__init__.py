"""What the use cases need from the outside: Protocols, one module per subject.

The store is used in transactions: `with store.transaction() as tx:` writes (one writer at a time on
SQLite), `with store.read() as tx:` only reads. Everything done on one `tx` happens together or not
at all; nothing on the network is called inside. Status changes are compare-and-set and answer
`Moved` or `Stale`; an impossible move raises IllegalMove. Implementations belong to the adapters.
"""
