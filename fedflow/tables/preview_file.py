"""The file beside a table's rows with the first of them as text, for people. Needs no Arrow."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fedflow.domain.records import TableRecord

FILE: Final = "preview.json"
_BYTES: Final = 16 << 20

logger = logging.getLogger(__name__)
_DECODER: Final = msgspec.json.Decoder(tuple[tuple[str, ...], ...])


def write_preview(folder: Path, rows: Sequence[Sequence[str]]) -> None:
    """Write the file. Raises: OSError."""
    (folder / FILE).write_bytes(msgspec.json.encode(rows))


class LocalPreviews:
    """Satisfies `app.ports.data.TablePreviews`: reads the files of tables below one root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, table: TableRecord) -> tuple[tuple[str, ...], ...]:
        """Return the first rows, nothing if they cannot be read.

        Those of a bound table, which has no folder, are in the catalog.
        """
        path = self._root / table.address / FILE
        if table.preview or not table.address or path.parent.parent != self._root:
            return table.preview
        try:
            with path.open("rb") as file:
                return _DECODER.decode(file.read(_BYTES))
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError):
            logger.warning("the preview of a table cannot be read", extra={"path": str(path)})
            return ()
