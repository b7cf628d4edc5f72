"""Packs tables for download, on behalf of the server, which has not imported Arrow until then."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

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
        from fedflow.tables.catalog import entry_from_json
        from fedflow.tables.export import write_archive
        from fedflow.tables.local import LocalTableStore

        store = LocalTableStore(self._root, catalog=_Nothing(), output_namespace="")
        opened = {
            name: store.table_of(entry_from_json(msgspec.to_builtins(record)))
            for name, record in tables.items()
        }
        write_archive(target, opened, head=head, limit=limit, modified_ms=modified_ms)


class _Nothing:
    """A catalog without tables: what is packed is named by its record."""

    def register(self, entry: object) -> None:
        raise NotImplementedError("downloads make no tables")

    def find(self, namespace: str, name: str) -> None:
        return None

    def drop(self, namespace: str, name: str) -> None:
        return None
