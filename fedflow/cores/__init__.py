"""Block work of a task on the cores of this machine: forked processes behind `fedflow.sdk.Workers`.

What is computed belongs to `components`, the same on a Spark cluster to `spark`.
"""
