"""Reading a DSL: from a submitted object to `Component` values.

Version 2 is what jobs are made of; of version 1 only the references differ (`args.<key>`), and
`formats` converts it. A predict DSL may name models of a deployed version, `pipeline.<component>.
<model>`: they are no edges, whoever starts the component fetches them.

Rules and the class names in `rule` are FATE's (`docs/reference/jobs.md#validation-rules`). Unknown
members and ports and repeated references are ignored as there, with a warning. Stricter here: names
of model and cache outputs and repeated output names are mistakes, as the job would fail later or
lose a table; their rules are our own words (`DuplicateOutputName`, `RefFormatError`,
`LimitExceeded`, and `NamingFormatError` for outputs).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, Literal

from fedflow.base.values import dataclass
from fedflow.domain.job.dag import find_cycle
from fedflow.domain.job.document import MAX_NAME, JsonObject, Report, child, cut, kind_of, shown

MAX_COMPONENTS: Final = 5_000
DATA_PORTS: Final = ("data", "train_data", "validate_data", "test_data", "eval_data")
OUTPUT_KINDS: Final = ("data", "model", "cache")
STORED: Final = "pipeline"  #: first part of a reference to a model of a deployed version
EXTERNAL: Final = "args"  #: first part of a reference to data that a conf of version 1 names

Mode = Literal["train", "predict"]

_DSL_MEMBERS: Final = ("components", "provider")
_COMPONENT_MEMBERS: Final = ("module", "input", "output", "provider", "need_deploy", "CodePath")
_REF_KINDS: Final = {"model": "model", "isometric_model": "model", "cache": "cache"}
"""Input members that are a list of references, and the kind of output that they name."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PATH: Final = "$.dsl.components"

_Outputs = Mapping[str, tuple[str, ...]]  # kind -> declared names
_Source = Literal["component", "stored", "external"]


@dataclass(frozen=True, slots=True)
class Ref:
    """One output of a component: `component.output`."""

    component: str
    output: str

    def __str__(self) -> str:
        return f"{self.component}.{self.output}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One component of a job: what it runs, takes and gives."""

    name: str
    module: str  #: as written in the DSL
    data: Mapping[str, tuple[Ref, ...]] = field(default_factory=dict)  #: by port; no empty ones
    model: tuple[Ref, ...] = ()
    isometric_model: tuple[Ref, ...] = ()
    cache: tuple[Ref, ...] = ()
    data_outputs: tuple[str, ...] = ()  #: position of a name = position of the table
    model_outputs: tuple[str, ...] = ()
    cache_outputs: tuple[str, ...] = ()
    provider: str | None = (
        None  #: `name` or `name@version`; the DSL's default if it has none itself
    )
    need_deploy: bool | None = None  #: kept in the predict DSL (version 1 only); None = not said
    stored_models: tuple[Ref, ...] = ()  #: of the deployed version, `component.model`; no edges
    external: tuple[str, ...] = ()  #: keys of `args.key`: data that a conf of version 1 names

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Return every reference of the inputs: data by port, models, isometric models, caches."""
        data = (ref for refs in self.data.values() for ref in refs)
        return (*data, *self.model, *self.isometric_model, *self.cache)


def parse_dsl(
    dsl: object, report: Report, *, mode: Mode = "train", version: int = 2
) -> tuple[Component, ...]:
    """Return the components without mistakes, in declaration order; mistakes go to `report`.

    `mode` predict allows `pipeline.` references as models, version 1 `args.` references as data.
    """
    declared = declared_components(dsl, report)
    if not declared or not isinstance(dsl, dict):
        return ()
    report.warn_of_unknown(dsl, _DSL_MEMBERS, path="$.dsl")
    default_provider = read_provider(dsl.get("provider"), "$.dsl.provider", report=report)
    outputs: dict[str, _Outputs | None] = {}
    faulty: set[str] = set()
    for name, raw in declared.items():
        before = report.found
        outputs[name] = _outputs(raw, child(_PATH, name), report=report)
        if report.found > before:
            faulty.add(name)
    components: list[Component] = []
    edges: list[tuple[str, str]] = []
    for name, raw in declared.items():
        before = report.found
        inputs = _Inputs(owner=name, outputs=outputs, report=report, mode=mode, version=version)
        component = _component(name, raw, inputs=inputs)
        if component is None:
            continue
        edges += ((ref.component, name) for ref in component.refs)
        if report.found == before and name not in faulty:
            provider = component.provider or default_provider
            components.append(replace(component, provider=provider))
    cycle = find_cycle(tuple(declared), edges)
    if cycle is not None:
        report.problem(_PATH, f"there is a cycle: {_chain(cycle)}", rule="LoopError")
    return tuple(components)


def declared_components(dsl: object, report: Report) -> JsonObject | None:
    """Return `dsl.components` if there are any and not too many, or record why not."""
    if not isinstance(dsl, dict) or not dsl:
        what = "is empty" if dsl == {} else f"must be an object, not {kind_of(dsl)}"
        report.problem("$.dsl", what, rule="DSLNotExistError")
        return None
    components = dsl.get("components")
    if not isinstance(components, dict) or not components:
        message = "must be an object with at least one component"
        report.problem(_PATH, message, rule="ComponentFieldNotExistError")
        return None
    if len(components) > MAX_COMPONENTS:
        message = f"{len(components)} components, at most {MAX_COMPONENTS} are allowed"
        report.problem(_PATH, message, rule="LimitExceeded")
        return None
    return components


def edges_of(components: Iterable[Component]) -> tuple[tuple[str, str], ...]:
    """Return the edges (upstream, downstream), one for each reference."""
    return tuple((ref.component, c.name) for c in components for ref in c.refs)


def read_provider(value: object, path: str, *, report: Report) -> str | None:
    """Return a provider `name` or `name@version`, None if there is none or it is not one."""
    if value is None:
        return None
    if not isinstance(value, str):
        report.problem(path, f"must be a string, not {kind_of(value)}", rule="ValueError")
    elif not re.fullmatch(r"[^@\s]+(@[^@\s]+)?", value) or len(value) > MAX_NAME:
        message = f"{shown(value)} is not `name` or `name@version`"
        report.problem(path, message, rule="ValueError")
    else:
        return value
    return None


def _chain(cycle: Sequence[str]) -> str:
    shortened = cycle if len(cycle) <= 20 else (*cycle[:10], "...", *cycle[-2:])
    return "->".join(shortened)


def _outputs(raw: object, path: str, *, report: Report) -> _Outputs | None:
    """Return the declared output names by kind, or None if they cannot be known."""
    if not isinstance(raw, dict):
        return None
    if "output" not in raw:
        return {}
    path = f"{path}.output"
    output = report.expect_object(raw["output"], path, rule="ComponentOutputTypeError")
    if output is None:
        return None
    report.warn_of_unknown(output, OUTPUT_KINDS, path=path)
    names: dict[str, tuple[str, ...]] = {}
    before = report.found
    for kind in OUTPUT_KINDS:
        if kind in output:
            names[kind] = _output_names(output[kind], f"{path}.{kind}", report=report)
    return names if report.found == before else None


def _output_names(value: object, path: str, *, report: Report) -> tuple[str, ...]:
    if not isinstance(value, list):
        message = f"must be a list of names, not {kind_of(value)}"
        report.problem(path, message, rule="ComponentOutputKeyTypeError")
        return ()
    names: dict[str, None] = {}
    for i, name in enumerate(value):
        fault = name_fault(name)
        if fault is not None:
            report.problem(f"{path}[{i}]", fault, rule="NamingFormatError")
        elif name in names:
            message = f"{shown(name)} is declared twice"
            report.problem(f"{path}[{i}]", message, rule="DuplicateOutputName")
        else:
            names[name] = None
    return tuple(names)


def _component(name: str, raw: object, *, inputs: _Inputs) -> Component | None:
    """Return the component as far as it can be read, None if nothing of it can."""
    report = inputs.report
    path = child(_PATH, name)
    fault = name_fault(name)
    if fault is not None:
        report.problem(path, fault, rule="NamingFormatError")
    if not isinstance(raw, dict):
        message = f"must be an object with a module, not {kind_of(raw)}"
        report.problem(path, message, rule="ModuleFieldNotExistError")
        return None
    report.warn_of_unknown(raw, _COMPONENT_MEMBERS, path=path)
    module = raw.get("module")
    if not isinstance(module, str) or not module or len(module) > MAX_NAME:
        message = f"must name a module, at most {MAX_NAME} characters"
        report.problem(f"{path}.module", message, rule="ModuleFieldNotExistError")
        module = ""
    data, lists = inputs.read(raw.get("input"), f"{path}.input")
    taken = [t for refs in (*data.values(), *lists.values()) for t in refs]
    own = inputs.outputs[name] or {}
    need_deploy = raw.get("need_deploy")
    return Component(
        name=name,
        module=module,
        data={port: refs for port, found in data.items() if (refs := _of_components(found))},
        model=_of_components(lists.get("model", ())),
        isometric_model=_of_components(lists.get("isometric_model", ())),
        cache=_of_components(lists.get("cache", ())),
        data_outputs=own.get("data", ()),
        model_outputs=own.get("model", ()),
        cache_outputs=own.get("cache", ()),
        provider=read_provider(raw.get("provider"), f"{path}.provider", report=report),
        need_deploy=need_deploy if isinstance(need_deploy, bool) else None,
        stored_models=tuple(dict.fromkeys(t.ref for t in taken if t.source == "stored")),
        external=tuple(dict.fromkeys(t.ref.output for t in taken if t.source == "external")),
    )


@dataclass(frozen=True, slots=True)
class _Taken:
    """One reference of an input, and what its first part names."""

    ref: Ref
    source: _Source = "component"


def _of_components(taken: Iterable[_Taken]) -> tuple[Ref, ...]:
    return tuple(t.ref for t in taken if t.source == "component")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Inputs:
    """Reads the `input` member of one component."""

    owner: str
    outputs: Mapping[str, _Outputs | None]  # of all components
    report: Report
    mode: Mode
    version: int

    def read(
        self, value: object, path: str
    ) -> tuple[dict[str, tuple[_Taken, ...]], dict[str, tuple[_Taken, ...]]]:
        """Return (references by data port, references by other kind of input)."""
        if value is None:
            return {}, {}
        members = self.report.expect_object(value, path, rule="ComponentInputTypeError")
        if members is None:
            return {}, {}
        self.report.warn_of_unknown(members, ("data", *_REF_KINDS), path=path)
        lists = {
            member: self._refs(members[member], f"{path}.{member}", kind=kind)
            for member, kind in _REF_KINDS.items()
            if member in members
        }
        data = self._data(members["data"], f"{path}.data") if "data" in members else {}
        return data, lists

    def _data(self, value: object, path: str) -> dict[str, tuple[_Taken, ...]]:
        ports = self.report.expect_object(value, path, rule="ComponentInputDataTypeError")
        data: dict[str, tuple[_Taken, ...]] = {}
        for port, refs in (ports or {}).items():
            at = child(path, port)
            if port not in DATA_PORTS:
                message = f"unknown port, nothing reads it; known are {', '.join(DATA_PORTS)}"
                self.report.warn(at, message, code="UnknownPort")
                continue
            data[port] = self._refs(refs, at, kind="data")
        return data

    def _refs(self, value: object, path: str, *, kind: str) -> tuple[_Taken, ...]:
        if not isinstance(value, list):
            message = f"must be a list of references, not {kind_of(value)}"
            self.report.problem(path, message, rule="ComponentInputValueTypeError")
            return ()
        found: dict[_Taken, None] = {}
        for i, text in enumerate(value):
            taken = self._taken(text, f"{path}[{i}]", kind=kind)
            if taken in found:
                message = f"{shown(text)} is listed twice; it is taken once"
                self.report.warn(f"{path}[{i}]", message, code="DuplicateInput")
            elif taken is not None:
                found[taken] = None
        return tuple(found)

    def _taken(self, text: object, path: str, *, kind: str) -> _Taken | None:
        """Return what one reference names, or record that it is none."""
        first, *rest = text.split(".") if isinstance(text, str) else ("",)
        if self.mode == "predict" and kind == "model" and first == STORED and len(rest) == 2:
            if all(name_fault(part) is None for part in rest):
                return _Taken(Ref(*rest), "stored")
        elif self.version == 1 and kind == "data" and first == EXTERNAL and len(rest) == 1:
            if name_fault(rest[0]) is None:
                return _Taken(Ref(first, rest[0]), "external")
        elif first and len(rest) == 1 and rest[0]:
            return self._output(Ref(first, rest[0]), path, kind=kind)
        elif first == STORED and len(rest) == 2:
            message = f"{shown(text)}: only models of a predict DSL are references of this form"
            self.report.problem(path, message, rule="InputComponentNotExistError")
            return None
        message = f"{shown(text)} is not a reference `component.output`"
        self.report.problem(path, message, rule="RefFormatError")
        return None

    def _output(self, ref: Ref, path: str, *, kind: str) -> _Taken | None:
        """Return the reference if it names an output of another component, or record why not."""
        component = ref.component
        if component not in self.outputs:
            hint = "; DSL version 2 takes data from Reader components"
            message = f"there is no component {shown(component)}"
            message += hint if component == EXTERNAL and self.version == 2 else ""
            self.report.problem(path, message, rule="InputComponentNotExistError")
        elif component == self.owner:
            message = f"takes its own output: {cut(component)}->{cut(component)}"
            self.report.problem(path, message, rule="LoopError")
        else:
            declared = self.outputs[component]
            if declared is None or ref.output in declared.get(kind, ()):
                return _Taken(ref)
            names = cut(", ".join(declared.get(kind, ()))) or "none"
            message = (
                f"{shown(component)} declares no {kind} output {shown(ref.output)}, but {names}"
            )
            self.report.problem(path, message, rule="InputNameNotExistError")
        return None


def name_fault(name: object) -> str | None:
    """Return what is wrong with the name of a component or output, None if nothing is."""
    if not isinstance(name, str):
        return f"must be a string, not {kind_of(name)}"
    if not _NAME.fullmatch(name):
        return f"{shown(name)} may hold only letters, digits, `_` and `-`"
    if len(name) > MAX_NAME:
        return f"{shown(name)} is longer than {MAX_NAME} characters"
    return None
