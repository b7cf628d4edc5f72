"""What it means when a file of this server's own folders cannot be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fedflow.base.errors.data import DiskFull, FolderNotWritable

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def writing(folder: Path | str) -> Iterator[None]:
    """Name what keeps this process from writing below a folder.

    Raises: DiskFull; FolderNotWritable: with the user that may not. Other errors as they are.
    """
    try:
        yield
    except OSError as exc:
        fault = fault_of(exc, folder)
        if fault is None:
            raise
        raise fault from exc


def inode_of(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one in its place; None: nothing can be seen there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def write_whole(path: Path, text: str) -> None:
    """Put a text into the place of a file; who reads meanwhile gets the old or the new one.

    It is not on the disk yet when this returns. Raises: OSError.
    """
    new = path.with_name(f"{path.name}.tmp")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def free_bytes(folder: Path) -> int:
    """Return how much this process may still write to a folder's file system; 0 also if no further
    file can be created. Raises: OSError.
    """
    found = os.statvfs(folder)
    has_files = found.f_files == 0 or found.f_favail > 0
    return found.f_bavail * found.f_frsize if has_files else 0


def fault_of(error: OSError, folder: Path | str) -> DiskFull | FolderNotWritable | None:
    """Return what an error of the system means that kept this process from writing below a folder;
    None: something else.
    """
    if error.errno in NO_SPACE:
        return DiskFull(path=folder)
    if error.errno in _NOT_ALLOWED:
        return FolderNotWritable(path=folder, user=_user())
    return None


def _user() -> str:
    """Return the name of the user that this process runs as, else the number."""
    import pwd  # rarely needed

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
