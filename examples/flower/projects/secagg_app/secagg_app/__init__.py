"""secagg-app: numpy-app with secure aggregation."""
