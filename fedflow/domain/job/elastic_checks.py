"""Which jobs may be elastic, and with which settings.

Which components may be part of one, they declare themselves (`ModuleInfo.absence`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, get_type_hints

import msgspec

from fedflow.base.decoding import read_as
from fedflow.domain.job.document import Report, child, kind_of, shown
from fedflow.domain.job.elastic import Elastic
from fedflow.domain.site import Role

if TYPE_CHECKING:
    from fedflow.domain.job.spec import JobSpec

ROUNDS: Final = "rounds"
"""Trait of a component whose rounds go on without a host; the other trait is `apart`."""

_RULE: Final = "JobParameterError"
_COMMON: Final = "$.conf.job_parameters.common"
_TYPES: Final = get_type_hints(Elastic, include_extras=True)


def check_elastic(given: object, path: str, *, report: Report) -> None:
    """Record what is wrong with given settings: unknown names, types, ranges."""
    if not isinstance(given, dict):
        message = f"must be an object with min_parties, not {kind_of(given)}"
        report.problem(path, message, rule=_RULE)
        return
    before = report.found
    for key, value in given.items():
        at = child(path, key)
        if key not in _TYPES:
            known = ", ".join(_TYPES)
            report.problem(at, f"unknown setting; known are {known}", rule=_RULE)
            continue
        try:
            read_as(value, _TYPES[key])
        except msgspec.ValidationError as error:
            told = shown(value) if not isinstance(value, dict | list) else kind_of(value)
            report.problem(at, f"{error}, given was {told}", rule=_RULE)
    if "min_parties" not in given:
        report.problem(child(path, "min_parties"), "is missing", rule=_RULE)
    if report.found > before:
        return
    least, most = given["min_parties"], given.get("max_parties")
    if isinstance(least, int) and isinstance(most, int) and most < least:
        message = f"must be at least min_parties, which is {least}, not {most}"
        report.problem(child(path, "max_parties"), message, rule=_RULE)


def check_job(spec: JobSpec, *, report: Report) -> None:
    """Record why a job that has `elastic` cannot be an elastic one."""
    path = child(_COMMON, "elastic")
    for overlay in spec.settings.job_parameters.overlays:
        if "elastic" in overlay.values:
            message = "is the same for all parties: it belongs to job_parameters.common"
            report.problem(child(overlay.path, "elastic"), message, rule=_RULE)
    elastic = spec.elastic
    if elastic is None:
        return
    for at, message in (*_miscounted(spec, elastic, path), *_unfit(spec), *_taken_over(spec)):
        report.problem(at, message, rule=_RULE)


def _miscounted(spec: JobSpec, elastic: Elastic, path: str) -> Iterator[tuple[str, str]]:
    hosts = len(spec.roles.get(Role.HOST, ()))
    named = hosts + len(spec.roles.get(Role.GUEST, ()))
    if not hosts:
        yield path, "an elastic job needs hosts: guest and arbiter cannot be absent"
    elif elastic.min_parties > named:
        message = f"must be at most {named}: the job has that many guests and hosts"
        yield child(path, "min_parties"), message


def _unfit(spec: JobSpec) -> Iterator[tuple[str, str]]:
    """Yield the components that cannot live with an absent host."""
    for component in spec.components:
        info = spec.modules[component.name]
        if info.absence is None and Role.HOST in info.roles:
            path = f"{child('$.dsl.components', component.name)}.module"
            yield (
                path,
                (
                    f"{component.name} cannot be part of an elastic job: {info.module} needs all of"
                    " its hosts"
                ),
            )
    if all(info.absence != ROUNDS for info in spec.modules.values()):
        message = "an elastic job needs a component that trains in rounds, and this one has none"
        yield "$.dsl.components", message


def _taken_over(spec: JobSpec) -> Iterator[tuple[str, str]]:
    parameters = spec.job_parameters_at(spec.initiator)
    for name in ("inheritance_info", "reuse"):
        if getattr(parameters, name):
            message = "an elastic job takes over no results: an absent host could not say its part"
            yield child(_COMMON, name), message
