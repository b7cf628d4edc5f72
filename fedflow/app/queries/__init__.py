"""What users ask about jobs and their results, and the deletion of both.

Runs at the site that is asked and reads what that site has stored. Nothing here moves a job on.
"""
