"""The runtime conf of a predict job: the training job's with the submitted one over it.

Parameters for an index mean a party: where the parties of a role changed, the training job's index
keys are rewritten, so that each party keeps its own. Source: `docs/reference/jobs.md#predict-conf`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.ids import PartyId
from fedflow.domain.job.conf import MODEL_MEMBERS, read_roles
from fedflow.domain.job.document import (
    MAX_DEPTH,
    JsonObject,
    Report,
    check_document,
    child,
    copy_object,
    kind_of,
    merge_objects,
)
from fedflow.domain.job.dsl import EXTERNAL
from fedflow.domain.job.warning import JobWarning, warning
from fedflow.domain.site import Role

_OF_ONE_JOB: Final = (*MODEL_MEMBERS, "inheritance_info", "elastic")
"""Job parameters of the training job that say nothing about predicting."""
_BY_ROLE: Final = ("job_parameters", "component_parameters")
_WITH_DATA: Final = (Role.GUEST, Role.HOST)
_Parties = Mapping[Role, Sequence[PartyId]]


def merge_predict_conf(
    train_conf: JsonObject, predict_conf: object
) -> tuple[dict[str, object], tuple[JobWarning, ...]]:
    """Return the conf that a predict job runs with, from two confs of version 2, and warnings.

    Objects are merged member by member, of anything else the predict conf's value counts; its roles
    may be a subset of the training job's, also in another order. A role that the training job did
    not have is left out: no component of the model runs there.

    Raises: InvalidJobSpec: a party had no such role in the training job, or the predict conf is no
    conf. Paths are those of the predict conf, but for a training conf beyond the limits.
    """
    report = Report()
    check_document(train_conf, "$.train_conf", report=report)
    check_document(predict_conf, "$.conf", report=report)
    report.raise_if_any()
    if not isinstance(predict_conf, dict):
        report.problem(
            "$.conf", f"must be an object, not {kind_of(predict_conf)}", rule="ConfTypeError"
        )
        raise InvalidJobSpec(report.problems)
    trained = read_roles(train_conf.get("role"), Report())
    asked = read_roles(predict_conf.get("role"), report)
    strangers = [role for role in asked if trained and role not in trained]
    for role in strangers:
        del asked[role]
        message = f"the training job had no {role.value}: parties of this role take no part"
        report.warn(f"$.conf.role.{role.value}", message, code="UnknownRole")
    for role, parties in asked.items():
        for i, party in enumerate(parties):
            if party and party not in trained.get(role, ()):
                message = f"party {party} was no {role.value} of the training job"
                report.problem(f"$.conf.role.{role.value}[{i}]", message, rule="UnknownParty")
    report.raise_if_any()
    base = {key: value for key, value in train_conf.items() if key not in ("role", "provider")}
    for section in _BY_ROLE:
        base[section] = _for_parties(_object(base.get(section)), trained=trained, asked=asked)
    base["job_parameters"] = _without_own(_object(base["job_parameters"]))
    over = {**predict_conf, "job_parameters": _common(_object(predict_conf.get("job_parameters")))}
    for section in over.keys() & {"role", *_BY_ROLE}:
        over[section] = _without_roles(over[section], strangers, in_section=section != "role")
    return copy_object(merge_objects(base, over, depth=MAX_DEPTH)), report.warnings


def unknown_names(conf: object, known: Collection[str]) -> tuple[JobWarning, ...]:
    """Return warnings of components that a submitted predict conf, of either version, names and
    neither the training job nor the predict DSL has (`known`). The merged conf has those of the
    training job, so what reads it cannot tell.
    """
    given = _object(conf)
    found: list[JobWarning] = []

    def look(values: object, path: str) -> None:
        for name in _object(values):
            if name not in (*known, EXTERNAL):
                message = "the model's training job had no component of this name; no effect"
                found.append(warning("UnknownComponentName", child(path, name), message))

    jobs, by_role = "$.conf.job_parameters.common", "$.conf.role_parameters"
    for section in ("component_parameters", "provider"):
        path, values = f"$.conf.{section}", _object(given.get(section))
        look(values.get("common"), f"{path}.common")
        for role, by_index in _object(values.get("role")).items():
            for index, own in _object(by_index).items():
                look(own, child(child(f"{path}.role", role), index))
    common = _object(_object(given.get("job_parameters")).get("common"))
    look(common.get("task_conf"), f"{jobs}.task_conf")
    look(given.get("algorithm_parameters"), "$.conf.algorithm_parameters")
    for role, own in _object(given.get("role_parameters")).items():
        look(own, child(by_role, role))
    return tuple(found)


def predict_conf_template(
    predict_dsl: JsonObject, train_conf: JsonObject, *, model_id: str, model_version: str
) -> dict[str, object]:
    """Return a conf for predicting with a deployed model, with a place for each Reader's table.

    Placeholders are numbered through, so that each can be found. Source:
    `docs/reference/rest.md#predict-conf`.
    """
    parameters = _without_own(_object(train_conf.get("job_parameters")))
    model = {"model_id": model_id, "model_version": model_version, "job_type": "predict"}
    parameters["common"] = {**_object(parameters.get("common")), **model}
    readers = list(_readers(predict_dsl))
    by_role: dict[str, object] = {}
    number = 0
    for role, parties in read_roles(train_conf.get("role"), Report()).items():
        if role not in _WITH_DATA:
            continue
        by_index: dict[str, object] = {}
        for index in range(len(parties)):
            tables: dict[str, object] = {}
            for reader in readers:
                tables[reader] = {
                    "table": {
                        "name": f"name_to_be_filled_{number}",
                        "namespace": f"namespace_to_be_filled_{number}",
                    }
                }
                number += 1
            by_index[str(index)] = tables
        by_role[role.value] = by_index
    return copy_object(
        {
            "dsl_version": 2,
            "role": train_conf.get("role"),
            "initiator": train_conf.get("initiator"),
            "job_parameters": parameters,
            "component_parameters": {"role": by_role},
        }
    )


def _readers(dsl: JsonObject) -> Iterator[str]:
    for name, raw in _object(dsl.get("components")).items():
        if str(_object(raw).get("module")).lower() == "reader":
            yield name


def _object(value: object) -> dict[str, object]:
    """Return a new object with the members of `value`, none if it is no object."""
    return dict(value) if isinstance(value, dict) else {}


def _common(parameters: JsonObject) -> dict[str, object]:
    """Return job parameters with those that old clients write beside `common` in it."""
    beside = {key: parameters[key] for key in MODEL_MEMBERS if key in parameters}
    rest = {key: value for key, value in parameters.items() if key not in beside}
    return {**rest, "common": {**beside, **_object(rest.get("common"))}}


def _without_own(parameters: JsonObject) -> dict[str, object]:
    """Return job parameters without what concerned the training job alone."""
    found = _common(parameters)
    common = _object(found["common"])
    return {**found, "common": {k: v for k, v in common.items() if k not in _OF_ONE_JOB}}


def _without_roles(section: object, roles: Sequence[Role], *, in_section: bool) -> object:
    """Return the list of parties by role, or a section with parameters by role, without some."""
    if not isinstance(section, dict) or not roles:
        return section
    if in_section:
        by_role = _without_roles(section.get("role"), roles, in_section=False)
        return {**section, "role": by_role}
    left_out = {role.value for role in roles}
    return {name: value for name, value in section.items() if name not in left_out}


def _for_parties(section: JsonObject, *, trained: _Parties, asked: _Parties) -> dict[str, object]:
    """Return a section with the roles and index keys that the predict job's parties have."""
    by_role: dict[str, object] = {}
    for name, by_index in _object(section.get("role")).items():
        role = next((role for role in asked if role.value == name), None)
        if role is None or not isinstance(by_index, dict):
            continue
        places = {
            str(i): asked[role].index(p) for i, p in enumerate(trained[role]) if p in asked[role]
        }
        rewritten: dict[str, object] = {}
        for key, values in by_index.items():
            new = _rewritten(key, places)
            if new is not None:
                rewritten = merge_objects(rewritten, {new: values}, depth=MAX_DEPTH)
        by_role[name] = rewritten
    return {**section, "role": by_role}


def _rewritten(key: str, places: Mapping[str, int]) -> str | None:
    """Return an index key in the predict job's numbers, None if none of its parties is left.

    What is no list of numbers (`all`) counts for every party, and stays.
    """
    if not re.fullmatch(r"[0-9|]+", key, re.ASCII):
        return key
    indexes = (part.lstrip("0") or "0" for part in key.split("|"))
    left = [str(places[index]) for index in indexes if index in places]
    return "|".join(left) or None
