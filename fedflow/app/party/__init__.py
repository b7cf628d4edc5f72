"""What a site's server does for its share of a job, whoever submitted it.

Accepting it, running it, reporting, and repairing what got lost."""
