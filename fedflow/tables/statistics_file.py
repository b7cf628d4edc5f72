"""The file beside a table's rows with the facts of its columns. Needs no Arrow."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import msgspec

from fedflow.domain.records import ColumnFacts, TableRecord

FILE: Final = "columns.json"
MAX_COLUMNS: Final = 1000  #: further ones are not counted: it would take longer than writing them
_BYTES: Final = 4 << 20

logger = logging.getLogger(__name__)
_DECODER: Final = msgspec.json.Decoder(list[ColumnFacts])


def write_facts(folder: Path, facts: list[ColumnFacts]) -> None:
    """Write the file. Raises: OSError."""
    (folder / FILE).write_bytes(msgspec.json.encode(facts))


class LocalColumnFacts:
    """Satisfies `app.ports.data.TableFacts`: reads the files of tables below one root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, table: TableRecord) -> list[ColumnFacts]:
        """Return what was counted when a table was written; nothing for a bound or older one."""
        path = self._root / table.address / FILE
        if not table.address or path.parent.parent != self._root:
            return []
        try:
            with path.open("rb") as file:
                return _DECODER.decode(file.read(_BYTES))
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError):
            logger.warning("the facts of a table cannot be read", extra={"path": str(path)})
            return []
