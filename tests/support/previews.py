"""The first rows of a stored table, as its server reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedflow.tables.preview_file import LocalPreviews


def preview_of(table: Any) -> tuple[tuple[str, ...], ...]:
    """Return the preview of a table of a local store; its record has none."""
    assert table.entry.preview == ()
    root: Path = table._store._root
    return LocalPreviews(root).read(table.entry)
