"""What is done with the scores of a model: credit scores, labels for unlabelled rows."""
