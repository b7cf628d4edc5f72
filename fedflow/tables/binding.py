"""Looks at files that are bound as tables, on behalf of the server; needs no Arrow for text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from fedflow.tables.arrow_probe import look_apart
from fedflow.tables.csv_header import (
    CsvOptions,
    FileKind,
    file_kind,
    first_rows,
    is_ragged,
    read_header,
)


class LocalBoundFiles:
    """Satisfies `app.ports.data.BoundFiles`."""

    def probe(
        self,
        path: Path,
        *,
        head: bool,
        id_delimiter: str,
        makes_ids: bool,
        names: tuple[str, ...] | None,
        whole: bool,
        id_column: str | None = None,
        features: tuple[str, ...] | None = None,
    ) -> tuple[Any, tuple[tuple[str, ...], ...]]:
        """Return the schema of a file, and its first rows as text.

        `id_column` (None: the first) and `features` (None: all others) are what is read of it.

        Raises: BadData: it is empty, packed or damaged, or its header is wrong.
        """
        options = CsvOptions(
            head=head,
            id_delimiter=id_delimiter,
            extend_sid=makes_ids,
            names=names,
            whole=whole,
            id_column=id_column,
            columns=features,
        )
        if file_kind(path) is not FileKind.TEXT:
            return look_apart(path, options)
        header = read_header(path, options)
        if is_ragged(path, header, options):
            options = replace(options, whole=True)
            header = read_header(path, options)
        return _plain(header.schema), first_rows(path, header, options)


def _plain(schema: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(schema))
