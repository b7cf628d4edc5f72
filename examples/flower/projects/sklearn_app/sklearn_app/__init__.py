"""sklearn-app: logistic regression of scikit-learn, averaged over the nodes."""
