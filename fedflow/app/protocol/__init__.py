"""What the initiator's and a participant's half of the server share: messages between parties.

Here belong the commands, how a message is made and read, leases, circuit breakers, the queue of
the local cores and what both halves keep in memory of a job. Runs at every site. Decisions about a
whole job belong to `initiator`, decisions about this site's tasks to `participant`.
"""
