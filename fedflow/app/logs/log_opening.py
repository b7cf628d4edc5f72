"""Opens files below a folder, and nothing that a link leads to.

Code of components runs with the rights to write into its log folder, so it could put a link there
to a file that it wants somebody to show.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_below(root: Path, parts: Sequence[str]) -> int | None:
    """Return a descriptor of the regular file `root/parts...`, None if there is none that can be
    read, or if a link is part of the way. `root` itself may be a link.
    """
    try:
        with _folder(root, parts[:-1]) as folder:
            file = os.open(parts[-1], _FILE, dir_fd=folder)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def names_below(root: Path, parts: Sequence[str]) -> dict[str, int | None]:
    """Return what lies in the folder `root/parts...`: name -> size of a regular file in bytes, or
    None for a folder. Links and all else are left out. Empty if there is no such folder.
    """
    try:
        with _folder(root, parts) as folder, os.scandir(folder) as entries:
            return dict(_kinds(entries))
    except (OSError, ValueError):
        return {}


def _kinds(entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, int | None]]:
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield entry.name, None
        elif entry.is_file(follow_symlinks=False):
            yield entry.name, entry.stat(follow_symlinks=False).st_size


@contextmanager
def _folder(root: Path, parts: Sequence[str]) -> Iterator[int]:
    """Give a descriptor of the folder `root/parts...`. Raises: OSError."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            deeper = os.open(_plain(part), _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = deeper
        yield folder
    finally:
        os.close(folder)


def _plain(part: str) -> str:
    """Raises: ValueError: this is no name of one folder."""
    if part in ("", ".", "..") or "/" in part:
        raise ValueError(part)
    return part
