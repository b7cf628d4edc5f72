"""What a file says of itself before its rows are read: its kind; of text its columns.

Needs no Arrow, so that the server can look at a file that somebody binds as a table.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import chain, count, islice
from pathlib import Path
from typing import IO, Final

from fedflow.base.errors.data import BadData
from fedflow.base.values import dataclass
from fedflow.domain.data.table_names import has_control
from fedflow.sdk.table import TableKind, TableSchema
from fedflow.tables.catalog import PREVIEW_CHARACTERS, PREVIEW_ROWS

LINE_BYTES: Final = 4 << 20  #: the first line must be shorter
COLUMN_LIMIT: Final = 100_000
NAME_LIMIT: Final = 1 << 17  #: characters; one name may be the header of rows in one text
_BOM: Final = b"\xef\xbb\xbf"
_PACKED: Final = {
    b"\x1f\x8b": "a gzip archive",
    b"PK\x03\x04": "a zip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"(\xb5/\xfd": "a zstd archive",
}
"""First bytes of files that people send instead of text; nothing is ever unpacked."""


class FileKind(Enum):
    """What a file is, by its first bytes."""

    TEXT = "text"
    PARQUET = "Parquet"
    ARROW = "Arrow"  #: IPC file
    ARROW_STREAM = "Arrow stream"


_KINDS: Final = {
    b"PAR1": FileKind.PARQUET,
    b"ARROW1": FileKind.ARROW,
    b"\xff\xff\xff\xff": FileKind.ARROW_STREAM,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvOptions:
    """How a file is to be read.

    `extend_sid` makes ids of an own random prefix and the row's index, `auto_increasing_sid` of the
    index alone; the file's first column is then an ordinary one.
    """

    head: bool = True  #: the first line names the columns; Parquet and Arrow files always do
    id_delimiter: str = ","  #: one ASCII character
    extend_sid: bool = False
    auto_increasing_sid: bool = False
    names: tuple[str, ...] | None = None  #: of all columns, for a file without a head
    whole: bool = False  #: what follows the id is one text: rows may differ in length; no head
    id_column: str | None = None  #: column that is the id, wherever it stands; None: the first
    columns: tuple[str, ...] | None = None  #: other columns, in this order; None: all, in theirs
    lenient: bool = (
        False  #: repeated and empty names of a text's head get others, as `doubts` tells
    )

    @property
    def makes_ids(self) -> bool:
        """Tell whether ids are made instead of read."""
        return self.extend_sid or self.auto_increasing_sid


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvHeader:
    """The columns of a file, and where its rows begin."""

    names: tuple[str, ...]  #: of the file's columns
    schema: TableSchema  #: of the table; with made ids it has one column more
    first_bytes: int  #: length of the first line
    rows_at: int  #: position of the first row
    doubts: tuple[str, ...] = ()  #: sentences on a head that was taken leniently; no name or cell


def file_kind(path: Path) -> FileKind:
    """Return what a file is, text if nothing else. Raises: BadData: it cannot be read."""
    where = f"file {path.name}"
    if not path.is_file():
        raise BadData(where=where, reason="there is no such file")
    with _readable(path, where) as file:
        return kind_of(file.read(8))


def kind_of(first: bytes) -> FileKind:
    """Return what a file is that begins with these 8 bytes, text if nothing else."""
    return next((k for begin, k in _KINDS.items() if first.startswith(begin)), FileKind.TEXT)


def read_header(path: Path, options: CsvOptions) -> CsvHeader:
    """Return the columns of a text file.

    Raises: BadData: it is no file, empty, packed, no text, or its header is wrong.
    """
    where = f"file {path.name}"
    if file_kind(path) is not FileKind.TEXT:
        raise BadData(where=where, reason=f"it is a {file_kind(path).value} file, no text")
    with _readable(path, where) as file:
        return header_of(file, options, where=where)


def header_of(file: IO[bytes], options: CsvOptions, *, where: str) -> CsvHeader:
    """Return the columns of an open text; `where` is what messages call it.

    Raises: BadData: it is empty, packed, no text, or its header is wrong. OSError.
    """
    delimiter = options.id_delimiter
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        reason = f"id_delimiter {delimiter!r} is not one ASCII character"
        raise BadData(where=where, reason=reason)
    first, begin, end = _first_line(file)
    names = _names(first, options, where)
    doubts: tuple[str, ...] = ()
    if options.head and options.lenient:
        names, doubts = distinct_names(names)
    if options.head or options.names is not None:
        place = "in the header" if options.head else "in the given schema"
        check_names(names, where=where, place=place)
    return CsvHeader(
        names=names,
        doubts=doubts,
        schema=raw_schema(names, options, where=where),
        first_bytes=len(first),
        rows_at=end if options.head else begin,
    )


@contextmanager
def _readable(path: Path, where: str) -> Iterator[IO[bytes]]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as exc:
        reason = f"it cannot be read ({exc.strerror or type(exc).__name__})"
        raise BadData(where=where, reason=reason) from exc


def first_rows(path: Path, header: CsvHeader, options: CsvOptions) -> tuple[tuple[str, ...], ...]:
    """Return the first rows as text, within the bounds of a preview; it ends at the first one that
    is wrong. Rows of files whose ids are made get the index alone.
    """
    rows: list[tuple[str, ...]] = []
    left = PREVIEW_CHARACTERS
    taken = header.schema.names[1 if options.makes_ids else 0 :]
    known = {name: place for place, name in enumerate(header.names)}
    places = [known[name] for name in taken]
    with path.open("rb") as file:
        file.seek(header.rows_at)
        for line in islice(_lines(file), PREVIEW_ROWS):
            try:
                cells = _cells(line.decode(), options)
            except (csv.Error, ValueError):
                break
            left -= sum(map(len, cells))
            if left < 0 or len(cells) != len(header.names):
                break
            chosen = tuple(cells[place] for place in places)
            rows.append((str(len(rows)), *chosen) if options.makes_ids else chosen)
    return tuple(rows)


def is_ragged(path: Path, header: CsvHeader, options: CsvOptions) -> bool:
    """Tell whether one of the first rows of a text without a head differs in length."""
    if options.head or options.names is not None or options.whole:
        return False
    with path.open("rb") as file:
        file.seek(header.rows_at)
        for line in islice(_lines(file), PREVIEW_ROWS):
            try:
                cells = _cells(line.decode(), options)
            except (csv.Error, ValueError):
                return False
            if len(cells) != len(header.names):
                return True
    return False


def _cells(line: str, options: CsvOptions) -> list[str]:
    """Return the cells of a line. Raises: csv.Error, ValueError: it is no CSV."""
    if not options.whole:
        if not set(line) & set('"\r\n'):
            return line.split(options.id_delimiter)  # csv refuses cells of more than 128 KiB
        (cells,) = csv.reader([line], delimiter=options.id_delimiter, strict=True)
        return list(cells)
    if options.makes_ids:
        return [line]
    key, _, rest = line.partition(options.id_delimiter)
    return [key, rest]


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines that are not blank; it ends at one that is too long."""
    while line := file.readline(LINE_BYTES):
        if len(line) >= LINE_BYTES:
            return
        if stripped := line.rstrip(b"\r\n"):
            yield stripped


def _first_line(file: IO[bytes]) -> tuple[bytes, int, int]:
    """Return the first line that is not blank, and where it begins and where the next one does.

    A file without one gives an empty line; a longer line than `LINE_BYTES` is cut there.
    """
    begin = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
    file.seek(begin)
    while line := file.readline(LINE_BYTES):
        if line.strip(b"\r\n"):
            return line.rstrip(b"\r\n"), begin, file.tell()
        begin = file.tell()
    return b"", begin, begin


def _names(first: bytes, options: CsvOptions, where: str) -> tuple[str, ...]:
    """Return the names of the file's columns, from its first line."""

    def bad(reason: str) -> BadData:
        return BadData(where=where, reason=reason)

    if not first:
        raise bad("it is empty")
    for begin, what in _PACKED.items():
        if first.startswith(begin):
            raise bad(f"it is {what}; unpack it, and send the text itself")
    if len(first) >= LINE_BYTES:
        raise bad(f"its first line is longer than {LINE_BYTES} bytes")
    try:
        line = first.decode("utf-8")
    except UnicodeDecodeError:
        raise bad("its first line is not UTF-8 text") from None
    try:
        cells = _cells(line, options)
    except (csv.Error, ValueError) as exc:
        raise bad(f"its first line is not CSV ({exc})") from None
    if len(cells) > COLUMN_LIMIT:
        raise bad(f"it has more than {COLUMN_LIMIT} columns")
    if options.head:
        return tuple(cell.strip() for cell in cells)
    if options.names is not None:
        if len(options.names) != len(cells):
            given = f"{len(options.names)} names"
            raise bad(f"its first row has {len(cells)} cells, the given schema {given}")
        return options.names
    made = tuple(f"x{i}" for i in range(len(cells)))
    return made if options.makes_ids else ("id", *made[:-1])


def distinct_names(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names that differ, for those of a head, and what was doubtful about it.

    FATE takes any first line as a head. Here a name that stands before gets a number (`x_2`), an
    empty one that of its column (`column_3`, from 1).
    """
    taken, seen = set(names), set[str]()
    repeated, empty, found = list[int](), list[int](), list[str]()
    for number, name in enumerate(names, start=1):
        if not name:
            empty.append(number)
            name = _free(f"column_{number}", taken)
        elif name in seen:
            repeated.append(number)
            name = _free(f"{name}_2", taken)
        seen.add(name)
        found.append(name)
    doubts = []
    if repeated:
        doubts.append(f"{_columns(repeated)} a name that stands before: a number was added")
    if empty:
        doubts.append(f"{_columns(empty)} no name: it is now `column_` and the number")
    if len(names) > 1 and all(map(_is_number, names[1:])):
        doubts.append("all names but the first are numbers: the line is probably a row")
    return tuple(found), tuple(doubts)


def _free(name: str, taken: set[str]) -> str:
    """Return `name`, with another number at its end if it is taken; then it is."""
    stem = name.rstrip("0123456789")
    tries = chain((name,), (f"{stem}{number}" for number in count(3)))
    free = next(one for one in tries if one not in taken)
    taken.add(free)
    return free


def _columns(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:20])) + (" ..." if len(numbers) > 20 else "")
    return f"column {shown} has" if len(numbers) == 1 else f"columns {shown} have"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_names(names: tuple[str, ...], *, where: str, place: str) -> None:
    """Raises: BadData: a column's name is empty or too long, or people could not read it."""
    for number, name in enumerate(names, start=1):
        if len(name) > NAME_LIMIT:
            raise BadData(where=where, reason=f"column {number} has a name of {len(name)} letters")
        if not name or has_control(name):
            reason = f"column {number} has no usable name {place}"
            raise BadData(where=where, reason=reason)


def raw_schema(names: tuple[str, ...], options: CsvOptions, *, where: str) -> TableSchema:
    """Return the schema of the table that a file with these columns becomes.

    Raises: BadData: two columns have one name, or a column that was chosen is not there (its field
    `missing` names those) or is chosen twice.
    """
    if twice := _repeated(names):
        raise BadData(where=where, reason=f"the header names {twice!r} more than once")
    chosen = _chosen(names, options, where=where)
    chosen = ("extend_sid", *chosen) if options.makes_ids else chosen
    if twice := _repeated(chosen):
        raise BadData(where=where, reason=f"the header names {twice!r} more than once")
    return TableSchema(kind=TableKind.RAW, id=chosen[0], columns=chosen[1:])


def _chosen(names: tuple[str, ...], options: CsvOptions, *, where: str) -> tuple[str, ...]:
    """Return which of a file's columns are read, the id in front."""
    first = options.id_column or names[0]
    if options.makes_ids:
        wanted = names if options.columns is None else options.columns
    elif options.columns is None:
        wanted = (first, *(name for name in names if name != first))
    else:
        wanted = (first, *options.columns)
    if missing := sorted(set(wanted) - set(names)):
        shown = ", ".join(repr(name[:100]) for name in missing[:3])
        reason = f"it has no column {shown}" + (" and others" if len(missing) > 3 else "")
        raise BadData(where=where, reason=reason, missing=missing)
    if twice := _repeated(wanted):
        raise BadData(where=where, reason=f"column {twice[:100]!r} is chosen twice")
    return wanted


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)
