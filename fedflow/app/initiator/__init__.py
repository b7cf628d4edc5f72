"""What the server of the initiator does for a job: validates it, schedules it, sends its commands.

Runs only at the site that submitted the job. What a site does with a command belongs to
`participant`; this package does not import it.
"""
