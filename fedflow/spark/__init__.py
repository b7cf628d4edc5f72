"""Everything that knows Spark: a job's application, its workers, its tables.

Here belong starting and watching a job's Spark application (`applications`, `application`,
`submission`), a task's connection to it (`session`), `fedflow.sdk.Workers` over it (`workers`) and
tables on it (`tables`). What a job may ask for is `domain/job/spark_options.py`, the messages of an
application are `wire/spark_application.py`, and `worker/spark.py` puts a task's parts together.
"""
