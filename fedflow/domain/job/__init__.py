"""What a job is: documents as submitted, their check, and the specification that follows from them.

Nothing here knows how far a job is; that belongs to `scheduling`.
"""
