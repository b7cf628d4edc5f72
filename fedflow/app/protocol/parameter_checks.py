"""Checking the parameters of components at their sites, and the runs that are planned with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from fedflow.app.ports.components import Catalog
from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.documents import Problem
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import Conf
from fedflow.domain.job.document import child
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.site import Site

RULE = "ParameterException"  #: FATE's word

_MEMBER = re.compile(r"\.(\w+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentParameters:
    """The parameters of one component at one site; without a `run` only they are checked."""

    component: str
    module: str
    site: Site
    parameters: Mapping[str, Any]
    run: PlannedRun | None = None
    provider: str | None = None  #: that the job asks for


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedParameters:
    """What components say of the parameters of a job."""

    problems: list[Problem]
    warnings: list[JobWarning]


def asked_of(spec: JobSpec, sites: Iterable[Site]) -> Iterator[ComponentParameters]:
    """Yield what a job would run at some of its sites, component by component."""
    given = frozenset(sites)
    wanted = [site for site in spec.sites if site in given]
    for component in spec.components:
        for site in wanted:
            if spec.runs_at(component.name, site):
                yield ComponentParameters(
                    component=component.name,
                    module=component.module,
                    site=site,
                    parameters=spec.component_parameters(component.name, site),
                    run=spec.planned_run(component.name, site),
                    provider=spec.provider_of(component.name, site),
                )


def check_parameters(
    catalog: Catalog, conf: Conf, asked: Iterable[ComponentParameters]
) -> CheckedParameters:
    """Return everything that is wrong or doubtful, each once with all the sites that it is at.

    Paths are those of the values in the conf of version 2, such as
    `$.conf.component_parameters.role.host.0.hetero_lr_0.alpha`. Raises: UnknownComponent.
    """
    wrong: dict[tuple[str, str], dict[Site, None]] = {}
    doubtful: dict[JobWarning, dict[Site, None]] = {}
    for one in asked:
        try:
            warnings = catalog.check(
                one.module, one.parameters, path="$", run=one.run, provider=one.provider
            )
        except BadParameter as exc:
            for where, reason in exc.mistakes:
                wrong.setdefault(_place(conf, one, where, reason), {})[one.site] = None
            continue
        for warning in warnings:
            path, message = _place(conf, one, warning.path, warning.message)
            doubtful.setdefault(replace(warning, path=path, message=message), {})[one.site] = None
    return CheckedParameters(
        problems=[
            Problem(path, _at(reason, sites), RULE) for (path, reason), sites in wrong.items()
        ],
        warnings=[replace(one, message=_at(one.message, at)) for one, at in doubtful.items()],
    )


def _at(sentence: str, sites: Iterable[Site]) -> str:
    return f"{sentence} (at {', '.join(map(str, sites))})"


def _place(conf: Conf, one: ComponentParameters, where: str, reason: str) -> tuple[str, str]:
    """Return the path in the submitted documents of a mistake at `where` below `$`, and the rest
    of its sentence.
    """
    for beginning, path in (
        ("role: ", "$.conf.role"),
        ("input.", f"{child('$.dsl.components', one.component)}.input"),
    ):
        if where == "$" and reason.startswith(beginning):
            if beginning.endswith(": "):
                return path, reason.removeprefix(beginning)
            member, _, rest = reason.removeprefix(beginning).partition(": ")
            return f"{path}.{member}", rest
    plain, bracket, rest = where.removeprefix("$").partition("[")
    return conf.path_of(one.component, one.site, _MEMBER.findall(plain)) + bracket + rest, reason
