"""Opens a file whose rows become a table, by what its first bytes say it is."""

from __future__ import annotations

from pathlib import Path

from fedflow.tables.arrow_import import ArrowSource
from fedflow.tables.csv_header import CsvOptions, FileKind, file_kind
from fedflow.tables.csv_import import CsvSource
from fedflow.tables.row_source import RowSource


def open_source(path: Path, options: CsvOptions) -> RowSource:
    """Return the open file. Raises: BadData: it cannot be read, or its header is wrong."""
    is_text = file_kind(path) is FileKind.TEXT
    return CsvSource(path, options) if is_text else ArrowSource(path, options)
