"""What happens next to a job and why: `decide`, its views and actions, retries, queue, history.

May use `domain.job`, which does not import this package.
"""
