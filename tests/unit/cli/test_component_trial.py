"""`fedflow component test`: a component run on files, without a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.main import cli
from fedflow.sdk import Context, Outputs, Table, component

EXAMPLE = Path(__file__).parents[3] / "examples" / "provider"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["component", "test", *map(str, words)])


def shown(*words: object, code: int = 0) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def file(folder: Path, text: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_provider_component_runs_on_given_files(tmp_path: Path) -> None:
    path = file(tmp_path, "id,y,x0,x1\na,1,5,6\nb,0,-5,0.5\n")
    told = shown(
        "clipvalues", "--provider", EXAMPLE, "--data", f"guest={path}",
        "--params", '{"upper": 2}', "--params", 'guest={"lower": -1}', "--site", "guest",
    )  # fmt: skip
    (table,) = told["guest-9999"]["data"]
    assert table["columns"] == ["id", "y", "x0", "x1"]
    assert table["head"] == [["a", 1.0, 2.0, 2.0], ["b", 0.0, -1.0, 0.5]]
    assert told["guest-9999"]["summary"] == {"columns": 2, "rows": 2}


def test_without_files_the_example_data_are_taken_at_all_roles(tmp_path: Path) -> None:
    told = shown("CompareMeans", "--provider", EXAMPLE, "--rows", 1)
    assert set(told) == {"guest-9999", "host-10000"}
    assert told["guest-9999"]["data"][0]["rows"] == 569
    assert told["guest-9999"]["metrics"]["compare/means"]["type"] == "TABLE"
    text = run("CompareMeans", "--provider", EXAMPLE, "--rows", 1).output
    assert "host 10000: success" in text
    assert "569 rows x 21 columns" in text


def test_raw_tables_hold_text(tmp_path: Path) -> None:
    path = file(tmp_path, "id,x0\na,NA\n")
    told = shown(
        "tests.unit.cli.test_component_trial:look", "--raw", "--data", f"guest={path}"
    )  # fmt: skip
    assert told["guest-9999"]["summary"] == {"kind": "raw", "cell": "NA"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--params", '{"upper": "x"}'), "$.upper: Expected `float`"),
        (("--params", '{"columns": ["x99"]}'), "no columns x99"),
    ],
)
def test_a_failure_is_told_per_site_with_its_exit_code(
    words: tuple[str, ...], message: str
) -> None:
    result = run("ClipValues", "--provider", EXAMPLE, *words)
    assert result.exit_code == CliExitCode.JOB_FAILED
    assert "guest 9999: failed" in result.output
    assert message in result.output


def test_a_crash_shows_its_traceback() -> None:
    result = run("tests.unit.cli.test_component_trial:look", "--site", "guest")
    assert result.exit_code == CliExitCode.JOB_FAILED
    assert "Traceback" in result.output
    assert "no raw table" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--site", "arbiter"), "does not run at arbiter"),
        (("--site", "nobody"), "is no site"),
        (("--data", "guest"), "SITE=FILE"),
        (("--params", "{"), "is no JSON"),
        (("--params", "[]"), "is no JSON object"),
        (("--params", "@no/such/file"), "No such file"),
        (("--params", "host-7={}"), "does not run it"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(words: tuple[str, ...], message: str) -> None:
    result = run("ClipValues", "--provider", EXAMPLE, *words)
    assert result.exit_code == CliExitCode.USAGE
    assert message in result.output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoSuchModule", "No component module"),
        ("json:loads", "loads is not declared with @component"),
        ("json:nothing", "no attribute 'nothing'"),
        ("no_such_package.x:y", "No module named 'no_such_package'"),
    ],
)
def test_what_is_no_component_is_told(name: str, words: str) -> None:
    result = run(name)
    assert result.exit_code == CliExitCode.ERROR
    assert words in result.output


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("\nraise RuntimeError('broken')", "RuntimeError: broken (broken_lab.py, line 2)"),
        ("import no_such_package", "No module named 'no_such_package' (broken_lab.py, line 1)"),
        ("COMPONENTS = ()", "holds no component"),
    ],
)
def test_a_folder_that_cannot_be_imported_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "broken_lab", raising=False)
    (tmp_path / "broken_lab.py").write_text(code, encoding="utf-8")
    manifest = {"name": "lab", "version": "1", "components": "broken_lab:COMPONENTS"}
    (tmp_path / "provider.json").write_text(json.dumps(manifest), encoding="utf-8")
    result = run("Lab", "--provider", tmp_path)
    assert result.exit_code == CliExitCode.ERROR
    assert words in result.output
    assert "defect" not in result.output


def test_a_file_that_is_no_table_is_told(tmp_path: Path) -> None:
    for text in ("", "id,x0\na,b\n"):
        path = file(tmp_path, text)
        result = run("ClipValues", "--provider", EXAMPLE, "--data", f"guest={path}")
        assert result.exit_code == CliExitCode.ERROR, result.output


@component("Look", roles=("guest",))
def look(ctx: Context, data: Table) -> Outputs:
    """Look at a raw table."""
    if data.schema.kind.value != "raw":
        raise RuntimeError("no raw table")
    cell = data.read().column("x0")[0].as_py()
    return Outputs(summary={"kind": data.schema.kind.value, "cell": cell})
