"""The predict DSL of a trained job: which components stay, and where they take models and data.

A component that stays reads its own stored model (`pipeline.<component>.<model>`) and takes data on
one port, `data` or `test_data`. A component that goes is bypassed: whoever took its output takes
what it took itself. Source: `docs/reference/jobs.md#predict-dsl`, with these differences:
`eval_data` alone is data too; a list never names one reference twice; a cache that no component of
the predict DSL makes is a mistake, and not left dangling; a component keeps its provider.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from fedflow.base.values import dataclass
from fedflow.domain.job.dag import Dag
from fedflow.domain.job.document import (
    JsonObject,
    Report,
    check_document,
    child,
    copy_object,
    shown,
)
from fedflow.domain.job.dsl import EXTERNAL, STORED, Component, edges_of, parse_dsl

EVAL_DATA: Final = f"{EXTERNAL}.eval_data"  #: what each `args.` reference becomes in version 1

_NOT_DEPLOYED: Final = frozenset({"evaluation", "federatedsample", "psi"})
_PORTS: Final = ("data", "train_data", "validate_data", "test_data", "eval_data")
"""The first port that a component uses gives its data for predicting."""
_BYPASS_PORTS: Final = ("train_data", "eval_data", "test_data", "data", "validate_data")
"""The first reference of the first of these stands for the outputs of a component that goes."""
_PATH: Final = "$.dsl.components"


def deduce_predict_dsl(
    train_dsl: object,
    deployed: Sequence[str] | None = None,
    *,
    version: int = 2,
    keeps: Mapping[str, bool] | None = None,
) -> JsonObject:
    """Return the predict DSL of a checked training DSL, components in topological order.

    The components named in `deployed` stay. None means all in version 2; in version 1 a component's
    own `need_deploy` decides then, else its module's default: `keeps` by lower-case module name,
    and what FATE's modules say for those it does not name. A job that was converted from version 1
    (`conf.given_version`) counts as one. Data that nothing is left to give is left out; a predict
    job names the place when it is checked.

    Raises: InvalidJobSpec: the DSL is wrong, `deployed` names no or an unknown component (path
    `$.cpn_list`), or a cache would dangle.
    """
    report = Report()
    check_document(train_dsl, "$.dsl", report=report)
    report.raise_if_any()
    components = parse_dsl(train_dsl, report, version=version)
    report.raise_if_any()
    names = {c.name for c in components}
    if deployed is not None:
        kept = _listed(deployed, names, report=report)
    elif version == 1:
        kept = {c.name for c in components if _needs_deploy(c, keeps or {})}
    else:
        kept = names
    if not kept:
        message = "no component is left to predict with"
        report.problem(_PATH, message, rule="DeployComponentNotExistError")
    report.raise_if_any()
    given: Any = train_dsl
    walk = _Walk(raw=given["components"], kept=kept, version=version, report=report)
    dag = Dag(names=tuple(c.name for c in components), edges=edges_of(components))
    predict: dict[str, object] = {"components": walk.run(dag.order)}
    if "provider" in given:
        predict["provider"] = given["provider"]
    report.raise_if_any()
    return predict


def _needs_deploy(component: Component, keeps: Mapping[str, bool]) -> bool:
    if component.need_deploy is not None:
        return component.need_deploy
    module = component.module.lower()
    return keeps.get(module, module not in _NOT_DEPLOYED)


def _listed(deployed: Sequence[str], names: Collection[str], *, report: Report) -> set[str]:
    for i, name in enumerate(deployed):
        if not isinstance(name, str) or name not in names:
            message = f"there is no component {shown(name)} in the training DSL"
            report.problem(f"$.cpn_list[{i}]", message, rule="DeployComponentNotExistError")
    if not deployed:
        message = "names no component"
        report.problem("$.cpn_list", message, rule="DeployComponentNotExistError")
    return {name for name in names if name in deployed}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Walk:
    """One pass over the components of a checked DSL, each after those that it takes from."""

    raw: Mapping[str, Mapping[str, Any]]
    kept: Collection[str]
    version: int
    report: Report
    bypasses: dict[str, list[str]] = field(default_factory=dict)
    """Output of a component that went -> the references that stand for it."""

    def run(self, order: Sequence[str]) -> dict[str, object]:
        predict: dict[str, object] = {}
        for name in order:
            if name in self.kept:
                predict[name] = self._kept(name)
            else:
                self._bypass(name)
        return predict

    def _kept(self, name: str) -> dict[str, object]:
        raw = self.raw[name]
        outputs = copy_object(raw.get("output") or {})
        models = outputs.pop("model", None)
        entry: dict[str, object] = {"module": raw["module"]}
        inputs: dict[str, object] = {}
        if isinstance(models, list) and models:
            inputs["model"] = [f"{STORED}.{name}.{model}" for model in models]
        data = self._data(raw)
        if data:
            inputs["data"] = data
        caches = (raw.get("input") or {}).get("cache")
        if caches:
            self._check_caches(name, caches)
            inputs["cache"] = list(caches)
        if inputs:
            entry["input"] = inputs
        if outputs:
            entry["output"] = outputs
        if raw.get("provider") is not None:
            entry["provider"] = raw["provider"]
        return entry

    def _data(self, raw: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the one data port of a component that stays, none if nothing is left for it."""
        port, refs = _first_port(raw, _PORTS)
        found = list(dict.fromkeys(ref for given in refs for ref in self._resolve(given)))
        return {"data" if port == "data" else "test_data": found} if found else {}

    def _resolve(self, ref: str) -> list[str]:
        """Return what a reference of the training DSL becomes."""
        component = ref.partition(".")[0]
        if self.version == 1 and component == EXTERNAL:
            return [EVAL_DATA]
        return [ref] if component in self.kept else self.bypasses.get(ref, [])

    def _bypass(self, name: str) -> None:
        """Remember for each data output of a component that goes what stands for it."""
        _, refs = _first_port(self.raw[name], _BYPASS_PORTS)
        if refs:
            for output in (self.raw[name].get("output") or {}).get("data", ()):
                self.bypasses[f"{name}.{output}"] = self._resolve(refs[0])

    def _check_caches(self, name: str, refs: Sequence[str]) -> None:
        for i, ref in enumerate(refs):
            if ref.partition(".")[0] not in self.kept:
                message = f"{shown(ref)} is a cache of a component that is not deployed"
                path = f"{child(_PATH, name)}.input.cache[{i}]"
                self.report.problem(path, message, rule="InputComponentNotExistError")


def _first_port(raw: Mapping[str, Any], ports: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the first of `ports` that has references, and these."""
    data = (raw.get("input") or {}).get("data") or {}
    return next(((port, data[port]) for port in ports if data.get(port)), ("", ()))
