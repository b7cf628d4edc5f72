"""Jobs of version 1 become jobs of version 2: a Reader for each `args.` key, parameters by index.

Version 1 names its data in the conf (`role_parameters.<role>.args.data.<key>`), its job parameters
are flat, and a parameter of a role is a list with one value per party. Source:
`docs/reference/jobs.md#version-1` and `docs/reference/jobs.md#validation-rules` (4b, 14). A
parameter that no component takes is found later, when the parameters are checked. Unlike FATE's
conversion on deploy, this one also runs when a job is submitted, so that nothing behind it knows of
version 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import V1_MEMBERS, mode_of, read_roles
from fedflow.domain.job.document import JsonObject, Report, child, copy_object, kind_of, shown
from fedflow.domain.job.dsl import EXTERNAL, Component, Mode, parse_dsl
from fedflow.domain.job.parameters import PROCESSORS_KEY
from fedflow.domain.site import Role

_DSL: Final = "$.dsl.components"
_NAME = re.compile(r"(.+)_([0-9]{1,9})", re.ASCII)
_EVAL_DATA: Final = "eval_data"  #: the key under which a predict job gives its data
_OLD_PROCESSORS: Final = "processors_per_node"
_READER: Final = "Reader"
_Values = dict[str, object]


def convert_job(dsl: object, conf: JsonObject, report: Report) -> tuple[_Values, _Values]:
    """Return DSL and conf of version 2; mistakes and notes go to `report`.

    Both documents were checked with `check_document`. A DSL that has its Readers already (the
    predict DSL of a converted job) keeps them. What is returned after a mistake is of no use.
    """
    mode = mode_of(conf)
    components = parse_dsl(dsl, report, mode=mode, version=1)
    if mode == "train":
        _check_names(components, report)
    new = _new_readers(components)
    readers = {key: [name] for key, name in new.items()}
    for component in components:
        if _reads(component):
            for key in component.data_outputs:
                readers.setdefault(key, []).append(component.name)
    if mode == "predict":  # whatever the training job's keys were
        readers.setdefault(_EVAL_DATA, [c.name for c in components if _reads(c)])
    names = {c.name for c in components}
    converter = _Conf(conf=conf, readers=readers, names=names, mode=mode, report=report)
    converted = converter.convert(needed=new)
    for key, name in new.items():
        message = f"{EXTERNAL}.{key} is read by a new component, {name}"
        report.warn(_DSL, message, code="Converted")
    return _converted_dsl(dsl, new), converted


def _reads(component: Component) -> bool:
    return component.module.lower() == _READER.lower()


def _check_names(components: Iterable[Component], report: Report) -> None:
    """Check rule 4b: `prefix_number`, one prefix per module, numbers from 0 without a gap."""
    modules: dict[str, str] = {}  # prefix -> module
    prefixes: dict[str, str] = {}  # module -> prefix
    numbers: dict[str, list[int]] = {}
    for component in components:
        path = child(_DSL, component.name)
        match = _NAME.fullmatch(component.name)
        if match is None:
            message = "in version 1 a name is a word, `_` and a number"
            report.problem(path, message, rule="NamingError")
            continue
        prefix, number = match.groups()
        module = component.module
        if (
            modules.setdefault(prefix, module) != module
            or prefixes.setdefault(module, prefix) != prefix
        ):
            message = "in version 1 each module has one name, and each name one module"
            report.problem(path, message, rule="ComponentMultiMappingError")
        numbers.setdefault(prefix, []).append(int(number))
    for prefix, found in numbers.items():
        if sorted(found) != list(range(len(found))):
            message = f"the numbers of {shown(prefix)} must be 0 to {len(found) - 1}"
            report.problem(_DSL, message, rule="NamingIndexError")


def _new_readers(components: Sequence[Component]) -> dict[str, str]:
    """Return a new component name for each `args.` key, in order of appearance."""
    taken = {c.name for c in components}
    new: dict[str, str] = {}
    number = 0
    for key in dict.fromkeys(key for c in components for key in c.external):
        while f"reader_{number}" in taken:
            number += 1
        new[key] = f"reader_{number}"
        number += 1
    return new


def _converted_dsl(dsl: object, new: Mapping[str, str]) -> _Values:
    """Return the DSL with the new Readers, and with references to them."""
    given = copy_object(dsl) if isinstance(dsl, dict) else {}
    components = given.get("components")
    if not isinstance(components, dict):
        return given
    references = {f"{EXTERNAL}.{key}": f"{name}.{key}" for key, name in new.items()}
    for raw in components.values():
        data = _member(_member(raw, "input"), "data")
        for port, refs in data.items():
            if isinstance(refs, list):
                data[port] = [references.get(r, r) if isinstance(r, str) else r for r in refs]
    readers = {name: {"module": _READER, "output": {"data": [key]}} for key, name in new.items()}
    return {**given, "components": {**readers, **components}}


def _member(value: object, key: str) -> dict[str, Any]:
    """Return a member that is an object, an empty one if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Conf:
    """Converts one conf."""

    conf: JsonObject
    readers: Mapping[str, Sequence[str]]  # data key -> the Readers that take it
    names: Iterable[str]  # of the given components
    mode: Mode
    report: Report
    given_keys: set[str] = field(default_factory=set)

    def convert(self, *, needed: Iterable[str]) -> _Values:
        """Return the conf of version 2; `needed` are the data keys that must be given."""
        conf = self.conf
        if conf.get("component_parameters"):
            missing = "" if "dsl_version" in conf else "; a missing dsl_version means 1"
            message = f"belongs to version 2, and this is a conf of version 1{missing}"
            self.report.problem("$.conf.component_parameters", message, rule="DSLVersionError")
        old = (*V1_MEMBERS, "job_parameters", "component_parameters")
        converted = {key: value for key, value in conf.items() if key not in old}
        converted["dsl_version"] = 2
        converted["job_parameters"] = self._job_parameters(conf.get("job_parameters"))
        common = self._common(self._section("algorithm_parameters"))
        by_role = self._by_role(self._section("role_parameters"))
        for key in needed:
            if key not in self.given_keys:
                message = f"no role gives the data of {shown(f'{EXTERNAL}.{key}')}: args.data.{key}"
                path = "$.conf.role_parameters"
                self.report.problem(path, message, rule="DataNotExistInSubmitConfError")
        converted["component_parameters"] = {"common": common, "role": by_role}
        return copy_object(converted)

    def _section(self, name: str) -> JsonObject:
        value = self.conf.get(name)
        if value is None:
            return {}
        return self.report.expect_object(value, f"$.conf.{name}", rule="ParametersTypeError") or {}

    def _job_parameters(self, value: object) -> object:
        """Return the parameters by site; what is no object is refused by who reads version 2."""
        if value is not None and not isinstance(value, dict):
            return value
        flat = dict(value or {})
        common = flat.pop("common", {})
        role = flat.pop("role", {})
        if not isinstance(common, dict):
            return value
        merged = {**flat, **common, "dsl_version": 1}
        processors = merged.pop(_OLD_PROCESSORS, None)
        engine = merged.get("eggroll_run") or {}
        if processors is not None and isinstance(engine, dict):
            merged["eggroll_run"] = {PROCESSORS_KEY: processors, **engine}
        return {"common": merged, "role": role}

    def _common(self, section: JsonObject) -> _Values:
        common: _Values = {}
        for name, values in section.items():
            path = child("$.conf.algorithm_parameters", name)
            if self._knows(name, path):
                found = self.report.expect_object(values, path, rule="ParametersTypeError")
                common[name] = found or {}
        return common

    def _by_role(self, section: JsonObject) -> _Values:
        roles = read_roles(self.conf.get("role"), Report())  # mistakes are reported by version 2
        by_role: _Values = {}
        for name, values in section.items():
            path = child("$.conf.role_parameters", name)
            role = next((role for role in roles if role.value == name), None)
            if role is None:
                if self.mode == "train" and not self._declares(name):
                    message = "there is no party with this role in the job; this has no effect"
                    self.report.warn(path, message, code="UnknownRole")
                continue
            members = self.report.expect_object(values, path, rule="ParametersTypeError")
            by_role[name] = self._by_index(members or {}, path, parties=roles[role])
        return by_role

    def _declares(self, name: str) -> bool:
        return name in _member(self.conf, "role") and name in {role.value for role in Role}

    def _by_index(self, members: JsonObject, path: str, *, parties: Sequence[PartyId]) -> _Values:
        by_index: list[_Values] = [{} for _ in parties]
        for name, values in members.items():
            at = child(path, name)
            if name == EXTERNAL:
                self._tables(values, at, by_index=by_index)
            elif self._knows(name, at):
                for own, split in zip(by_index, self._split(values, at, count=len(parties))):
                    own[name] = split
        return {str(i): values for i, values in enumerate(by_index)}

    def _knows(self, name: str, path: str) -> bool:
        if name in self.names:
            return True
        if self.mode == "train":
            message = "there is no component of this name in the DSL, it has no effect"
            self.report.warn(path, message, code="UnknownComponentName")
        return False

    def _tables(self, value: object, path: str, *, by_index: Sequence[_Values]) -> None:
        """Give the tables of `args.data` to the Readers that take them."""
        members = self.report.expect_object(value, path, rule="ParametersTypeError") or {}
        for key in members:
            if key != "data":
                message = "only `data` is read here, it has no effect"
                self.report.warn(child(path, key), message, code="UnknownMember")
        path = f"{path}.data"
        if members.get("data") is None:
            return
        tables = self.report.expect_object(members["data"], path, rule="ParametersTypeError") or {}
        for key, split in zip(tables, self._columns(tables, path, count=len(by_index))):
            self.given_keys.add(key)
            for reader in self.readers.get(key, ()):
                for own, table in zip(by_index, split):
                    own[reader] = {"table": table}

    def _columns(self, values: JsonObject, path: str, *, count: int) -> list[Sequence[object]]:
        """Return for each member its values by party, none after a mistake."""
        return [self._column(v, child(path, key), count=count) for key, v in values.items()]

    def _column(self, value: object, path: str, *, count: int) -> Sequence[object]:
        if isinstance(value, dict):  # a parameter object: the lists are inside
            return self._split(value, path, count=count)
        if not isinstance(value, list):
            message = f"must be a list with a value per party, not {kind_of(value)}"
            self.report.problem(path, message, rule="RoleParameterNotListError")
        elif len(value) != count:
            message = f"has {len(value)} values for {count} parties"
            self.report.problem(path, message, rule="RoleParameterNotConsistencyError")
        else:
            return value
        return ()

    def _split(self, value: object, path: str, *, count: int) -> list[_Values]:
        """Return the parameters of each party; `value` has lists with one value per party."""
        members = self.report.expect_object(value, path, rule="ParametersTypeError") or {}
        own: list[_Values] = [{} for _ in range(count)]
        for key, column in zip(members, self._columns(members, path, count=count)):
            for values, one in zip(own, column):
                values[key] = one
        return own
