"""`fedflow data`, `table`, `tracking`, `component`, `version`."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec
import pytest

from fedflow.base.errors.data import NoData, TableExists
from fedflow.base.errors.requests import NotAuthenticated

UPLOAD, INFO, STATUS = "/v1/data/upload", "/v1/table/table_info", "/v1/job/status"
WHERE = ("-j", "7", "-c", "lr_0", "-r", "guest", "-p", "9999")


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "g.csv"
    path.write_text("id,x\n1,2\n")
    return path


@pytest.fixture
def accepts(shell, make_view):
    shell.answer(UPLOAD, members={"jobId": "7"})
    shell.answer(STATUS, make_view())
    shell.answer(
        INFO,
        {"table_name": "t", "namespace": "n", "exist": 1, "count": 569, "partition": 4,
         "columns": [{"name": name, "kind": "number", "count": 9, "missing": 0} for name in "xy"]},
    )  # fmt: skip
    return shell


def sent(shell):
    request = next(one for one in shell.server.received if one.path == UPLOAD)
    return msgspec.json.decode(unquote(request.target.partition("?")[2]))


def test_upload_waits_and_tells_how_many_rows_and_columns_there_are(accepts, csv):
    result = accepts("data", "upload", "-f", csv, "-n", "n", "-t", "t")
    assert result.exit_code == 0
    assert result.stdout == "Table n.t has 569 rows and 2 columns beside the id.\n"
    assert result.stderr == ""
    assert sent(accepts) == {
        "file": "g.csv", "namespace": "n", "table_name": "t", "head": 1, "partition": 4,
        "id_delimiter": ",", "drop": 0, "use_local_data": 1,
    }  # fmt: skip


def test_an_upload_without_columns_says_so_with_what_the_server_warns_of(accepts, csv, make_view):
    warning = {"code": "OtherDelimiter", "path": "upload_0.id_delimiter", "message": "one cell",
               "hint": "Upload it again."}  # fmt: skip
    accepts.answer(STATUS, make_view(warnings=[warning]))
    accepts.answer(INFO, {"table_name": "t", "namespace": "n", "exist": 1, "count": 1})
    words = ("data", "upload", "-f", csv, "-n", "n", "-t", "t")
    result = accepts(*words)
    assert result.stdout == "Table n.t has 1 row and no column but the id.\n"
    said = "Warning: upload_0.id_delimiter: one cell (OtherDelimiter) Upload it again.\n"
    assert result.stderr == said
    assert accepts.json(*words)["warnings"] == [warning]


def test_upload_takes_every_option(accepts, csv):
    options = ("--drop", "--no-head", "--partition", 8, "--id-delimiter", ";")
    accepts("data", "upload", "-f", csv, "-n", "n", "-t", "t", *options)
    found = sent(accepts)
    assert [found[k] for k in ("drop", "head", "partition", "id_delimiter")] == [1, 0, 8, ";"]


def test_upload_takes_a_conf_of_fate_and_options_win(accepts, csv, tmp_path):
    conf = {
        "file": str(csv), "head": 0, "partition": 16, "work_mode": 1, "namespace": "exp",
        "table_name": "g", "drop": 2, "extend_sid": 1,
    }  # fmt: skip
    (tmp_path / "c.json").write_bytes(msgspec.json.encode(conf))
    result = accepts("data", "upload", "-c", tmp_path / "c.json", "-t", "other")
    assert result.exit_code == 0, result.output
    assert sent(accepts) == {
        "file": "g.csv", "namespace": "exp", "table_name": "other", "head": 0, "partition": 16,
        "id_delimiter": ",", "drop": 0, "use_local_data": 1, "extend_sid": 1,
    }  # fmt: skip


def test_upload_without_waiting_prints_the_job(accepts, csv):
    answer = accepts.json("data", "upload", "-f", csv, "-n", "n", "-t", "t", "--no-wait")
    assert answer == {"job_id": "7", "namespace": "n", "table_name": "t"}
    assert len(accepts.server.received) == 1


def test_upload_without_waiting_shows_what_the_server_warns_of(accepts, csv):
    warned = {"code": "UnknownMember", "path": "$.colour", "message": "unknown", "hint": "Out."}
    accepts.answer("/v1/data/upload", {"job_id": "7", "warnings": [warned]}, members={"jobId": "7"})
    result = accepts("data", "upload", "-f", csv, "-n", "n", "-t", "t", "--no-wait")
    assert result.stderr == "Warning: $.colour: unknown (UnknownMember) Out.\n"


def test_an_upload_job_that_fails_is_code_3_with_its_reason(accepts, csv, make_view):
    reason = {"code": "BadData", "message": "line 2: no id", "site": None}
    accepts.answer(STATUS, make_view("failed", reason=reason))
    result = accepts("data", "upload", "-f", csv, "-n", "n", "-t", "t")
    assert result.exit_code == 3
    assert "line 2: no id" in result.stdout


def test_a_table_that_exists_is_an_error_with_the_way_out(shell, csv):
    shell.refuse(UPLOAD, TableExists(namespace="n", name="t"))
    result = shell("data", "upload", "-f", csv, "-n", "n", "-t", "t")
    assert result.exit_code == 1
    assert "Table n.t exists already." in result.stderr
    assert "--drop" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-n", "n", "-t", "t"), "name the file"),
        (("-f", "/no/such.csv", "-n", "n", "-t", "t"), "does not exist"),
        (("-f", "{csv}", "-t", "t"), "name the namespace"),
        (("-f", "{csv}", "-n", "n"), "name the table name"),
        (("-f", "{csv}", "-n", "n", "-t", "t", "--partition", "0"), "not in the range"),
    ],
)
def test_an_upload_that_is_incomplete_is_a_usage_error(shell, csv, words, said):
    result = shell("data", "upload", *(str(w).format(csv=csv) for w in words))
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    assert shell.server.received == []


@pytest.mark.parametrize("bad", [{"head": "x"}, {"partition": "4"}, {"file": "/no/such.csv"}])
def test_a_conf_with_a_wrong_value_is_a_usage_error(shell, csv, tmp_path, bad):
    conf = {"file": str(csv), "namespace": "n", "table_name": "t", **bad}
    (tmp_path / "c.json").write_bytes(msgspec.json.encode(conf))
    assert shell("data", "upload", "-c", tmp_path / "c.json").exit_code == 2


def test_history_lists_uploads(shell):
    info = {"table_name": "g", "namespace": "exp", "partition": 4, "upload_count": 569}
    shell.answer(
        "/v1/data/upload/history",
        [
            {
                "7": {
                    "upload_info": info,
                    "notes": "",
                    "schema": {},
                    "created_ms": 1_795_168_800_000,
                }
            },
            {"6": {"upload_info": info, "notes": "", "schema": {}, "gone": True}},
        ],
    )
    result = shell("data", "history")
    assert result.stdout.splitlines()[2].split()[-2:] == ["6", "gone"]
    day, _time, *others = result.stdout.splitlines()[1].split()
    assert day.startswith("2026-11-2")
    assert others == ["exp", "g", "569", "4", "7"]


def test_table_info_of_no_table_says_so(shell):
    shell.answer(INFO, {"table_name": "t", "namespace": "n", "exist": 0, "count": 0})
    assert "does not exist" in shell("table", "info", "-n", "n", "-t", "t").stdout
    assert shell.json("table", "info", "-n", "n", "-t", "t")["exists"] is False


def test_table_info_shows_who_made_it_and_its_columns(shell):
    made_by = {"job_id": "7", "component_name": "upload_0", "role": "local", "party_id": "0",
               "data_name": "data"}  # fmt: skip
    column = {"name": "x", "kind": "number", "count": 3, "missing": 1, "min": -1.5, "max": 2.0,
              "mean": 0.25}  # fmt: skip
    row = {"table_name": "t", "namespace": "n", "exist": 1, "count": 3}
    shell.answer(INFO, {**row, "made_by": made_by, "columns": [column]})
    lines = shell("table", "info", "-n", "n", "-t", "t").stdout.splitlines()
    assert "made by     upload_0 of job 7" in lines
    assert lines[-1].split() == ["x", "number", "1", "-1.5", "2", "0.25"]


def test_table_preview_shows_rows(shell):
    shell.answer("/v1/table/preview", {"header": ["id", "[x]"], "data": [["1", "[bold]2"]]})
    lines = shell("table", "preview", "-n", "n", "-t", "t").stdout.splitlines()
    assert [line.split() for line in lines] == [["id", "[x]"], ["1", "[bold]2"]]


def test_table_delete_asks_first(shell):
    shell.answer("/v1/table/delete", {})
    assert shell("table", "delete", "-n", "n", "-t", "t", text="n\n").exit_code == 1
    assert shell.server.received == []
    assert shell("table", "delete", "-n", "n", "-t", "t", "--yes").exit_code == 0
    assert shell.server.bodies("/v1/table/delete") == [{"namespace": "n", "table_name": "t"}]


def test_metrics_show_values_and_curves(shell):
    data = {
        "train": {
            "lr_0": {"data": [["auc", 0.98765432]], "meta": {"metric_type": "EVALUATION_SUMMARY"}},
            "loss": {"data": [[0, 0.6], [1, 0.5]], "meta": {"unit_name": "iters"}},
            "roc": {"data": [[i / 100, i / 100] for i in range(101)], "meta": {}},
            "confusion_mat": {"data": [], "meta": {"tp": [1]}},
        }
    }
    shell.answer("/v1/tracking/component/metric/all", data)
    text = shell("tracking", "metrics", *WHERE).stdout
    assert "auc   0.987654" in text
    assert "iters  value" in text
    assert "train / roc: 101 points" in text
    assert "train / confusion_mat: --json has it" in text
    assert shell.json("tracking", "metrics", *WHERE)[0]["points"] == [["auc", 0.98765432]]


def test_output_shows_the_first_rows(shell):
    shell.answer(
        "/v1/tracking/component/output/data",
        [[["1", "a"], ["2", "b"]]],
        members={"meta": {"header": [["id", "x"]], "total": [2], "names": ["data"]}},
    )
    text = shell("tracking", "output", *WHERE, "-l", "1").stdout
    assert "data: 2 rows" in text
    assert "1   a" in text
    assert "2   b" not in text


def test_output_is_saved_in_a_folder(shell, tmp_path):
    shell.archive("/v1/tracking/component/output/data/download", {"data.csv": "id\n1\n"})
    result = shell("tracking", "output", *WHERE, "-o", tmp_path / "out")
    assert result.stdout.strip().endswith("data.csv")
    assert (tmp_path / "out" / "data.csv").read_text() == "id\n1\n"


def test_summary_and_model_are_json(shell):
    shell.answer("/v1/tracking/component/summary/download", {"auc": 1})
    shell.answer(
        "/v1/tracking/component/output/model",
        {"weight": {"x0": 1}},
        members={"meta": {"meta_data": {"alpha": 0.1}, "module_name": "HeteroLR"}},
    )
    assert msgspec.json.decode(shell("tracking", "summary", *WHERE).stdout) == {"auc": 1}
    model = msgspec.json.decode(shell("tracking", "model", *WHERE).stdout)
    assert (model["module"], model["param"]) == ("HeteroLR", {"weight": {"x0": 1}})
    shell.answer("/v1/tracking/component/output/model", {})
    assert shell("tracking", "model", *WHERE).exit_code == 1


def test_components_are_listed_and_described_by_name_or_alias(shell):
    module = {
        "module": "DataTransform", "roles": ["guest", "host"], "aliases": ["DataIO"],
        "data_ports": ["data"], "outputs": ["data"], "summary": "Parses rows.",
        "parameters": {"type": "object"}, "needs_input": True,
    }  # fmt: skip
    shell.answer("/v1/component/describe", [module])
    assert "DataTransform  guest, host  Parses rows." in shell("component", "list").stdout
    assert "Parses rows." in shell("component", "describe", "dataio").stdout
    assert shell.json("component", "describe", "datatransform")["parameters"] == {"type": "object"}
    result = shell("component", "describe", "Nonsense")
    assert (result.exit_code, "'Nonsense'" in result.stderr) == (1, True)
    assert shell.server.received[0].method == "GET"


def test_version_shows_both_sides(shell):
    shell.answer("/v1/server/version/get", {"FATE": "1.11.4"})
    assert shell.json("version")["FATE"] == "1.11.4"


def test_a_request_without_keys_is_answered_with_what_a_person_can_do(shell):
    shell.refuse("/v1/server/version/get", NotAuthenticated(reason="it needs APP_KEY"))
    said = shell("version").stderr
    assert "FEDFLOW_APP_KEY and FEDFLOW_SECRET_KEY" in said
    assert "flow init --ip HOST --port PORT --app-key KEY --secret-key SECRET" in said


def test_keys_in_the_environment_sign_requests(shell):
    shell.answer("/v1/server/version/get", {})
    shell("version", env={"FEDFLOW_APP_KEY": "k", "FEDFLOW_SECRET_KEY": "s"})
    assert "SIGNATURE" in shell.server.received[0].headers


# --- connectors -----------------------------------------------------------------------------------


def test_a_bound_table_shows_where_its_rows_are(shell):
    row = {"exist": 1, "namespace": "n", "table_name": "t", "engine": "MYSQL"}
    shell.answer("/v1/table/table_info", data={**row, "address": {"host": "h"}})
    lines = shell("table", "info", "-n", "n", "-t", "t").stdout
    assert "engine      MYSQL" in lines
    assert '"host": "h"' in lines


def test_a_provider_that_replaces_another_folder_says_so(shell):
    added = {"name": "lab", "version": "1.0", "path": "/new", "python": "", "class_path": {},
             "components": ["mean"], "modules": ["Mean"], "replaced_path": "/old"}  # fmt: skip
    told = {
        "/old": "Provider lab@1.0 has Mean now. It replaces the folder /old.\n",
        "/new": "Provider lab@1.0 was read again, with Mean.\n",
        None: "Provider lab@1.0 was added with Mean.\n",
    }
    for path, sentence in told.items():
        shell.answer("/v1/provider/register", data={**added, "replaced_path": path})
        assert shell("provider", "register", "/new").stdout == sentence


def test_connectors_are_stored_listed_shown_tried_and_deleted(shell, tmp_path):
    conf = tmp_path / "c.json"
    conf.write_text('{"connector_name": "c", "engine": "MYSQL", "connector_info": {}}')
    shell.answer("/v1/table/connector/create")
    assert "stored" in shell("connector", "create", "-c", str(conf)).stdout
    assert shell.server.bodies("/v1/table/connector/create")[-1]["replace"] == 0
    shell("connector", "create", "-c", str(conf), "--replace")
    assert "replace" not in shell.server.bodies("/v1/table/connector/create")[-1]
    rows = [{"connector_name": "c", "engine": "MYSQL", "created": 5}]
    shell.answer("/v1/table/connector/list", data=rows)
    assert "MYSQL" in shell("connector", "list").stdout
    assert shell.json("connector", "list")[0]["name"] == "c"
    shell.answer("/v1/table/connector/query", data={"connector_name": "c"})
    assert shell.json("connector", "show", "c") == {"connector_name": "c"}
    shell.answer("/v1/table/connector/test", data={"columns": ["id", "x"]})
    assert shell("connector", "test", "c").stdout == "The storage of c answers.\n"
    told = shell("connector", "test", "c", "-c", str(conf)).stdout
    assert told == "The storage of c answers; what it read has the columns id, x.\n"
    shell.answer("/v1/table/connector/delete")
    assert shell("connector", "delete", "c", text="n\n").exit_code == 1
    assert shell("connector", "delete", "c", "--yes").exit_code == 0


def test_tables_are_listed_by_the_page(shell):
    row = {"namespace": "n", "table_name": "[t]", "count": 3, "origin": "upload", "enable": False}
    shell.answer("/v1/table/list/all", data={"count": 41, "tables": [row]})
    lines = shell("table", "list", "-s", "t", "-l", "20", "--page", "2").stdout.splitlines()
    assert any("[t]" in line and line.rstrip().endswith("no") for line in lines)
    assert any("of 41" in line for line in lines)
    assert shell.server.bodies("/v1/table/list/all") == [{"part": "t", "limit": 20, "offset": 20}]
    shell.answer("/v1/table/list/all", data={"count": 0, "tables": []})
    assert "no such tables" in shell("table", "list", "-n", "none").stdout


@pytest.mark.parametrize(
    ("what", "route", "empty"),
    [
        ("metrics", "metric/all", {}),
        ("output", "output/data", []),
        ("model", "output/model", {}),
        ("summary", "summary/download", None),
    ],
)
def test_results_of_another_party_are_said_to_be_at_its_server(
    shell, make_view, make_task, what, route, empty
):
    path = f"/v1/tracking/component/{route}"
    if empty is None:
        shell.refuse(path, NoData(reason="lr_0 has no summary at host 10000"))
    else:
        shell.answer(path, empty)
    task = {**make_task("host-10000", "success"), "component": "lr_0", "here": False}
    shell.answer("/v1/job/status", make_view(tasks=[task]))
    where = ("-j", "7", "-c", "lr_0", "-r", "host", "-p", "10000")
    result = shell("tracking", what, *where)
    assert result.exit_code == 1
    assert "what lr_0 made at host 10000 is at the server of party 10000" in result.stderr
