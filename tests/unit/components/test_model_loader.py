"""ModelLoader, ModelStore and ModelRestore: parameters, and what they make of what they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.base.ids import PartyId
from fedflow.components.io.model_loader import ModelLoader, ModelLoaderParams
from fedflow.components.io.model_store import ModelRestore, ModelStore
from fedflow.domain.site import Role, Site
from fedflow.sdk import Context, Inputs, Model, Outputs, component, spec_of
from fedflow.sdk.params import check_params
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.run import outputs_of, run_component

GUEST = Site(Role.GUEST, PartyId("9999"))
LOCAL = Site(Role.LOCAL, PartyId("0"))
NAMED = {"model_id": "m", "model_version": "1", "component_name": "hetero_lr_0"}
SHARE = {"role": "guest", "party_id": "9999", "model_id": "m", "model_version": "1"}
MODEL = Model(meta_name="LRMeta", param_name="LRParam", meta={"a": 1}, param={"w": 2})


def load(tmp_path: Path, params: Mapping[str, Any], *models: Model) -> Any:
    inputs = Inputs(data={}, model={f"c{i}": m for i, m in enumerate(models)})
    return run_component(
        ModelLoader, sites=(GUEST,), work_dir=tmp_path, params={GUEST: params},
        inputs={GUEST: inputs},
    )  # fmt: skip


def test_the_model_that_the_server_gave_is_the_output(tmp_path: Path) -> None:
    results = load(tmp_path, {**NAMED, "step_index": 3}, MODEL)
    assert outputs_of(results)[GUEST].model == MODEL
    info = results[GUEST].metrics["model_loader", "component_model"]
    assert (info.meta["model_version"], info.meta["step_index"]) == ("1", 3)


def test_without_a_model_it_fails_clearly(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="no stored model"):
        outputs_of(load(tmp_path, NAMED))


def test_it_can_be_left_out(tmp_path: Path) -> None:
    assert outputs_of(load(tmp_path, {"need_run": False}))[GUEST] == Outputs(passed=True)


@pytest.mark.parametrize(
    "params",
    [
        {"model_id": ""}, {"model_id": None}, {"component_name": ""},
        {"step_index": 1, "step_name": "s"}, {"step_index": -1}, {"step_index": "x"},
    ],
)  # fmt: skip
def test_parameters_that_name_no_model_are_refused(params: Mapping[str, Any]) -> None:
    with pytest.raises(BadParameter) as caught:
        check_params(ModelLoaderParams, {**NAMED, **params}, path="$")
    ((path, _),) = caught.value.mistakes
    assert path == f"$.{next(iter(params))}"


@pytest.mark.parametrize("params", [{}, {**NAMED, "unknown": 1}])
def test_missing_and_unknown_parameters_are_refused(params: Mapping[str, Any]) -> None:
    with pytest.raises(BadParameter):
        check_params(ModelLoaderParams, params, path="$")


@pytest.mark.parametrize("kind", [ModelStore, ModelRestore])
def test_the_store_is_there_in_a_server_only(tmp_path: Path, kind: type[Any]) -> None:
    results = run_component(kind, sites=(LOCAL,), work_dir=tmp_path, params={LOCAL: SHARE})
    with pytest.raises(NotSupportedYet):
        outputs_of(results)


def test_the_summary_tells_what_was_copied(tmp_path: Path) -> None:
    class Access:
        def store(self) -> Mapping[str, Any]:
            return {"sha256": "ab", "size_bytes": 1}

        def restore(self) -> Mapping[str, Any]:
            return {"sha256": "cd", "size_bytes": 2}

    def summary_of(kind: type[Any]) -> Mapping[str, Any]:
        spec = spec_of(kind)

        @component("Wrapped", roles=("local",), params=spec.params, data_ports=(), outputs=())
        class Wrapped:
            """The component with a store."""

            def run(self, ctx: Context) -> Outputs:
                outputs: Outputs = kind().run(replace(ctx, model_store=Access()))
                return outputs

        results = run_component(Wrapped, sites=(LOCAL,), work_dir=tmp_path, params={LOCAL: SHARE})
        return outputs_of(results)[LOCAL].summary

    assert summary_of(ModelStore) == {"sha256": "ab", "size_bytes": 1}
    assert summary_of(ModelRestore) == {"sha256": "cd", "size_bytes": 2}


def test_checkpoints_in_memory_follow_the_rule_of_attempts() -> None:
    checkpoints = MemoryCheckpoints()
    for index in range(3):
        checkpoints.save(index, f"s{index}", MODEL)
    checkpoints.begin()
    checkpoints.save(1, "again", MODEL)
    assert checkpoints.steps() == [(0, "s0"), (1, "again")]
