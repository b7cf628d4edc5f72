"""What makes a home folder this process's: the lock `run/lock`, and files of `run/` that it wrote.

A program that cleans up may remove them under a running server. They are put back, see
`server/health.py`: without them a second process could start over the same home.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from fedflow.base.disk import inode_of, write_whole
from fedflow.base.errors.start import HomeInUse, HomeNotUsable


class HomeLock:
    """A home folder is one server's at a time; the kernel frees it whatever ends the process."""

    def __init__(self, home: Path) -> None:
        """Take the lock. Raises: HomeInUse, HomeNotUsable."""
        self._home = home
        self._path = home / "run" / "lock"
        self._descriptor = self._take()

    def is_lost(self) -> bool:
        """Tell whether another server could take the home, or has."""
        held = os.fstat(self._descriptor)
        return inode_of(self._path) != (held.st_dev, held.st_ino)

    def restore(self) -> None:
        """Take the lock anew. Raises: HomeInUse: another server was first. HomeNotUsable."""
        taken = self._take()
        os.close(self._descriptor)
        self._descriptor = taken

    def close(self) -> None:
        """Give the home back."""
        os.close(self._descriptor)

    def _take(self) -> int:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise HomeNotUsable(path=str(self._path), reason=exc.strerror or str(exc)) from exc
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(descriptor)
            raise HomeInUse(path=str(self._home)) from exc
        return descriptor


class OwnFile:
    """A file that tells others of this server, as long as it runs."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text

    def is_lost(self) -> bool:
        """Tell whether the file is gone."""
        return not self._path.exists()

    def restore(self) -> None:
        """Write the file. Raises: HomeNotUsable."""
        try:
            write_whole(self._path, self._text)
        except OSError as exc:
            raise HomeNotUsable(path=str(self._path), reason=exc.strerror or str(exc)) from exc

    def remove(self) -> None:
        """Remove the file, unless another server has written its own there."""
        try:
            if self._path.read_text(encoding="utf-8") == self._text:
                self._path.unlink()
        except (OSError, UnicodeError):
            return  # nobody takes it for a running server's
