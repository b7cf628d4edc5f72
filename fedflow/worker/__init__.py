"""The process that runs one party task, and the zygote that forks such processes."""
