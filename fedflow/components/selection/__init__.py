"""HeteroFeatureSelection: a cascade of filters that keeps some columns."""
