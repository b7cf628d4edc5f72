"""Looks at files that are bound as tables, on behalf of the server; needs no Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fedflow.tables.csv_header import CsvOptions, first_rows, read_header


class LocalFiles:
    """Satisfies `app.ports.BoundFiles`."""

    def look(
        self,
        path: Path,
        *,
        head: bool,
        id_delimiter: str,
        makes_ids: bool,
        names: tuple[str, ...] | None,
    ) -> tuple[Any, tuple[tuple[str, ...], ...]]:
        """Return the schema of a CSV file, and its first rows as text.

        Raises: BadData: it is empty, packed, no text, or its header is wrong.
        """
        options = CsvOptions(
            head=head, id_delimiter=id_delimiter, extend_sid=makes_ids, names=names
        )
        header = read_header(path, options)
        schema = msgspec.json.decode(msgspec.json.encode(header.schema))
        return schema, first_rows(path, header, options)
