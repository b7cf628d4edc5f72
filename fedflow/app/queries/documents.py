"""What can be said of a DSL and a conf without running them.

Source: `docs/reference/jobs.md#dependency-answer`, `docs/reference/jobs.md#predict-dsl`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedflow.app.protocol.kernel import UseCase
from fedflow.app.protocol.parameter_checks import ComponentParameters, check_parameters
from fedflow.base.errors.documents import InvalidJobSpec, NotASite, PredictDslNotMade, Problem
from fedflow.base.errors.jobs import JobNotFound
from fedflow.domain.job.conf import mode_of, parse_conf
from fedflow.domain.job.dependencies import DependencyInfo, dependency_info
from fedflow.domain.job.document import Report
from fedflow.domain.job.formats import read_job
from fedflow.domain.job.predict_conf import merge_predict_conf
from fedflow.domain.job.predict_dsl import deduce_predict_dsl
from fedflow.domain.job.spec import JobSpec, names_of, parse_job
from fedflow.domain.records import JobFilter
from fedflow.domain.site import Site


class Documents(UseCase):
    """The use cases of the routes that answer for documents, not for what runs."""

    def job_dependencies(self, job_id: str, site: Site) -> DependencyInfo:
        """Return what a job's components take from each other, and which run at one of its sites.

        Raises: JobNotFound, NotASite.
        """
        with self._store.read() as tx:
            found = tx.jobs.find(JobFilter(job_id=job_id, limit=1))
        if not found:
            raise JobNotFound(job_id=job_id[:100])
        return _dependencies(self._specs.get(job_id, found[0].dsl, found[0].conf), site)

    def dependencies(
        self, dsl: object, conf: object, site: Site, *, train_conf: object = None
    ) -> DependencyInfo:
        """Return the same of a job that was not submitted; of a predict job with its training conf.

        Raises: InvalidJobSpec, NotASite.
        """
        form = read_job(dsl, conf)
        given = form.conf
        if isinstance(train_conf, dict) and train_conf and mode_of(given) == "predict":
            given, _ = merge_predict_conf(train_conf, given)
        return _dependencies(parse_job(form.dsl, given, modules=self._catalog.modules()), site)

    def predict_dsl(
        self, train_dsl: object, components: Sequence[str] | None, *, version: int
    ) -> Mapping[str, object]:
        """Return the predict DSL if `components` were deployed, None: all, in version 1 those that
        say so. Raises: PredictDslNotMade.
        """
        try:
            return deduce_predict_dsl(train_dsl, components, version=version)
        except InvalidJobSpec as exc:
            raise PredictDslNotMade(exc.problems) from exc

    def check_component(self, name: str, module: str, conf: Mapping[str, Any]) -> None:
        """Check the parameters that a conf has for one component, at all sites that would run it.

        The conf needs `role` and `dsl_version`; parameters of other components are not looked at.
        Raises: InvalidJobSpec: it lists all mistakes.
        """
        info = self._catalog.modules().get(module.lower())
        if info is None:
            from fedflow.domain.job.missing_modules import refusal  # most servers never need it

            rule, message = refusal(module, names_of(self._catalog.modules()))
            raise InvalidJobSpec([Problem("$.component_module_name", message, rule)])
        form = read_job({"components": {name: {"module": module}}}, _as_predict_conf(conf))
        report = Report()
        settings = parse_conf(form.conf, report, component_names=(name,))
        if settings is None or report.found:
            raise InvalidJobSpec(report.problems)
        asked = [
            ComponentParameters(
                component=name,
                module=info.module,
                site=site,
                parameters=settings.parameters_of(name, site),
            )
            for site in settings.sites
            if site.role in info.roles
        ]
        if not asked:
            needed = ", ".join(role.value for role in info.roles)
            message = f"{info.module} runs at {needed}, and there is no such role"
            raise InvalidJobSpec([Problem("$.role", message, "NoSiteForComponent")])
        problems = check_parameters(self._catalog, settings, asked).problems
        if problems:
            as_asked = [replace(p, path=p.path.replace("$.conf.", "$.", 1)) for p in problems]
            raise InvalidJobSpec(as_asked)


def _dependencies(spec: JobSpec, site: Site) -> DependencyInfo:
    if site not in spec.sites:
        raise NotASite(site=site)
    return dependency_info(spec, site)


def _as_predict_conf(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return a conf that is read without the names of all components: one of a predict job.

    The first party stands for the initiator, whom nobody asks for here.
    """
    first: dict[str, Any] = {}
    roles = conf.get("role")
    for role, parties in roles.items() if isinstance(roles, dict) else ():
        if isinstance(parties, list) and parties and not first:
            first = {"role": role, "party_id": parties[0]}
    return {**conf, "initiator": first, "job_parameters": {"job_type": "predict"}}
