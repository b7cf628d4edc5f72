"""Tables whose block work is done by Spark's workers; the rows never pass through its driver.

Rows lie in folders of Parquet parts (`tables/parts.py`) that driver and workers both reach. A Spark
task reads batches with Arrow, calls the component's function and writes a part; what goes through
Spark are names, counts and small results.
"""
