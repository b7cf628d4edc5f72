"""The log files of a job: found, indexed, searched, and the first error in them.

Runs at the site whose files they are. Writing logs belongs to `base.log` and to the workers.
"""
