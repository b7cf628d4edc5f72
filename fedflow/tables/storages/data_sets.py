"""A data set: files of rows with the same columns, on any file system, read as one table.

The files are those at a path: one file, all in a folder and below it, or what a glob names (`*` and
`?` stand for parts of one name). Files and folders whose names begin with `_` or `.` are not data,
nor are files of no bytes, as other engines leave them. They are read by path, in the order of its
characters. All of them have the same columns in the same order, of the same types, and are of one
kind: text, Parquet or Arrow, as their first bytes say. Packed text (`.gz`) is refused.

Folders named `key=value` below the path (Hive's partitions) are columns of text too, behind those
of the files; every file must have the same ones. A value is read as Hive writes it (`%3D`), and
`__HIVE_DEFAULT_PARTITION__` is an empty cell.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import translate
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from fedflow.base.errors.data import BadData, StorageMissing
from fedflow.base.values import dataclass
from fedflow.domain.data.storages import Format
from fedflow.tables.arrow_import import ArrowSource
from fedflow.tables.csv_header import CsvOptions, FileKind, raw_schema
from fedflow.tables.csv_import import RaggedRows
from fedflow.tables.file_errors import told
from fedflow.tables.filesystems import OpenPath
from fedflow.tables.input_files import InputFile
from fedflow.tables.row_source import FileSource, RowSource
from fedflow.tables.sources import open_source

FILE_LIMIT: Final = 100_000  #: of one data set
DEPTH_LIMIT: Final = 20  #: folders below each other
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"

_FORMAT_OF: Final[dict[FileKind, Format]] = {
    FileKind.TEXT: "csv",
    FileKind.PARQUET: "parquet",
    FileKind.ARROW: "arrow",
    FileKind.ARROW_STREAM: "arrow",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFile:
    """One file of a data set."""

    file: InputFile
    keys: tuple[tuple[str, str], ...]  #: of Hive's partitions, in the order of the path


class DataSetSource(RowSource):
    """An open data set; one of its files is open at a time."""

    def __init__(
        self,
        place: OpenPath,
        options: CsvOptions,
        *,
        where: str,
        form: Format | None = None,
        roots: tuple[str, ...] = (),
    ) -> None:
        """List the files and read the columns of the first one.

        `roots` are folders of this machine: files that truly lie elsewhere are refused.

        Raises: StorageMissing: there is no file. StorageRefused, StorageUnreachable. BadData: the
        first file is wrong, or lacks a column that was chosen.
        """
        super().__init__(where, options)
        self._form = form
        self._files = data_files(place, where=where, roots=roots)
        self._size = max(1, sum(part.file.size for part in self._files))
        self._read_bytes = 0  #: of the files that are done
        self._current: FileSource | None = None
        self._keys = tuple(name for name, _ in self._files[0].keys)
        if not options.makes_ids and options.id_column in self._keys:
            reason = f"the id {options.id_column!r} is a partition, the same for many rows"
            raise self._bad(reason)
        self._inner = _inner_options(options, self._keys)
        with self._opened(self._files[0]) as first:
            self._own = first.names
            self._types = _types_of(first)
            self._form = _FORMAT_OF[first.kind]
        self.names = (*self._own, *self._keys)
        self.schema = raw_schema(self.names, options, where=where)

    @property
    def done(self) -> float | None:
        """Return how many of the bytes were read, 0 to 1."""
        part = self._current
        now = 0.0 if part is None else (part.done or 0.0) * part.size_bytes
        return min(1.0, (self._read_bytes + now) / self._size)

    def _close(self) -> None:
        if self._current is not None:
            self._current.__exit__(None, None, None)
            self._current = None

    def _file_batches(self) -> Iterator[pa.RecordBatch]:
        for part in self._files:
            if tuple(name for name, _ in part.keys) != self._keys:
                raise self._bad_file(part, "its partitions are not those of the first file")
            with self._opened(part) as source:
                self._check_columns(source, part)
                self._current = source
                try:
                    for batch in source.cells():
                        yield self._chosen(batch, part)
                except RaggedRows:
                    raise self._bad_file(part, "its rows differ in length") from None
                self._current = None
            self._read_bytes += part.file.size

    def _opened(self, part: DataFile) -> FileSource:
        source = open_source(part.file, self._inner)
        form = _FORMAT_OF[source.kind]
        if self._form not in (None, form):
            source.__exit__(None, None, None)
            raise self._bad_file(
                part, f"it begins as a file of the format {form}, not {self._form}"
            )
        return source

    def _check_columns(self, source: FileSource, part: DataFile) -> None:
        """Raises: BadData: the columns are not those of the first file."""
        if source.names != self._own:
            what = changes(self._own, source.names)
            raise self._bad_file(part, f"its columns are not those of the first file: {what}")
        for name, kind in _types_of(source).items():
            first = self._types[name]
            if kind != first and not pa.types.is_null(kind) and not pa.types.is_null(first):
                reason = f"column {name!r} is {str(kind)[:50]}, {str(first)[:50]} in the first file"
                raise self._bad_file(part, reason)

    def _chosen(self, batch: pa.RecordBatch, part: DataFile) -> pa.RecordBatch:
        """Return the columns that are read, with those of the partitions."""
        keys = dict(part.keys)
        cells = [
            pa.repeat(pa.scalar(keys[name], pa.string()), batch.num_rows)
            if name in keys
            else batch.column(name)
            for name in self._file_names
        ]
        return pa.RecordBatch.from_arrays(cells, names=list(self._file_names))

    def _bad_file(self, part: DataFile, reason: str) -> BadData:
        return BadData(where=part.file.where, reason=reason)


def changes(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    """Say how column names differ, in a few words."""
    gone = [name for name in before if name not in set(now)]
    new = [name for name in now if name not in set(before)]
    if not gone and not new:
        return "they stand in another order"
    said = [f"{_some(gone)} gone"] if gone else []
    said += [f"{_some(new)} new"] if new else []
    return ", ".join(said)


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name[:100]) for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{shown}{more} {'is' if len(names) == 1 else 'are'}"


def _types_of(source: FileSource) -> dict[str, Any]:
    return source.types if isinstance(source, ArrowSource) else {}


def _inner_options(options: CsvOptions, keys: tuple[str, ...]) -> CsvOptions:
    """Return how one file is read: without made ids, and without the columns of its path."""
    plain = replace(options, extend_sid=False, auto_increasing_sid=False)
    if options.columns is None:
        return replace(plain, id_column=None if options.makes_ids else options.id_column)
    own = tuple(name for name in options.columns if name not in keys)
    if options.makes_ids:
        return replace(plain, id_column=own[0] if own else None, columns=own[1:])
    return replace(plain, columns=own)


# --- which files ----------------------------------------------------------------------------------


def data_files(place: OpenPath, *, where: str, roots: tuple[str, ...] = ()) -> list[DataFile]:
    """Return the files of a data set, in their order.

    Raises: StorageMissing: there is none. StorageRefused, StorageUnreachable. BadData: there are
    more than `FILE_LIMIT`.
    """
    base, pattern = _split(place.path)
    infos = _listed(place, base, where)
    found: list[DataFile] = []
    for info in infos:
        inside = tuple(info.path[len(base) :].strip("/").split("/")) if info.path != base else ()
        if not info.is_file or not info.size or not _fits(inside, pattern) or _is_hidden(inside):
            continue
        file = InputFile(
            where=f"{where}, file {info.base_name[:200]}",
            path=info.path,
            size=info.size,
            changed_ns=info.mtime_ns or 0,
            files=None if isinstance(place.files, fs.LocalFileSystem) else place.files,
            roots=roots,
        )
        found.append(DataFile(file=file, keys=_keys(inside[:-1])))
    if not found:
        raise StorageMissing(where=where, reason="there is no file with data")
    return sorted(found, key=lambda part: part.file.path)


def _split(path: str) -> tuple[str, list[str]]:
    """Return the part of a path in front of the first wild name, and the names from there on."""
    names = path.split("/")
    wild = next((i for i, name in enumerate(names) if "*" in name or "?" in name), len(names))
    return "/".join(names[:wild]) or "/", names[wild:]


def _listed(place: OpenPath, base: str, where: str) -> list[Any]:
    with told(where, found="there is no such file or folder"):
        info = place.files.get_file_info(base)
        if info.is_file:
            return [info]
        if info.type == fs.FileType.Unknown:
            raise StorageMissing(where=where, reason="it is neither a file nor a folder")
        infos: list[Any] = []
        folders = [(base, 0)]
        is_flat = isinstance(place.files, fs.S3FileSystem)  # all names by one prefix, no links
        while folders and len(infos) <= FILE_LIMIT:
            folder, depth = folders.pop()
            found = place.files.get_file_info(fs.FileSelector(folder, recursive=is_flat))
            infos += found
            inner = [f.path for f in found if f.type == fs.FileType.Directory and not is_flat]
            folders += [(path, depth + 1) for path in inner]
            if inner and (depth == DEPTH_LIMIT or any(map(os.path.islink, inner))):
                reason = f"its folders are links, or more than {DEPTH_LIMIT} below each other"
                raise BadData(where=where, reason=reason)
    if len(infos) > FILE_LIMIT:
        raise BadData(where=where, reason=f"there are more than {FILE_LIMIT} files")
    return infos


def _fits(inside: tuple[str, ...], pattern: list[str]) -> bool:
    """Tell whether a file is named by a glob, or lies in a folder that is."""
    if len(inside) < len(pattern):
        return False
    pairs = zip(inside, pattern)
    return all(re.fullmatch(translate(wild), name) is not None for name, wild in pairs)


def _is_hidden(inside: tuple[str, ...]) -> bool:
    return any(name.startswith(".") or (name[:1] == "_" and "=" not in name) for name in inside)


def _keys(folders: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = (name.partition("=") for name in folders if "=" in name)
    return tuple((unquote(key), "" if v == NO_VALUE else unquote(v)) for key, _, v in pairs if key)
