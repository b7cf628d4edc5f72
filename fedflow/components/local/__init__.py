"""Models of one party alone, to compare federated ones with."""
