"""Where the arithmetic of a task is done: forked processes of this machine, or a Spark application.

Here belong implementations of `fedflow.sdk.Workers` and the way to a job's Spark application. What
is computed belongs to `components`, how tables are stored to `tables`.
"""
