"""What the initiator's server does for a job.

Taking it in, deciding, sending commands, taking answers and reports.
"""
