"""Which files of this machine a request may name: those below declared folders, links followed."""

from __future__ import annotations

from pathlib import Path

from fedflow.base.errors.data import FileNotAllowed, PlaceNotAllowed

_SHOWN = 300  #: characters of a refused path that are repeated


class AllowedFolders:
    """Checks paths of requests against a list of folders.

    A relative path is looked for below each of the folders, never below the server's own.
    """

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = tuple(folder.resolve() for folder in folders)

    def existing_file(self, path: str) -> Path:
        """Return the true path of a file that may be read. Raises: FileNotAllowed."""
        for candidate in self._candidates(path):
            if candidate.is_file():
                return candidate
        raise FileNotAllowed(path=path[:_SHOWN])

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the allowed folders, links followed."""
        return self._folders

    def place(self, path: str) -> Path:
        """Return the true path of what may be read, whether it is there or not.

        Raises: FileNotAllowed: it is outside the folders.
        """
        found = self._candidates(path)
        if not found:
            raise FileNotAllowed(path=path[:_SHOWN])
        return found[0]

    def new_file(self, path: str) -> Path:
        """Return the true path of a file that may be written, or replaced.

        Raises: PlaceNotAllowed: it is outside the folders, a folder, or no regular file.
        """

        def refused(reason: str) -> PlaceNotAllowed:
            return PlaceNotAllowed(path=path[:_SHOWN], reason=reason)

        if path.endswith("/") or not path.rpartition("/")[2].strip():
            raise refused("it names no file")
        candidates = self._candidates(path)
        if not candidates:
            raise refused("it is outside the allowed folders")
        target = candidates[0]
        if target in self._folders or target.is_dir():
            raise refused("it is a folder")
        if target.exists() and not target.is_file():
            raise refused("it is no regular file")
        if any(parent.exists() and not parent.is_dir() for parent in target.parents):
            raise refused("a file is in its way")
        return target

    def _candidates(self, path: str) -> list[Path]:
        """Return what a path may mean that is inside the folders."""
        bases = [Path(path)] if path.startswith("/") else [f / path for f in self._folders]
        found: list[Path] = []
        for base in bases:
            try:
                resolved = base.resolve()
                resolved.exists()  # refuses a name that is too long, here and not later
            except (OSError, ValueError, RuntimeError):  # too long, a NUL, links in a circle
                continue
            if any(resolved.is_relative_to(folder) for folder in self._folders):
                found.append(resolved)
        return found
