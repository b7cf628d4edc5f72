"""Pure functions from stored values to what the board's templates and scripts show."""
