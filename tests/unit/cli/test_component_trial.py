"""`fedflow component test`: a component run on files, without a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fedflow.base.errors.components import RefusedAsStrict
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.main import cli
from fedflow.sdk import (
    BadData,
    Context,
    Doubt,
    Model,
    Outputs,
    Params,
    Role,
    Site,
    Table,
    component,
)
from fedflow.testing.run import run_component

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


def test_an_error_is_shown_with_its_line_and_the_authors_frames_only() -> None:
    here = Path(__file__).name
    result = run(f"{__name__}:fail", "--params", '{"how": "crash"}')
    assert result.exit_code == CliExitCode.JOB_FAILED
    assert "ZeroDivisionError: division by zero" in result.output
    assert "ratio = 1 / zero" in result.output
    assert "fedflow/testing/run.py" not in result.output
    result = run(f"{__name__}:fail", "--params", '{"how": "refuse"}')
    assert f"BadData: cell: it is bad. ({here}, line " in result.output
    assert "Traceback" not in result.output
    result = run(f"{__name__}:fail", "--params", '{"how": "rubbish"}')
    assert "it returned a dict, not Outputs" in result.output


def test_outputs_are_checked_as_a_server_does() -> None:
    result = run(f"{__name__}:fail", "--params", '{"how": "nan"}')
    assert result.exit_code == CliExitCode.JOB_FAILED
    assert "guest 9999: failed" in result.output
    assert "its summary is not plain JSON: auc is nan" in result.output
    assert "fedflow/testing/run.py" not in result.output


def test_what_is_doubtful_in_parameters_and_data_is_shown() -> None:
    words = (f"{__name__}:Doubted", "--params", '{"seed": 3}')
    found = shown(*words)["guest-9999"]["warnings"]
    assert [(one["path"], one["code"]) for one in found] == [
        ("doubted_0.seed", "NoEffect"), ("doubted_0.data", "OddRows"),
    ]  # fmt: skip
    text = run(*words).stdout
    assert "warning: doubted_0.seed: it is ignored, 0 is used (NoEffect) Take it out" in text


def test_a_strict_run_refuses_doubtful_parameters(tmp_path: Path) -> None:
    guest = Site(Role.GUEST, "9999")
    results = run_component(
        Doubted, sites=[guest], work_dir=tmp_path, params={guest: {"seed": 3}}, strict=True
    )
    assert isinstance(results[guest].error, RefusedAsStrict)
    assert "it is ignored" in str(results[guest].error)


def test_a_run_that_waits_for_ever_says_in_which_line() -> None:
    result = run(f"{__name__}:fail", "--params", '{"how": "wait"}', "--timeout", 0.5)
    assert result.exit_code == CliExitCode.JOB_FAILED
    assert "still running after 0.5 s: guest 9999" in result.output
    assert f"({Path(__file__).name}, line " in result.output
    told = shown(f"{__name__}:fail", "--params", '{"how": "wait"}', "--timeout", 0.5, code=3)
    assert "still running" in told["error"]


def test_what_a_component_logs_and_prints_goes_to_stderr() -> None:
    result = run(f"{__name__}:fail", "--params", '{"how": "talk"}', "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["guest-9999"]["summary"] == {}
    assert "guest 9999 INFO two rows" in result.stderr
    assert "printed" in result.stderr


def test_a_model_is_trained_and_then_used(tmp_path: Path) -> None:
    path = file(tmp_path, "id,x0\na,1\nb,3\n")
    other = file(tmp_path / "..", "id,x0\na,5\n")
    told = shown(
        f"{__name__}:TrainMean", "--data", f"guest={path}", "--data",
        f"guest:validate_data={other}", "--predict",
    )["guest-9999"]  # fmt: skip
    assert told["model"]["TrainMeanParam"] == {"mean": 2.0}
    assert told["summary"] == {"ports": ["train_data", "validate_data"]}
    assert told["predict"]["summary"] == {"mean": 2.0, "ports": ["test_data"]}


def test_ports_and_prediction_are_those_of_the_module() -> None:
    for words, message in (
        (("Look", "--predict"), "Look takes no test_data"),
        (("Look", "--port", "train_data"), "Look has no port train_data, but data"),
        (("TrainMean", "--data", "guest:other=x.csv"), "has no port other"),
    ):
        name = {"Look": "look"}.get(words[0], words[0])
        result = run(f"{__name__}:{name}", *words[1:])
        assert result.exit_code == CliExitCode.USAGE
        assert message in result.output


def test_the_trainable_example_runs_with_the_example_data() -> None:
    params = '{"epochs": 1, "measure_every": 1, "key_bits": 1024}'
    told = shown("RidgeRegression", "--provider", EXAMPLE, "--params", params, "--predict")
    guest = told["guest-9999"]
    assert guest["data"][0]["rows"] == guest["predict"]["data"][0]["rows"] == 569
    assert guest["metrics"]["train/loss"]["type"] == "LOSS"
    assert told["arbiter-10000"]["model"] is None
    assert told["host-10000"]["model"]["RidgeRegressionMeta"]["epochs"] == 1


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


@component("Fail", roles=("guest",))
def fail(ctx: Context, data: Table, *, how: str) -> Any:
    """Fail as told."""
    if how == "crash":
        zero = 0
        ratio = 1 / zero
        return Outputs(summary={"ratio": ratio})
    if how == "refuse":
        raise BadData(where="cell", reason="it is bad")
    if how == "rubbish":
        return {"no": "outputs"}
    if how == "nan":
        return Outputs(summary={"auc": float("nan")})
    if how == "wait":
        ctx.federation.recv("never", from_=ctx.only(Role.GUEST), timeout_s=600.0)
    ctx.log.info("%s rows", "two")
    print("printed")
    return None


class DoubtedParams(Params, frozen=True, kw_only=True):
    """One that may have no effect."""

    seed: int = 0

    def doubts(self) -> list[Doubt]:
        return [Doubt("seed", "it is ignored, 0 is used")] if self.seed else []


@component("Doubted", roles=("guest",), params=DoubtedParams)
class Doubted:
    """Warn of its data."""

    def run(self, ctx: Context) -> Outputs:
        ctx.warn("OddRows", "2 rows are odd; they are used", path="data")
        return Outputs()


class NoParams(Params, frozen=True, kw_only=True):
    """None."""


@component(
    "TrainMean",
    roles=("guest",),
    params=NoParams,
    data_ports=("train_data", "validate_data", "test_data"),
    outputs=("model",),
)
class TrainMean:
    """Learn a mean."""

    def run(self, ctx: Context) -> Outputs:
        ports = sorted(ctx.inputs.data)
        table = ctx.inputs.first("train_data")
        if table is None:
            (model,) = ctx.inputs.model.values()
            return Outputs(summary={**model.param, "ports": ports})
        mean = table.read(("x0",)).column(0).to_numpy().mean().item()
        names = {"meta_name": "TrainMeanMeta", "param_name": "TrainMeanParam"}
        return Outputs(
            model=Model(**names, meta={}, param={"mean": mean}), summary={"ports": ports}
        )
