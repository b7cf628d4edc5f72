"""Scores of single rows by a deployed model: numbers alone, no network and no files.

`pipeline.build` makes a model of what a party has stored (`deployed.DeployedModel`). Rows of many
requests are scored at a time; a score equals that of a predict job.
"""
