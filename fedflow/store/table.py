"""What a table of the store is, and the types of its columns.

Column types are MySQL's words; SQLite reads its own meaning from them (VARCHAR and LONGTEXT are
text, BIGINT and TINYINT integers, DOUBLE real).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LONG: Final = "LONGTEXT NOT NULL"  #: JSON, or text of any length
LONG_NULL: Final = "LONGTEXT NULL"
TIME: Final = "BIGINT NOT NULL"  #: milliseconds since the epoch
TIME_NULL: Final = "BIGINT NULL"
TIME_0: Final = "BIGINT NOT NULL DEFAULT 0"
INT: Final = "INTEGER NOT NULL"
INT_NULL: Final = "INTEGER NULL"
INT_0: Final = "INTEGER NOT NULL DEFAULT 0"
BIG: Final = "BIGINT NOT NULL"
BIG_NULL: Final = "BIGINT NULL"
BIG_0: Final = "BIGINT NOT NULL DEFAULT 0"
FLAG: Final = "TINYINT NOT NULL"
FLAG_0: Final = "TINYINT NOT NULL DEFAULT 0"
FLOAT: Final = "DOUBLE NOT NULL"


def text(limit: int) -> str:
    """Return the type of a text of at most `limit` characters (MySQL refuses longer ones)."""
    return f"VARCHAR({limit}) NOT NULL"


def text_null(limit: int) -> str:
    return f"VARCHAR({limit}) NULL"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table: its columns with their types, and what the database keeps in order.

    `numbered` is a further column that the database counts up; numbers are never used twice.
    `clustered` keeps the rows in the order of the key (for small rows that are read together).
    Indexes are columns between commas, as in SQL.
    """

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]
    numbered: str | None = None
    clustered: bool = False
    indexes: Sequence[str] = ()
