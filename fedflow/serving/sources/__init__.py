"""Feature sources: where a host's process finds the features of an id.

Those of this package are known by the names of their modules; others are entry points of the group
`fedflow.serving.feature_source`: functions that get the options of the settings and return a
`FeatureSource`.
"""
