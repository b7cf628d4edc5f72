"""Rounds of members with the same columns: trainings and sums that survive members' absence.

What belongs here: the two ends of a round as pure state machines (`aggregator.py`, `member.py`),
their drivers over a federation (`driving.py`), strategies, and HomoLR. How a sum is masked is in
`secure_aggregation/`.
"""
