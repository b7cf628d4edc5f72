"""Opens a file whose rows become a table, by what its first bytes say it is."""

from __future__ import annotations

from pathlib import Path

from fedflow.tables.arrow_import import ArrowSource
from fedflow.tables.csv_header import CsvOptions, FileKind, kind_of
from fedflow.tables.csv_import import CsvSource
from fedflow.tables.file_errors import told
from fedflow.tables.input_files import InputFile, local_file
from fedflow.tables.row_source import FileSource


def open_source(source: Path | InputFile, options: CsvOptions) -> FileSource:
    """Return the open file.

    Raises: BadData: it cannot be read, or its header is wrong; others as `InputFile.open`.
    """
    file = local_file(source) if isinstance(source, Path) else source
    is_text = kind_of_input(file) is FileKind.TEXT
    return CsvSource(file, options) if is_text else ArrowSource(file, options)


def kind_of_input(file: InputFile) -> FileKind:
    """Return what a file is. Raises: as `InputFile.open`."""
    with file.open() as opened, told(file.where):
        return kind_of(opened.read(8))
