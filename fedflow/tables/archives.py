"""Packs tables for download, on behalf of the server, which has not imported Arrow until then."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from fedflow.app.data.row_folders import NEW
from fedflow.domain.data.storages import is_bound
from fedflow.domain.records import TableRecord


class LocalArchives:
    """Writes archives of the tables below one root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(
        self,
        target: IO[bytes],
        tables: Mapping[str, TableRecord],
        *,
        limit: int,
        head: bool,
        modified_ms: int,
    ) -> None:
        """Write a tar.gz of `tables` (by output name); `limit` rows of each, -1 for all.

        Raises: NoData: no table has rows. BadData: the files of a table are damaged.
        """
        # Arrow costs 50 MiB; a server that serves no download does without.
        from fedflow.tables.archive_file import write_archive
        from fedflow.tables.local import LocalTables

        store = LocalTables(self._root)
        with tempfile.TemporaryDirectory(dir=self._root, prefix=NEW) as scratch:
            copies = LocalTables(Path(scratch), output_namespace="download")
            opened = {}
            for name, table in tables.items():
                bound = is_bound(table.engine, table.storage)
                opened[name] = copies.copy_bound(table) if bound else store.table_of(table)
            write_archive(target, opened, head=head, limit=limit, modified_ms=modified_ms)
