"""Columns and first rows of a Parquet or Arrow file that is bound as a table.

A file can be made so that reading it takes much more memory than it has bytes, or crashes the
library. So the server does not read it: it starts `python -m fedflow.tables.arrow_probe` with the
path, the options as JSON and a memory limit, which prints what it found or what is wrong. That
also spares the server Arrow itself (50 MiB).
"""

from __future__ import annotations

import logging
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from fedflow.base.decoding import decode_as
from fedflow.base.errors.data import BadData
from fedflow.tables.catalog import PREVIEW_CHARACTERS, PREVIEW_ROWS
from fedflow.tables.csv_header import CsvOptions

MEMORY_BYTES: Final = 1 << 30  #: that a probe may use
LOOK_S: Final = 60.0  #: that it may take

_MODULE: Final = "fedflow.tables.arrow_probe"
_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

logger = logging.getLogger(__name__)
Rows = tuple[tuple[str, ...], ...]


class ArrowProbeResult(msgspec.Struct, frozen=True):
    """What is printed."""

    schema: Any = None
    rows: Rows = ()
    reason: str = ""  #: why there is nothing


def look_apart(path: Path, options: CsvOptions) -> tuple[Any, Rows]:
    """Return the schema as plain JSON and the first rows; made ids are the rows' indexes.

    Raises: BadData: the file is damaged, its columns cannot be used, or it is too costly to read.
    """
    how = msgspec.json.encode(options).decode()
    where = f"file {path.name}"
    try:
        done = subprocess.run(
            [sys.executable, "-m", _MODULE, str(path), how, str(MEMORY_BYTES)],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=LOOK_S, check=False,
            env={**os.environ, **_ONE_THREAD},
        )  # fmt: skip
    except subprocess.TimeoutExpired as exc:
        raise BadData(where=where, reason=f"it takes more than {LOOK_S:g} s to look at it") from exc
    if done.returncode != 0:
        logger.warning("looking at a file failed: %s", done.stderr[-2000:].decode(errors="replace"))
        reason = f"it cannot be looked at within {MEMORY_BYTES >> 20} MiB of memory"
        raise BadData(where=where, reason=reason)
    found = decode_as(done.stdout, ArrowProbeResult)
    if found.reason:
        raise BadData(where=where, reason=found.reason)
    return found.schema, found.rows


def main(path: str, how: str, memory_bytes: str) -> None:
    """Print what a file is, with a limit on memory."""
    from fedflow.tables.arrow_import import ArrowSource  # the server does without Arrow
    from fedflow.tables.text import batch_rows

    limit = int(memory_bytes)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    options = decode_as(how, CsvOptions)
    if options.extend_sid:
        options = replace(options, extend_sid=False, auto_increasing_sid=True)
    rows: list[tuple[str, ...]] = []
    left = PREVIEW_CHARACTERS
    try:
        with ArrowSource(Path(path), options) as source:
            schema = source.schema
            for row in batch_rows(next(source.batches()).slice(0, PREVIEW_ROWS), schema):
                left -= sum(map(len, row))
                if left < 0:
                    break
                rows.append(row)
        found = ArrowProbeResult(schema=schema, rows=tuple(rows))
    except BadData as exc:
        found = ArrowProbeResult(reason=str(exc.fields["reason"]))
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
