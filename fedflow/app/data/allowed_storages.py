"""Checks addresses of storages against what the server's administrator allows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.base.errors.data import FileNotAllowed, StorageMissing, StorageNotAllowed
from fedflow.domain.data.storage_places import Places, check_connector_place, check_place
from fedflow.domain.data.storages import Address, Limits, LocalFiles, PathFile, place_text

_GLOB = re.compile(r"[*?]")


class AllowedStorages:
    """What may be reached, and how long that may take."""

    def __init__(
        self, *, folders: AllowedFolders, places: Places, limits: Limits | None = None,
        may_write: bool = False,
    ) -> None:  # fmt: skip
        self._folders = folders
        self._places = places
        self._may_write = may_write
        self.limits = limits or Limits()

    @property
    def roots(self) -> tuple[str, ...]:
        """Return the folders of this machine that every local file must be in."""
        return tuple(str(folder) for folder in self._folders.folders)

    def checked(self, address: Address) -> Address:
        """Return an address that may be reached, links in a local path followed.

        Raises: StorageNotAllowed: no setting names the place. FileNotAllowed: a local path is
            outside the allowed folders. StorageMissing: there is nothing at that path.
        """
        match address:
            case PathFile():
                true = self._folders.place(address.path)
                if not true.is_file():
                    raise StorageMissing(where=place_text(address), reason="there is no such file")
                return PathFile(path=str(true))
            case LocalFiles():
                return msgspec.structs.replace(address, path=self._data_set(address.path))
            case _:
                check_place(address, self._places)
                return address

    def check_connector(self, engine: str, info: Mapping[str, Any]) -> None:
        """Check that the host of a connector may be reached. Raises: StorageNotAllowed."""
        check_connector_place(engine, info, self._places)

    def check_again(self, address: Address) -> None:
        """Check a stored address once more: settings and links may have changed since.

        Raises: as `checked`.
        """
        if isinstance(address, PathFile | LocalFiles) and self.checked(address) != address:
            raise FileNotAllowed(path=address.path)
        self.checked(address)

    def check_writing(self, address: Address) -> None:
        """Check that a writer may make something at a place. Raises: as `checked`."""
        if not self._may_write:
            raise StorageNotAllowed(place=f"{address.engine} to write", setting="storage.may_write")
        check_place(address, self._places)

    def _data_set(self, path: str) -> str:
        """Return a path or glob whose fixed part lies in an allowed folder."""
        parts = PurePosixPath(path).parts
        fixed = next((i for i, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        true = self._folders.place(str(PurePosixPath(*parts[:fixed])))
        if not true.exists():
            raise StorageMissing(where=f"data set {path}", reason="there is no such file or folder")
        return str(PurePosixPath(true, *parts[fixed:]))
