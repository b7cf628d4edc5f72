"""Rendezvous: members agree, round by round, on who takes part and on their ranks.

`operators` decide what a member does next, `actions` make the new state, `executor` writes it with
a compare-and-set. These are pure. A `backend.Backend` stores the state as bytes that it does not
read. Source: PyTorch 2.13, elastic dynamic rendezvous.
"""
