"""One file that rows are read from, on this machine or on another file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedflow.base.errors.data import BadData, BoundTableChanged, StorageRefused
from fedflow.base.values import dataclass
from fedflow.tables.file_errors import told


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file that is opened as often as it is needed, and must stay as it is meanwhile."""

    where: str  #: what messages call it
    path: str
    size: int  #: bytes
    changed_ns: int  #: when its contents changed last; 0: not known
    files: Any = None  #: its `pyarrow.fs.FileSystem`; None: this machine's
    roots: tuple[str, ...] = ()  #: folders of this machine, in one of which it truly is; (): any

    def open(self) -> Any:
        """Return the open file (`pyarrow.NativeFile`).

        Raises: BadData: it cannot be read. StorageRefused: a link leads out of its folders. Of
        other file systems StorageMissing, StorageRefused, StorageUnreachable.
        """
        if self.files is not None:
            with told(self.where):
                return self.files.open_input_file(self.path)
        try:
            file = pa.OSFile(self.path, "rb")
        except OSError as exc:
            raise self._unreadable(exc) from exc
        if self.roots and not self._is_inside(file):
            file.close()
            raise StorageRefused(where=self.where, reason="a link leads out of the allowed folders")
        return file

    def check_unchanged(self) -> None:
        """Raises: BoundTableChanged: it has another size or time of change than before."""
        if self.files is None:
            try:
                now = local_file(Path(self.path))
            except BadData:
                now = None
            same = now is not None and (now.size, now.changed_ns) == (self.size, self.changed_ns)
        else:
            with told(self.where):
                info = self.files.get_file_info(self.path)
            same = (info.size, info.mtime_ns or 0) == (self.size, self.changed_ns)
        if not same:
            raise BoundTableChanged(where=self.where, reason="it changed while it was read")

    def _is_inside(self, file: Any) -> bool:
        """Tell whether the open file, links resolved, is in one of the folders."""
        path = Path(os.path.realpath(f"/proc/self/fd/{file.fileno()}"))
        return any(path.is_relative_to(root) for root in self.roots)

    def _unreadable(self, exc: OSError) -> BadData:
        reason = f"it cannot be read ({exc.strerror or type(exc).__name__})"
        return BadData(where=self.where, reason=reason)


def local_file(path: Path, *, roots: tuple[str, ...] = ()) -> InputFile:
    """Return a file of this machine. Raises: BadData: there is none, or it cannot be read."""
    where = f"file {path.name}"
    if not path.is_file():
        raise BadData(where=where, reason="there is no such file")
    try:
        found = path.stat()
    except OSError as exc:
        reason = f"it cannot be read ({exc.strerror or type(exc).__name__})"
        raise BadData(where=where, reason=reason) from exc
    return InputFile(
        where=where,
        path=str(path),
        size=found.st_size,
        changed_ns=found.st_mtime_ns,
        roots=roots,
    )
