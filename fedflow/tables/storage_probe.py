"""Columns and first rows of a storage that is bound as a table.

The libraries that read storages take memory, wait, and may crash on what somebody made for that.
So the server does not use them: it starts `python -m fedflow.tables.storage_probe`, which gets the
connection on its standard input (credentials never stand in a command line) and prints two lines:
the schema, and then the first rows. A query may take long until its first row: then there is a
schema, and no preview.
"""

from __future__ import annotations

import logging
import math
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fedflow.base.decoding import decode_as
from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.data import BadData, StorageUnreachable
from fedflow.base.errors.error import FedflowError
from fedflow.domain.data.storages import Connection, place_text
from fedflow.tables.catalog import PREVIEW_CHARACTERS, PREVIEW_ROWS
from fedflow.tables.csv_header import CsvOptions

MEMORY_BYTES: Final = 1 << 30  #: that a probe may use
LOOK_S: Final = 15.0  #: that it may take beside the time to connect; clients wait for 30 s
SPARE_S: Final = 5.0  #: that a query of it may run on, so that the look's own limit counts first

_MODULE: Final = "fedflow.tables.storage_probe"
_ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "AWS_EC2_METADATA_DISABLED": "true",  # nobody is to be asked for this machine's own rights
}
Rows: TypeAlias = tuple[tuple[str, ...], ...]

logger = logging.getLogger(__name__)


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe has to do."""

    connection: Connection
    options: CsvOptions
    memory_bytes: int


class Found(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line that a probe prints."""

    schema: Any = None
    rows: Rows | None = None
    error: str = ""  #: class of an error of `base/errors/`
    fields: dict[str, Any] = {}


class StorageProbes:
    """Satisfies `app.ports.data.StorageProbe`."""

    def __init__(self, *, look_s: float = LOOK_S, memory_bytes: int = MEMORY_BYTES) -> None:
        self._look_s = look_s
        self._memory_bytes = memory_bytes

    def probe(
        self, connection: Connection, *, head: bool, id_delimiter: str, makes_ids: bool,
        names: tuple[str, ...] | None = None,
    ) -> tuple[Any, Rows]:  # fmt: skip
        """Return the schema of a table as plain JSON, and its first rows as text.

        `names` are those of all columns of text without a head.

        Raises: StorageUnreachable: also if it takes too long. StorageRefused, StorageMissing.
            BadData: it is no table, or too costly to look at. NotSupportedYet.
        """
        where = place_text(connection.address)
        options = CsvOptions(
            head=head,
            id_delimiter=id_delimiter,
            auto_increasing_sid=makes_ids,
            names=names,
        )
        limit_s = self._look_s + connection.limits.connect_s
        asked = ProbeRequest(
            connection=_hurried(connection, limit_s),
            options=options,
            memory_bytes=self._memory_bytes,
        )
        lines = _run(msgspec.json.encode(asked), limit_s=limit_s, where=where)
        found = [decode_as(line, Found) for line in lines]
        for one in found:
            if one.error:
                raise _rebuilt(one, where)
        rows = next((one.rows for one in found if one.rows is not None), ())
        if found[0].schema is None:
            raise BadData(where=where, reason="a look at it found no columns")
        return found[0].schema, rows


def _hurried(connection: Connection, limit_s: float) -> Connection:
    """Return a connection whose database ends what an interrupted probe left behind."""
    limits = connection.limits
    statement_s = min(limits.statement_s, math.ceil(limit_s) + SPARE_S)
    limits = msgspec.structs.replace(limits, statement_s=statement_s)
    return msgspec.structs.replace(connection, limits=limits)


def _run(asked: bytes, *, limit_s: float, where: str) -> list[bytes]:
    """Return the complete lines that a probe printed. Raises: StorageUnreachable, BadData."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", _MODULE],
            input=asked, capture_output=True, timeout=limit_s, check=False,
            env={**_without_secrets(os.environ), **_ENVIRONMENT},
        )  # fmt: skip
    except subprocess.TimeoutExpired as exc:
        lines = (exc.stdout or b"").split(b"\n")[:-1]
        if lines:
            return lines
        raise StorageUnreachable(where=where, reason=f"no answer within {limit_s:g} s") from exc
    lines = done.stdout.split(b"\n")[:-1]
    if not lines:
        logger.warning("looking at %s failed: %s", where, _tail(done.stderr))
        reason = f"it cannot be looked at (within {MEMORY_BYTES >> 20} MiB of memory)"
        raise BadData(where=where, reason=reason)
    return lines


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the server's settings and this machine's rights at AWS."""
    return {n: v for n, v in environment.items() if not n.startswith(("FEDFLOW", "AWS_"))}


def _tail(text: bytes) -> str:
    return text[-2000:].decode(errors="replace")


def _rebuilt(found: Found, where: str) -> FedflowError:
    kind = next((kind for kind in all_errors() if kind.__name__ == found.error), None)
    if kind is not None:
        try:
            return kind(**found.fields)
        except KeyError:
            logger.warning("a look told an incomplete %s", found.error)
    return BadData(where=where, reason="a look at it failed")


# --- in the other process -------------------------------------------------------------------------


def main() -> None:
    """Print what a storage has, with a limit on memory."""
    asked = decode_as(sys.stdin.buffer.read(), ProbeRequest)
    resource.setrlimit(resource.RLIMIT_DATA, (asked.memory_bytes, asked.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold credentials
    try:
        _look(asked)
    except FedflowError as exc:
        fields = {name: _plain(value) for name, value in exc.fields.items()}
        _print(Found(error=exc.name, fields=fields))


def _look(asked: ProbeRequest) -> None:
    from fedflow.tables.storages.opening import open_rows  # the server does without Arrow
    from fedflow.tables.text import batch_rows

    where = place_text(asked.connection.address)
    with open_rows(asked.connection, asked.options, where=where) as source:
        schema = source.schema
        _print(Found(schema=schema))
        rows: list[tuple[str, ...]] = []
        left = PREVIEW_CHARACTERS
        for row in batch_rows(next(source.batches()).slice(0, PREVIEW_ROWS), schema):
            left -= sum(map(len, row))
            if left < 0:
                break
            rows.append(row)
        _print(Found(rows=tuple(rows)))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | None) else str(value)


def _print(found: Found) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
