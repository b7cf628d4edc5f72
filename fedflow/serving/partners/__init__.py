"""Both ends of a call between serving processes, and what is done without an answer."""
