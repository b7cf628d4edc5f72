"""CSV files become tables row by row; a wrong one leaves nothing and says where it is wrong."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fedflow.base.errors.data import BadData, DiskFull, TableExists
from fedflow.tables.catalog import TableOrigin
from fedflow.tables.csv_import import BLOCK_BYTES
from fedflow.tables.local import LocalTableStore
from fedflow.tables.local_table import LocalTable
from fedflow.testing.tables import MemoryCatalog, local_store
from fedflow.wire.fields import table_schema_row
from tests.support.previews import preview_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "data"


class Importer:
    """A store, and a way to import bytes."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tables"
        self.catalog = MemoryCatalog()
        self.store: LocalTableStore = local_store(self.root, catalog=self.catalog)
        self.source = folder / "in.csv"

    def __call__(self, content: bytes, name: str = "t", **options: object) -> LocalTable:
        self.source.write_bytes(content)
        return self.store.import_csv(self.source, namespace="n", name=name, **options)  # type: ignore[arg-type]

    def rows(self, content: bytes, **options: object) -> list[dict[str, str]]:
        rows: list[dict[str, str]] = self(content, **options).read().to_pylist()
        return rows


@pytest.fixture
def importer(tmp_path: Path) -> Importer:
    return Importer(tmp_path)


def test_a_file_with_a_header_becomes_a_text_table(importer: Importer) -> None:
    table = importer(b"id,y,x0\n133,1,0.254879\n273,0,-1.0\n", partitions=4)
    assert table.read().to_pylist() == [
        {"id": "133", "y": "1", "x0": "0.254879"},
        {"id": "273", "y": "0", "x0": "-1.0"},
    ]
    entry = table.entry
    assert table_schema_row(entry) == {"header": "y,x0", "sid": "id"}
    assert (entry.count, entry.partitions, entry.have_head) == (2, 4, True)
    assert (entry.origin, entry.id_delimiter, entry.extend_sid) == (TableOrigin.UPLOAD, ",", False)
    assert preview_of(table) == (("133", "1", "0.254879"), ("273", "0", "-1.0"))
    assert importer.catalog.find("n", "t") == entry


@pytest.mark.parametrize(("name", "columns"), [("guest", 12), ("host", 21)])
def test_the_example_files_are_imported_cell_by_cell(
    importer: Importer, name: str, columns: int
) -> None:
    path = EXAMPLES / f"breast_hetero_{name}.csv"
    table = importer(path.read_bytes())
    lines = path.read_text().splitlines()
    assert table.count == 569
    assert len(table.schema.names) == columns
    read = table.read()
    cells = zip(*(read.column(i).to_pylist() for i in range(columns)), strict=True)
    assert [",".join(row) for row in cells] == lines[1:]
    assert len(preview_of(table)) == 100


def test_a_file_without_a_header_gets_numbered_columns(importer: Importer) -> None:
    table = importer(b"a,1,2\nb,3,4\n", head=False)
    assert table.schema.names == ("id", "x0", "x1")
    assert table_schema_row(table.entry) == {"header": "", "sid": ""}
    assert table.count == 2


def test_another_delimiter_separates_and_joins(importer: Importer) -> None:
    table = importer(b"id;x0;x1\na;1,5;2\n", id_delimiter=";")
    assert table.read().to_pylist() == [{"id": "a", "x0": "1,5", "x1": "2"}]
    assert table_schema_row(table.entry) == {"header": "x0;x1", "sid": "id"}


def test_made_ids_are_unique_where_the_file_repeats_them(importer: Importer) -> None:
    table = importer(b"id,x\na,1\na,2\n", extend_sid=True)
    ids = table.read().column("extend_sid").to_pylist()
    assert [i[32:] for i in ids] == ["0", "1"]
    assert len({i[:32] for i in ids}) == 1
    assert table.read(("id", "x")).to_pylist() == [{"id": "a", "x": "1"}, {"id": "a", "x": "2"}]
    assert table_schema_row(table.entry) == {"header": "id,x", "sid": "extend_sid"}
    assert table.entry.extend_sid


def test_two_uploads_with_made_ids_share_none(importer: Importer) -> None:
    one = importer(b"id\na\n", name="one", extend_sid=True).read().column(0).to_pylist()
    two = importer(b"id\na\n", name="two", extend_sid=True).read().column(0).to_pylist()
    assert one != two


def test_row_numbers_can_be_the_ids(importer: Importer) -> None:
    table = importer(b"id,x\na,1\nb,2\n", extend_sid=True, auto_increasing_sid=True)
    assert table.read().column("extend_sid").to_pylist() == ["0", "1"]


def test_made_ids_without_a_header_keep_every_column(importer: Importer) -> None:
    table = importer(b"a,1\n", head=False, extend_sid=True)
    assert table.schema.names == ("extend_sid", "x0", "x1")


@pytest.mark.parametrize(
    "content",
    [
        b"id,x\na,1\nb,2\n",
        b"id,x\na,1\nb,2",
        b"id,x\r\na,1\r\nb,2\r\n",
        b"\xef\xbb\xbfid,x\na,1\nb,2\n",
        b"\n\nid,x\n\na,1\n\n\nb,2\n\n",
        b"\xef\xbb\xbf\r\nid,x\na,1\nb,2\n",
        b'"id","x"\n"a","1"\nb,"2"\n',
        b" id , x\na,1\nb,2\n",
    ],
)
def test_one_table_in_many_spellings(importer: Importer, content: bytes) -> None:
    assert importer.rows(content) == [{"id": "a", "x": "1"}, {"id": "b", "x": "2"}]


def test_cells_are_kept_as_they_are(importer: Importer) -> None:
    cells = ["", "NULL", " 1 ", "1e5", "true", "2020-01-01", "ü", "it's", 'a"b', "0x1F"]
    content = "id,x\n" + "".join(f"{n},{c}\n" for n, c in enumerate(cells))
    assert [r["x"] for r in importer.rows(content.encode())] == cells


def test_a_quoted_cell_may_hold_the_delimiter_and_quotes(importer: Importer) -> None:
    assert importer.rows(b'id,x\n"a,b","say ""hi"""\n') == [{"id": "a,b", "x": 'say "hi"'}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\n\r\n\n", "it is empty"),
        (b"id,x\n", "it has no rows"),
        (b"id,x", "it has no rows"),
        (b"id,x\n\n\n", "it has no rows"),
        (b"id,,x\na,1,2\n", "column 2 has no usable name"),
        (b"id,x\x07\na,1\n", "column 2 has no usable name"),
        (b"id,x,x\na,1,2\n", "names 'x' more than once"),
        (b"id,id\na,1\n", "names 'id' more than once"),
        (b"id,x\na,1\nb\n", "row 2 has 1 cells, not 2"),
        (b"id,x\na,1\n\nb,2,3\n", "row 2 has 3 cells, not 2"),
        (b"id,x\na,1\nb,2,\n", "row 2 has 3 cells, not 2"),
        (b"id,x\na,1\na,2\n", "row 2 repeats the id of row 1; rows that repeat an id: 1"),
        (b"id,x\n,1\n", "row 1 has an empty id"),
        (b"id,x\na,1\n \t,1\n", "row 2 has an empty id"),
        (b"id,x\na,1\nb,\xff\xfe\n", "row 2, column 'x' is not UTF-8"),
        (b"id,x\na,1\nb\xe9,2\n", "row 2, column 'id' is not UTF-8"),
        ("id,größe\na,1\n".encode("latin-1"), "first line is not UTF-8"),
        ("id,x\na,1\n".encode("utf-16"), "first line is not UTF-8"),
        (b'id,x\na,1\nb,"2\nc,3\n', "row 2, column 'x' holds a line break"),
        (b'id,x\na,"1\n2"\n', "row 1, column 'x' holds a line break"),
        (b'id,"x\na,1\n', "first line is not CSV"),
        (b"id,x\ra,1\r", "first line is not CSV"),
        (b"id,x\n" + b"a" * (3 * BLOCK_BYTES) + b",1\n", "is longer than"),
        (b"x" * (5 << 20), "first line is longer than"),
        (b"id," + b"x" * (1 << 18) + b"\na,1\n", "column 2 has a name of 262144 letters"),
        (b"a" + b"," * 100_001 + b"\n", "more than 100000 columns"),
    ],
)
def test_a_wrong_file_is_refused_and_leaves_nothing(
    importer: Importer, content: bytes, reason: str
) -> None:
    with pytest.raises(BadData) as caught:
        importer(content)
    assert reason in caught.value.message
    assert "file in.csv" in caught.value.message
    assert list(importer.root.iterdir()) == []
    assert importer.catalog.entries() == []


def test_messages_do_not_repeat_cells(importer: Importer) -> None:
    for content in (
        b"id,x\nsecret7,1,2\n",
        b"id,x\nsecret7,1\nsecret7,2\n",
        b"id,x\na,secret7\xff\n",
        b'id,x\na,"secret7\n',
    ):
        with pytest.raises(BadData) as caught:
            importer(content)
        assert "secret7" not in str(caught.value)


def test_an_error_in_a_late_block_names_the_row_of_the_whole_file(importer: Importer) -> None:
    line = b"%08d," + b"x" * 90 + b"\n"
    good = b"".join(line % n for n in range(30_000))
    with pytest.raises(BadData, match="row 30001 has 3 cells"):
        importer(b"id,x\n" + good + b"a,b,c\n")
    with pytest.raises(BadData, match="row 30001, column 'x' is not UTF-8"):
        importer(b"id,x\n" + good + b"a,\xff\n")
    with pytest.raises(BadData, match="row 30001 has an empty id"):
        importer(b"id,x\n" + good + b",b\n")
    with pytest.raises(BadData, match="row 30001 repeats the id of row 12346"):
        importer(b"id,x\n" + good + line % 12_345)
    assert list(importer.root.iterdir()) == []


@pytest.mark.parametrize("delimiter", ["", "ab", "é", '"', "\n", "\x00"])
def test_a_delimiter_that_cannot_be_one_is_refused(importer: Importer, delimiter: str) -> None:
    with pytest.raises(BadData, match="id_delimiter"):
        importer(b"id,x\na,1\n", id_delimiter=delimiter)


@pytest.mark.parametrize("partitions", [0, -1, 1024])
def test_partitions_are_1_to_1023(importer: Importer, partitions: int) -> None:
    with pytest.raises(BadData, match="partition"):
        importer(b"id,x\na,1\n", partitions=partitions)


def test_what_is_no_file_is_refused(importer: Importer, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.csv", Path("/dev/zero")):
        with pytest.raises(BadData, match="no such file"):
            importer.store.import_csv(path, namespace="n", name="t")


def test_an_existing_table_is_replaced_only_with_drop(importer: Importer) -> None:
    importer(b"id,x\na,1\n")
    with pytest.raises(TableExists):
        importer(b"id,x\nb,2\n")
    importer(b"id,x\nb,2\n", drop=True)
    assert importer.store.open("n", "t").read().to_pylist() == [{"id": "b", "x": "2"}]
    assert len(list(importer.root.iterdir())) == 1


def test_a_failed_replacement_keeps_the_old_table(importer: Importer) -> None:
    importer(b"id,x\na,1\n")
    with pytest.raises(BadData):
        importer(b"id,x\nb,2\nb,3\n", drop=True)
    assert importer.store.open("n", "t").read().to_pylist() == [{"id": "a", "x": "1"}]


def test_progress_rises_to_one(importer: Importer) -> None:
    seen: list[float] = []
    content = b"id,x\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(300_000))
    importer(content, progress=seen.append)
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert seen[-1] == 1.0


def test_a_disk_that_fills_up_leaves_nothing(importer: Importer) -> None:
    content = b"id,x\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(100_000))
    importer.source.write_bytes(content)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(DiskFull):
            importer.store.import_csv(importer.source, namespace="n", name="t")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(importer.root.iterdir()) == []


MEASURE = """
import resource, sys
from pathlib import Path
from fedflow.testing.tables import local_store

folder, count = Path(sys.argv[1]), int(sys.argv[2])
line = "," + ",".join(["0.123456"] * 20) + "\\n"
store = local_store(folder / "tables")
with (folder / "warm.csv").open("w") as file:
    file.write("id,x\\na,1\\n")
store.import_csv(folder / "warm.csv", namespace="n", name="warm")
with (folder / "big.csv").open("w") as file:
    file.write("id," + ",".join(f"x{i}" for i in range(20)) + "\\n")
    for n in range(count):
        file.write(f"{n}{line}")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = store.import_csv(folder / "big.csv", namespace="n", name="big")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(table.count, (folder / "big.csv").stat().st_size, (after - before) * 1024)
"""


def added_memory(folder: Path, count: int) -> tuple[int, int]:
    """Return a CSV's size and what its import added to the process, bytes."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), str(count)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    rows, size, added = map(int, done.stdout.split())
    assert rows == count
    return size, added


def test_memory_stays_bounded_for_a_file_of_40_mb(tmp_path: Path) -> None:
    size, added = added_memory(tmp_path, 220_000)
    assert size > 38_000_000
    assert added < 120 << 20


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    size, added = added_memory(tmp_path, 1_800_000)
    assert size > 320_000_000
    assert added < 160 << 20


# --- rows of different lengths --------------------------------------------------------------------


def test_a_late_row_of_another_length_makes_all_rows_one_text(importer: Importer) -> None:
    lines = [b"u%d,a,b" % i for i in range(300_000)]
    lines[-1] = b"last,a,b,c"
    table = importer(b"\n".join(lines) + b"\n", head=False)
    assert table.schema.names == ("id", "x0")
    rows = table.read()
    assert rows.num_rows == 300_000
    assert rows.slice(0, 1).to_pylist() == [{"id": "u0", "x0": "a,b"}]
    assert rows.slice(299_999).to_pylist() == [{"id": "last", "x0": "a,b,c"}]
    assert len(list(importer.root.iterdir())) == 1, "nothing is left of the first attempt"


def test_such_rows_keep_quotes_and_empty_cells(importer: Importer) -> None:
    rows = importer.rows(b'u,a\nv\r\n\nw,"b,,\n', head=False)
    assert rows == [{"id": "u", "x0": "a"}, {"id": "v", "x0": ""}, {"id": "w", "x0": '"b,,'}]


def test_such_rows_with_made_ids_are_kept_as_they_are(importer: Importer) -> None:
    rows = importer.rows(b"u,a\nv\n", head=False, auto_increasing_sid=True)
    assert rows == [{"extend_sid": "0", "x0": "u,a"}, {"extend_sid": "1", "x0": "v"}]


def test_a_first_row_may_hold_one_very_long_cell(importer: Importer) -> None:
    tags = ";".join(f"t{i}:1" for i in range(30_000))
    table = importer(f"u1,{tags}\nu2,t1:1\n".encode(), head=False)
    assert table.read().column("x0").to_pylist() == [tags, "t1:1"]


def test_whole_rows_can_be_asked_for(importer: Importer) -> None:
    rows = importer.rows(b"u|a|b\nv|c|d\n", head=False, whole=True, id_delimiter="|")
    assert rows == [{"id": "u", "x0": "a|b"}, {"id": "v", "x0": "c|d"}]


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (b"id,x\nu,1\nv\n", {}, "row 2 has 1 cells, not 2"),
        (b"u,1\nv\n", {"names": ("id", "x")}, "row 2 has 1 cells, not 2"),
        (b"u,a\nu\n", {}, "row 2 repeats the id of row 1"),
        (b"u,a\n,b,c\n", {}, "row 2 has an empty id"),
        (b"u,a\nv,b\x1fc,d\n", {}, "row 2 holds control characters"),
        (b"u,a\nv,b,\xff\n", {}, "row 2, column 'id' is not UTF-8 text"),
    ],
)
def test_rows_of_different_lengths_are_checked_too(
    importer: Importer, content: bytes, options: dict[str, object], says: str
) -> None:
    head = content.startswith(b"id")
    with pytest.raises(BadData, match=says):
        importer(content, head=head, **options)
    assert list(importer.root.iterdir()) == []
