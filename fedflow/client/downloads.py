"""Downloads that become files here: under a name that cannot lead out of their folder."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final

_FILENAME: Final = re.compile(r'filename="?([^";]+)"?')
_UNSAFE: Final = re.compile(r"[^\w#~.-]")


def named_in(disposition: str) -> str | None:
    """Return the file name that a Content-Disposition gives, as the server wrote it."""
    found = _FILENAME.search(disposition)
    return found[1].strip() if found else None


def safe_name(name: str) -> str:
    """Return a plain file name: no separators, no leading dots, nothing that a shell would read.

    What FATE's names of model archives have (`guest#9999#...`) stays.
    """
    return _UNSAFE.sub("_", name).lstrip(".") or "download"


def keep(content: IO[bytes], folder: Path, name: str) -> Path:
    """Write `content` to a file of `folder`, whole or not at all, and return its path.

    Raises: OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / safe_name(name)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
        try:
            shutil.copyfileobj(content, part)
            part.close()
            Path(part.name).replace(path)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise
    return path
