"""Where the rows of tables lie below the table root, and how they go.

| below the root | is |
|---|---|
| `<address>` | a table: its rows, or what is known of rows that lie in a folder of parts |
| `.new-<id>` | a table or scratch rows in use, or what a killed writer left |
| `.gone-<address>` | a table that was given up, whose parts elsewhere still have to go |

A folder of parts (`domain/data/table_parts.py`) has a note, `parts.json`, in the table's own
folder, written before the parts: what is left over is found here, without a look at other file
systems.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fedflow.domain.data.table_parts import is_parts_folder, local_path, parts_uri

NEW: Final = ".new-"
GONE: Final = ".gone-"
NOTE: Final = "parts.json"


def write_note(folder: Path, storage: dict[str, Any]) -> None:
    """Remember where the parts of a table lie. Raises: OSError."""
    (folder / NOTE).write_text(json.dumps(storage))


def read_note(folder: Path) -> str | None:
    """Return the folder of the parts of a table, None if it has none."""
    try:
        return parts_uri(json.loads((folder / NOTE).read_text()))
    except (OSError, ValueError):
        return None


def remove_rows(root: Path, address: str, uri: str | None) -> None:
    """Delete the rows of a table; parts on another file system, and parts of this one that cannot
    be deleted now, are left to `far_rows`.
    """
    folder = root / address
    if not address or folder.parent != root:
        return
    if uri is not None and is_parts_folder(uri, address):
        path = local_path(uri)
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        if path is None or Path(path).exists():
            _give_up(folder, uri)
            return
    shutil.rmtree(folder, ignore_errors=True)


def _give_up(folder: Path, uri: str) -> None:
    gone = folder.with_name(f"{GONE}{folder.name}")
    with suppress(FileNotFoundError):
        folder.rename(gone)
    gone.mkdir(mode=0o700, exist_ok=True)
    write_note(gone, {"parts": uri})


def left_over(root: Path, *, older_than_ms: int) -> list[Path]:
    """Return folders of tables that were given up, or that nobody has touched since a time."""
    found = []
    with suppress(OSError):
        for folder in root.iterdir():
            if folder.name.startswith(GONE):
                found.append(folder)
            elif folder.name.startswith(NEW):
                with suppress(OSError):
                    if _touched_ns(folder) < older_than_ms * 1_000_000:
                        found.append(folder)
    return found


def _touched_ns(folder: Path) -> int:
    """Return when a folder or a file in it was last written. Raises: OSError."""
    return max(path.stat().st_mtime_ns for path in (folder, *folder.iterdir()))


def address_of(folder: Path) -> str:
    """Return the address that a folder of `left_over` has or was to get."""
    return folder.name.removeprefix(GONE).removeprefix(NEW)
