"""Components that are functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pytest
from msgspec import Meta

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import PartyId
from fedflow.components.registry import describe
from fedflow.sdk import (
    Context,
    Inputs,
    Model,
    Outputs,
    Params,
    Role,
    Site,
    Table,
    TableKind,
    TableSchema,
    component,
    spec_of,
)
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, run_component

GUEST = Site(Role.GUEST, PartyId("9999"))


@component("Mean", roles=("guest",))
def mean(
    ctx: Context,
    data: Table,
    model: Model | None = None,
    *,
    column: str = "x0",
    scale: Annotated[float, Meta(gt=0)] = 1.0,
    tags: list[str] = [],  # noqa: B006
) -> Outputs:
    """Mean of a column.

    More words.
    """
    values = data.read((column,)).column(column).to_pylist()
    tags.append("used")
    summary = {"mean": scale * sum(values) / len(values), "model": model is not None, "tags": tags}
    return Outputs(summary=summary)


def table(values: list[float]) -> Table:
    schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("x0",))
    with MemoryTableStore().create(schema) as writer:
        writer.write(pa.table({"id": [str(n) for n in range(len(values))], "x0": values}))
        return writer.close()


def run(offered: Any, folder: Path, inputs: Inputs | None = None, **params: Any) -> RunResult:
    given = {GUEST: inputs} if inputs is not None else None
    results = run_component(
        offered, sites=(GUEST,), work_dir=folder, inputs=given, params={GUEST: params}
    )
    return results[GUEST]


def with_data(*values: float, **more: Any) -> Inputs:
    return Inputs(data={"data": [("a", table(list(values)))]}, model=more)


def test_the_signature_is_the_description() -> None:
    described = describe(spec_of(mean))
    assert (described["module"], described["summary"]) == ("Mean", "Mean of a column.")
    assert described["data_ports"] == ["data"]
    assert described["needs_input"] is True
    assert described["defaults"] == {"column": "x0", "scale": 1.0, "tags": []}
    assert "exclusiveMinimum" in str(described["parameters"])


def test_it_is_called_with_tables_model_and_parameters(tmp_path: Path) -> None:
    outputs = run(mean, tmp_path, with_data(1.0, 3.0), scale=2.0).outputs
    assert outputs is not None
    assert outputs.summary == {"mean": 4.0, "model": False, "tags": ["used"]}
    model = Model(meta_name="AMeta", param_name="AParam", meta={}, param={})
    outputs = run(mean, tmp_path, with_data(1.0, lr_0=model)).outputs
    assert outputs is not None
    assert outputs.summary["model"] is True
    assert outputs.summary["tags"] == ["used"]


@pytest.mark.parametrize(
    ("params", "inputs", "kind"),
    [
        ({"scale": 0}, with_data(1.0), BadParameter),
        ({"colunm": "x"}, with_data(1.0), BadParameter),
        ({}, None, BadData),
    ],
)
def test_wrong_parameters_and_missing_inputs_are_refused(
    tmp_path: Path, params: Any, inputs: Inputs | None, kind: type[FedflowError]
) -> None:
    assert isinstance(run(mean, tmp_path, inputs, **params).error, kind)


def test_a_table_or_tables_or_nothing_may_be_returned(tmp_path: Path) -> None:
    one, two = table([1.0]), table([2.0])
    given: dict[str, Any] = {"nothing": None, "one": one, "more": (one, None, two)}

    @component("Gives", roles=("guest",))
    def gives(ctx: Context, *, what: str) -> Any:
        """Give something."""
        return given[what]

    assert spec_of(gives).needs_input is False
    for what, data in (("nothing", ()), ("one", (one,)), ("more", (one, None, two))):
        outputs = run(gives, tmp_path, what=what).outputs
        assert outputs is not None
        assert outputs.data == data


def test_what_is_no_component_is_refused_when_it_is_declared() -> None:
    declare = component("Odd", roles=("guest",))

    def no_context() -> None: ...
    def untyped(ctx: Context, *, x=1) -> None: ...  # type: ignore[no-untyped-def]
    def odd_input(ctx: Context, table: Table) -> None: ...
    def odd_type(ctx: Context, *, x: Path) -> None: ...
    def unknown_type(ctx: Context, *, x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function in (no_context, untyped, odd_input, odd_type, unknown_type):
        with pytest.raises(ValueError, match="Odd: "):
            declare(function)
    with pytest.raises(ValueError, match="by keyword"):
        component("Odd", roles=("guest",), params=Params)(mean)
    with pytest.raises(ValueError, match="needs `params`"):
        declare(type("C", (), {}))
    with pytest.raises(ValueError, match="not declared"):
        spec_of(odd_type)
