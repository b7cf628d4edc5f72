"""What single components do to rows online; each module imports the room of its components."""
