"""How many threads the numerical libraries of a worker use: as many as the task has cores.

A zygote has them imported with one thread each; its environment says so (`executor/limits.py`).
Processors are not chosen for a task: which ones are free, the system knows better.
"""

from __future__ import annotations

import os
from typing import Final

import pyarrow as pa

VARIABLES: Final = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def limit_threads(cores: int) -> None:
    """Let Arrow, and the BLAS and OpenMP libraries, imported or not, use `cores` threads.

    What is imported already is told through threadpoolctl, which comes with scikit-learn; without
    it those libraries stay at the number that they were imported with.
    """
    for name in VARIABLES:
        os.environ[name] = str(cores)
    pa.set_cpu_count(cores)
    if cores > 1:
        _raise_loaded(cores)


def _raise_loaded(cores: int) -> None:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return
    threadpool_limits(limits=cores)
