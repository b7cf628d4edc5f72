"""Tables and output data over HTTP: lists, pages of rows, actions, uploads, hostile names."""

from __future__ import annotations

import io
import re
import tarfile
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
import requests

from fedflow.domain.records import JobFilter, TableRecord
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus
from fedflow.tables.preview_file import LocalPreviews
from tests.board.model_seeds import model_path, put_output, stored_table, table_root
from tests.board.places import Place
from tests.board.seeds import GUEST, HOST, HOSTILE, job, put, task
from tests.support.executors import wait_until

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
ROWS = 230


def columns(count: int = ROWS, **more: Any) -> dict[str, Any]:
    found = {"uid": [f"row{i:04}" for i in range(count)], "y": [i % 2 for i in range(count)]}
    return {**found, "a": [i / 4 for i in range(count)], **more}


@pytest.fixture(scope="module")
def table(seeded: Place) -> TableRecord:
    """A table of 230 rows, which a task of job 1 made and one of job 2 read."""
    made = stored_table(seeded, "exp/é?&", "a b#1", columns())
    for number in (1, 2):
        of = job(number)
        put(seeded.store, of, task(of, "dataio_0", "DataTransform"))
        put_output(seeded, number, GUEST, made)
    return made


class Client:
    """A browser without scripts: keeps cookies, and sends the token of the page it looks at."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.session = requests.Session()

    def get(self, path: str, **query: str) -> requests.Response:
        return self.session.get(self.place.url + path, params=query, timeout=CALL_S)

    def page(self, path: str, **query: str) -> str:
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return unescape(answer.text)

    def token(self, path: str, **query: str) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get(path, **query).text)
        assert found
        return found[1]

    def post(self, path: str, **fields: str) -> requests.Response:
        return self.session.post(self.place.url + path, data=fields, timeout=CALL_S)


@pytest.fixture
def client(seeded: Place) -> Client:
    return Client(seeded)


def names(table: TableRecord) -> dict[str, str]:
    return {"namespace": table.namespace, "name": table.name}


# --- the list -------------------------------------------------------------------------------------


def test_the_list_is_searched_filtered_and_paged(seeded: Place, client: Client) -> None:
    with seeded.store.transaction() as tx:
        for i in range(120):
            tx.tables.put(
                TableRecord(
                    namespace="many", name=f"t{i:03}", address=f"{i:032x}", count=i, schema={},
                    partitions=1, origin="upload", created_ms=10**12 + i, disabled=i == 7,
                )
            )  # fmt: skip
    first = client.page("/board/tables", part="many")
    assert "1 to 50 of 120" in first
    assert "many / t119" in first
    assert "many / t069" not in first
    assert "many / t000" in client.page("/board/tables", part="many", page="3")
    assert "101 to 120 of 120" in client.page("/board/tables", part="many", page="99")
    assert "many / t000" in client.page("/board/tables", part="many", order="name")
    assert "1 to 1 of 1" in client.page("/board/tables", part="many", disabled="yes")
    assert "No table fits" in client.page("/board/tables", part="many", origin="output")


def test_hostile_queries_of_the_list_are_texts(client: Client) -> None:
    for text in HOSTILE:
        answer = client.get("/board/tables", part=text, order=text, page=text, origin=text)
        assert answer.status_code == 200
        assert "<script>document" not in answer.text
        assert "<img src=x" not in answer.text


# --- one table ------------------------------------------------------------------------------------


def test_a_table_has_facts_columns_uses_and_rows(client: Client, table: TableRecord) -> None:
    text = client.page("/board/tables/table", **names(table))
    assert "exp/é?& / a b#1" in text
    assert re.search(r"Rows</dt><dd>\s*230", text)
    assert "Tasks that created or read it" in text
    assert "row0000" in text
    assert "row0050" not in text
    assert re.search(r'<th scope="row">\s*a\s*</th>', text)
    assert "57.25" in text  # the greatest of column a


def test_rows_behind_the_preview_are_read_from_the_file(
    client: Client, seeded: Place, table: TableRecord
) -> None:
    assert len(LocalPreviews(seeded.home / "tables").read(table)) == 100
    text = client.page("/board/tables/table", page="5", **names(table))
    assert "row0200" in text
    assert "row0229" in text
    assert "201 to 230 of 230" in text


def test_an_unknown_table_is_a_page_with_its_error(client: Client) -> None:
    assert client.get("/board/tables/table", namespace="no", name="ne").status_code == 404
    assert client.get("/board/tables/table").status_code == 400


def test_a_table_is_disabled_enabled_and_deleted(seeded: Place, client: Client) -> None:
    made = stored_table(seeded, "acts", "t1", columns(3))
    token = client.token("/board/tables/table", **names(made))
    answer = client.post("/board/tables/disable", csrf=token, **names(made))
    assert "Jobs can not read this table any more" in answer.text
    with seeded.store.read() as tx:
        assert tx.tables.get("acts", "t1").disabled  # type: ignore[union-attr]
    assert "can read this table again" in client.post(
        "/board/tables/enable", csrf=token, **names(made)
    ).text  # fmt: skip
    gone = client.post("/board/tables/delete", csrf=token, **names(made))
    assert "was deleted" in unescape(gone.text)
    assert not (table_root(seeded) / made.address).exists()
    again = client.post("/board/tables/delete", csrf=token, **names(made))
    assert "No table acts.t1" in unescape(again.text)


def test_an_action_without_the_token_does_nothing(seeded: Place, client: Client) -> None:
    made = stored_table(seeded, "acts", "t2", columns(3))
    for action in ("disable", "delete"):
        assert client.post(f"/board/tables/{action}", **names(made)).status_code == 403
    with seeded.store.read() as tx:
        assert not tx.tables.get("acts", "t2").disabled  # type: ignore[union-attr]


def test_a_table_is_downloaded(client: Client, table: TableRecord) -> None:
    answer = client.get("/board/tables/download", **names(table))
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        member = tar.extractfile("table.csv")
        assert member is not None
        assert member.read().decode().count("\n") == ROWS + 1
    assert client.get("/board/tables/download", namespace="x", name="y").status_code == 404


def test_hostile_names_and_cells_are_texts(seeded: Place, client: Client) -> None:
    heads = {text[:90]: [cell[:200] for cell in HOSTILE] for text in HOSTILE if "x" * 9 not in text}
    for number, text in enumerate(HOSTILE):
        rows = {"uid": list(map(str, range(len(HOSTILE)))), **heads}
        made = stored_table(seeded, text[:90], f"{text[:90]}{number}", rows)
        put_output(seeded, 1, HOST, made, component=f"c{number}")
        for answer in (
            client.get("/board/tables/table", **names(made)),
            client.get("/board/tables", part=made.namespace),
        ):
            assert answer.status_code == 200, answer.text
            assert "<script>document" not in answer.text
            assert "<img src=x" not in answer.text


# --- upload ---------------------------------------------------------------------------------------


def upload(
    client: Client, content: bytes, *, token: str | None = None, **fields: str
) -> requests.Response:
    given = token if token is not None else client.token("/board/tables/upload")
    data = {"csrf": given, "namespace": "up", "partition": "2", "id_delimiter": ",", "head": "1"}
    return client.session.post(
        client.place.url + "/board/tables/upload", data={**data, **fields},
        files={"file": ("d.csv", content)}, timeout=CALL_S, allow_redirects=False,
    )  # fmt: skip


def spooled(place: Place) -> list[str]:
    return [p.name for p in place.services.data.uploads.spool_dir.iterdir()]


def test_an_uploaded_file_becomes_a_table(seeded: Place, client: Client) -> None:
    answer = upload(client, b"id,y\n1,0\n2,1\n", table_name="made")
    assert answer.status_code == 303, answer.text
    found = re.search(r"/board/jobs/(\d+)/local/0", answer.headers["Location"])
    assert found

    def ended() -> bool:
        (of,) = seeded.services.jobs.find(JobFilter(job_id=found[1]))
        return of.status is JobStatus.SUCCESS

    wait_until(ended, 60)
    assert "id" in client.page("/board/tables/table", namespace="up", name="made")


def test_a_refused_upload_leaves_no_file(seeded: Place, client: Client) -> None:
    token = client.token("/board/tables/upload")
    before = spooled(seeded)
    assert upload(client, b"id\n1\n", token="wrong", table_name="t").status_code == 403
    for fields in ({"table_name": ""}, {"table_name": "t", "partition": "x"}):
        answer = upload(client, b"id\n1\n", token=token, **fields)
        assert answer.status_code == 303
        assert answer.headers["Location"].endswith("/board/")
    assert upload(client, b"", token=token, table_name="t").status_code == 303
    assert spooled(seeded) == before


# --- output data ----------------------------------------------------------------------------------


def test_output_tables_are_paged_and_chosen(
    seeded: Place, client: Client, table: TableRecord
) -> None:
    other = stored_table(seeded, "out", "second", columns(3, b=[None, 1.5, float("nan")]))
    put_output(seeded, 1, GUEST, other, data_name="validate_data", position=1)
    text = client.page(model_path(1, GUEST, "data", "dataio_0"))
    assert "row0049" in text
    assert "1 to 50 of 230" in text
    assert "flow component output-data -j" in text
    text = client.page(model_path(1, GUEST, "data", "dataio_0"), output="validate_data")
    assert re.search(r"Rows</dt><dd>3", text)
    assert text.count('<span class="muted">-</span>') >= 2
    text = client.page(model_path(1, GUEST, "data", "dataio_0"), page="4")
    assert "row0150" in text


def test_output_tables_are_downloaded(client: Client, table: TableRecord) -> None:
    answer = client.get(model_path(1, GUEST, "data/download", "dataio_0"))
    assert answer.headers["Content-Type"] == "application/gzip"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        assert "data.csv" in tar.getnames()


def test_a_table_that_is_gone_and_no_table_at_all_are_told(seeded: Place, client: Client) -> None:
    of = job(3)
    put(seeded.store, of, *(task(of, name, "X") for name in ("dataio_0", "reader_0")))
    made = stored_table(seeded, "out", "gone", columns(3))
    put_output(seeded, 3, GUEST, made)
    with seeded.store.transaction() as tx:
        tx.tables.drop("out", "gone")
    assert "The table no longer exists" in client.page(model_path(3, GUEST, "data", "dataio_0"))
    assert "no output tables" in client.page(model_path(3, GUEST, "data", "reader_0"))
    gone = client.get(model_path(3, GUEST, "data/download", "dataio_0"))
    assert gone.status_code == 404


def test_a_damaged_table_is_an_error_with_a_reason(seeded: Place, client: Client) -> None:
    made = stored_table(seeded, "out", "damaged", columns())
    (table_root(seeded) / made.address / "rows.arrow").write_bytes(b"rubbish")
    answer = client.get("/board/tables/table", page="4", **names(made))
    assert answer.status_code >= 400
    assert "damaged" in answer.text


def test_the_page_of_a_site_shows_its_own_rows_only(
    seeded: Place, client: Client, table: TableRecord
) -> None:
    of = job(4)
    put(seeded.store, of, task(of, "dataio_0", "X"))
    put_output(seeded, 4, HOST, table)
    assert "row0000" not in client.page(model_path(4, GUEST, "data", "dataio_0"))
    foreign = Site(HOST.role, HOST.party_id)
    assert client.get(model_path(4, foreign, "data", "dataio_0")).status_code == 404


def test_the_tables_of_each_attempt_are_shown_and_downloaded(seeded: Place) -> None:
    number = 95
    of = job(number)
    first = task(of, "dataio_0", "DataTransform")
    tasks = [replace(first, key=replace(first.key, version=version)) for version in range(3)]
    put(seeded.store, of, *tasks)
    for version in (0, 1):
        rows = {"uid": [f"attempt{version}row{i}" for i in range(3)], "a": [1.0, 2.0, 3.0]}
        made = stored_table(seeded, f"attempt_{version}", "data", rows)
        put_output(seeded, number, GUEST, made, version=version)
    path = model_path(number, GUEST, "data", "dataio_0")
    client = Client(seeded)
    latest = client.page(path)
    assert "These are the tables of attempt 1, the latest one that stored any." in latest
    assert "attempt1row0" in latest
    assert "attempt0row0" not in latest
    assert "flow component output-data" in latest
    choice = latest.split('aria-label="Attempts that stored tables"')[1].split("</nav>")[0]
    assert re.findall(r'href="([^"]+)"', choice) == [f"{path}?attempt=1", f"{path}?attempt=0"]
    earlier = client.page(path, attempt="0")
    assert "These are the tables of attempt 0." in earlier
    assert "attempt0row0" in earlier
    assert "attempt1row0" not in earlier
    assert "flow component output-data" not in earlier  # it would fetch those of attempt 1
    for attempt in (0, 1):
        answer = client.get(f"{path}/download", attempt=str(attempt))
        with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
            text = archive.extractfile("data.csv").read().decode()  # type: ignore[union-attr]
        assert f"attempt{attempt}row2" in text
    none = client.get(f"{path}/download", attempt="2")
    assert "attempt1row0" in client.page(path, attempt="2")  # the latest one needs no name
    assert none.status_code == 200
