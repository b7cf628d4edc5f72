"""Tables and caches of this server: who made them, who uses them, how they come in and go out."""
