"""The memory of one server: jobs, tasks, schedules, outbox, leases, tracking, tables.

Here belongs everything that knows SQL, peewee or a database driver; nothing else in fedflow does.
What goes in and comes out are the frozen values of `domain.records`; the contract is
`app.ports.store.Store`. `connect.py` opens a store, `sql` and `memory` are its two implementations.
No rule about when a job may move stands here: the store asks `domain.states`, and writes by
compare-and-set.
"""
