"""pandas is loaded by those tasks that use it, and pyarrow knows it from then on."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

_START = """
import sys
import numpy as np
import pyarrow as pa
from fedflow.worker.lazy_pandas import without_pandas
without_pandas()
pa.array([1.0, None]), pa.array(np.arange(3)), pa.table({"a": ["b"]})
assert "pandas" not in sys.modules
"""

needs_pandas = pytest.mark.skipif(
    importlib.util.find_spec("pandas") is None, reason="pandas is not installed"
)


def _run(program: str) -> None:
    """Run a program in an interpreter that has imported nothing yet."""
    subprocess.run([sys.executable, "-c", _START + program], check=True, timeout=120)


def test_arrays_and_tables_do_not_load_pandas() -> None:
    _run("")


@needs_pandas
def test_pyarrow_loads_pandas_when_it_needs_it() -> None:
    _run("assert list(pa.table({'a': [1, 2]}).to_pandas()['a']) == [1, 2]")


@needs_pandas
def test_pyarrow_recognises_a_series_of_who_imported_pandas() -> None:
    _run(
        "import pandas as pd\n"
        "assert pa.array(pd.Series([1.0, float('nan')])).null_count == 1\n"
        "assert pa.Table.from_pandas(pd.DataFrame({'a': [1]})).column_names == ['a']\n"
    )


@needs_pandas
def test_pandas_that_is_there_already_stays() -> None:
    program = _START.partition("assert")[0].replace("import numpy", "import pandas, numpy")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
