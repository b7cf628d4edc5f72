"""What trainings of every kind of model share."""
