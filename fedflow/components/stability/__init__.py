"""How much the distribution of features has moved between two data sets of one party."""
