"""numpy-app: logistic regression, trained where the data are."""
