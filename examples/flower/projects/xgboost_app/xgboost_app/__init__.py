"""xgboost-app: boosted trees of all nodes in one model."""
