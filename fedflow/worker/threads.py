"""How many threads the numerical libraries of a worker use: as many as the task has cores.

A zygote has them imported with one thread each; its environment says so (`executor/limits.py`).
Processors are not chosen for a task: which ones are free, the system knows better.
"""

from __future__ import annotations

import io
import os
from typing import Final

import pyarrow as pa
from pyarrow import csv

VARIABLES: Final = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_BLOCK: Final = 64  #: bytes of a block that one thread reads


def limit_threads(cores: int) -> None:
    """Let Arrow, and the BLAS and OpenMP libraries, imported or not, use `cores` threads.

    What is imported already is told through threadpoolctl, which comes with scikit-learn; without
    it those libraries stay at the number that they were imported with. Nothing is done if the
    environment had that number before they were imported.
    """
    if all(os.environ.get(name) == str(cores) for name in VARIABLES):
        return
    for name in VARIABLES:
        os.environ[name] = str(cores)
    pa.set_cpu_count(cores)
    if cores > 1:
        _raise_loaded(cores)


def start_arrow_threads() -> None:
    """Let Arrow start its threads now, before the memory is limited.

    It waits for ever for one whose stack (8 MiB) could not be had.
    """
    lines = b"n\n" + b"1\n" * (_BLOCK * 64)
    csv.read_csv(io.BytesIO(lines), read_options=csv.ReadOptions(block_size=_BLOCK))


def _raise_loaded(cores: int) -> None:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return
    threadpool_limits(limits=cores)
