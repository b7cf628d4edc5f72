"""A job as submitted, read and checked: `parse_job(dsl, conf, modules=...)` gives a `JobSpec`.

Everything that can be known before a job is created at its sites is checked here, and all mistakes
are reported at once. What the parameters of a component may be, the component knows (`sdk.params`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import Conf, mode_of, parse_conf, readable_conf
from fedflow.domain.job.dag import Dag
from fedflow.domain.job.document import (
    JsonObject,
    Report,
    check_document,
    child,
    copy_object,
)
from fedflow.domain.job.dsl import Component, Mode, edges_of, parse_dsl
from fedflow.domain.job.parameters import JobParameters, merge_job_parameters
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.resources import ResourceRequest, demand_at
from fedflow.domain.job.rules import Rules, make_rules
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.site import Role, Site

if TYPE_CHECKING:
    from fedflow.domain.job.elastic import Elastic

MAX_RUNS: Final = 100_000
"""Components x sites of one job: a site checks each of its own, the initiator all of them; so many
take about a second. 100 components at 1,000 sites, or 5,000 at 20."""

_GUARDED_MODULES: Final = frozenset({"heterolr", "heterolinr", "heteropoisson", "heterokmeans"})
"""Modules whose arbiter gets what the guest can open: its key, or the hosts' masked distances."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleInfo:
    """What the scheduler must know of a module."""

    module: str  #: canonical name
    roles: tuple[Role, ...]  #: that have a part in it
    data_ports: tuple[str, ...]  #: that it understands
    needs_input: bool  #: at least one data port must be connected
    outputs: tuple[str, ...]  #: kinds that it may write: data, model, cache
    repeatable: bool = True  #: the same inputs and parameters give results that are as good
    absence: str | None = None  #: of a host: `rounds` go on, or each site is `apart`
    provider: str = ""  #: registered provider that has it; empty: it is installed
    versions: tuple[str, ...] = ()  #: of that provider, the one used without a word last
    package: str = ""  #: installed package that offers it by an entry point


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSpec:
    """What a job is: its sites, its components and their order, and every site's parameters."""

    initiator: Site
    sites: tuple[Site, ...]  #: all of them, in the conf's order
    roles: Mapping[Role, tuple[PartyId, ...]]
    components: tuple[Component, ...]  #: in declaration order
    modules: Mapping[str, ModuleInfo]  #: by component name
    dag: Dag
    dsl: JsonObject  #: as given
    conf: JsonObject  #: as given
    mode: Mode  #: a predict job takes models of a deployed version
    warnings: tuple[JobWarning, ...]
    settings: Conf = field(repr=False)  #: the conf as read
    defaults: JobParameters = field(repr=False)
    _by_name: Mapping[str, Component] = field(init=False, compare=False, repr=False)
    _by_roles: dict[tuple[Role, ...], tuple[Site, ...]] = field(
        init=False, compare=False, repr=False
    )
    _parameters: dict[Site, JobParameters] = field(init=False, compare=False, repr=False)
    _rules: list[Rules] = field(init=False, compare=False, repr=False)  #: once they were asked for

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {c.name: c for c in self.components})
        object.__setattr__(self, "_by_roles", {})
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_rules", [])

    @property
    def rules(self) -> Rules:
        """Return how the tasks are run."""
        if not self._rules:
            rules = make_rules(
                self.dag,
                {name: self.sites_of(name) for name in self.dag.names},
                {site: self.job_parameters_at(site) for site in self._with_own_options()},
                initiator=self.initiator,
            )
            self._rules.append(rules)
        return self._rules[0]

    @property
    def elastic(self) -> Elastic | None:
        """Return how the job lives with absent hosts; None: not at all, as a predict job."""
        if self.elastic_settings is None:
            return None
        from fedflow.domain.job.elastic import read_elastic  # most jobs never need it

        return read_elastic(self.elastic_settings)

    @property
    def elastic_settings(self) -> dict[str, object] | None:
        """Return the same as plain JSON."""
        given = self.job_parameters_at(self.initiator).elastic
        return None if self.mode == "predict" else given

    def _with_own_options(self) -> tuple[Site, ...]:
        """Return the sites whose parameters count for the rules: all, if any has `task_conf`."""
        given = self.settings.job_parameters
        layers = (given.common, *(overlay.values for overlay in given.overlays))
        if self.defaults.task_conf or any("task_conf" in layer for layer in layers):
            return self.sites
        return (self.initiator,)

    def component(self, name: str) -> Component:
        """Return a component. Raises: KeyError: there is none of this name."""
        return self._by_name[name]

    def sites_of(self, component_name: str) -> tuple[Site, ...]:
        """Return the sites that run a component, in the conf's order, at least one.

        Raises: KeyError: there is none of this name.
        """
        roles = self.modules[component_name].roles
        known = self._by_roles.get(roles)  # one tuple for all components that run at these roles
        if known is None:
            known = tuple(site for site in self.sites if site.role in roles)
            self._by_roles[roles] = known
        return known

    def runs_at(self, component_name: str, site: Site) -> bool:
        """Tell whether a site is one of those that run a component, in a time that does not grow
        with their number. Raises: KeyError: there is none of this name.
        """
        return site.role in self.modules[component_name].roles and self.settings.has(site)

    def component_parameters(self, component_name: str, site: Site) -> dict[str, object]:
        """Return a new object with what the conf says for a component at one of the job's sites.

        See `Conf.parameters_of`; empty where the component does not run.
        Raises: KeyError: unknown component or site.
        """
        parameters = self.settings.parameters_of(component_name, site)
        return parameters if site.role in self.modules[component_name].roles else {}

    def planned_run(self, component_name: str, site: Site) -> PlannedRun:
        """Return what is known of a component's run at a site. Raises: KeyError: unknown name."""
        component = self._by_name[component_name]
        models = (*component.model, *component.isometric_model, *component.stored_models)
        return PlannedRun(
            site=site,
            sites=self.sites_of(component_name),
            data_ports=tuple(component.data),
            has_model=bool(models),
            has_cache=bool(component.cache),
        )

    def provider_of(self, component_name: str, site: Site) -> str | None:
        """Return the provider that the conf, else the DSL, asks for; None if neither does.

        Raises: KeyError: unknown component or site.
        """
        index = self.settings.index_of(site)
        asked = self.settings.provider.values_of(component_name, site.role, index)
        return str(asked[-1]) if asked else self.component(component_name).provider

    def job_parameters_at(self, site: Site) -> JobParameters:
        """Return the job parameters of one site. Raises: KeyError: it is not a site of this job."""
        known = self._parameters.get(site)  # each pass of the scheduler needs it; merging is slow
        if known is None:
            index = self.settings.index_of(site)
            layers = self.settings.job_parameters.at(site.role, index)
            known = self._parameters[site] = merge_job_parameters(layers, defaults=self.defaults)
        return known


def parse_job(
    dsl: object,
    conf: object,
    *,
    modules: Mapping[str, ModuleInfo],
    defaults: JobParameters | None = None,
    warnings: Sequence[JobWarning] = (),
) -> JobSpec:
    """Return the job that a DSL and a runtime conf describe, both of version 2 (see `formats`).

    Where the conf says that it is a predict job, the DSL is its predict DSL, and the conf the one
    of the training job with the submitted one over it (see `predict_conf`).
    `modules` are keyed by lower-case name, aliases included; `defaults` are the server's job
    parameters; `warnings` become the first ones. Later changes of the given objects do not reach
    the spec.
    Raises: InvalidJobSpec: with all problems that were found. Paths start with `$.dsl` or `$.conf`.
    """
    report = Report()
    check_document(dsl, "$.dsl", report=report)
    check_document(conf, "$.conf", report=report)
    report.raise_if_any()
    given_conf = readable_conf(conf, report)
    if given_conf is None:
        raise InvalidJobSpec(report.problems)
    given_dsl: JsonObject = dsl if isinstance(dsl, dict) else {}
    mode = mode_of(given_conf)
    components = parse_dsl(dsl, report, mode=mode)
    settings = parse_conf(given_conf, report, component_names=_names(given_dsl))
    known = _known_modules(components, modules, report=report)
    for component in components:
        _check_ports(component, known.get(component.name), report=report)
        _check_sources(component, known, report=report)
    if settings is not None:
        _check_runs(components, settings, report=report)
        _check_roles(components, known, settings=settings, report=report)
        _check_guard(known, settings, report=report)
        if mode == "train":
            _check_folds(components, settings, report=report)
        else:
            _check_model_named(settings, report=report)
    if settings is None or report.found:
        raise InvalidJobSpec(report.problems)
    spec = JobSpec(
        initiator=settings.initiator,
        sites=settings.sites,
        roles=settings.roles,
        components=components,
        modules=known,
        dag=Dag(names=tuple(c.name for c in components), edges=edges_of(components)),
        dsl=copy_object(given_dsl),
        conf=copy_object(given_conf),
        mode=mode,
        warnings=(*warnings, *report.warnings),
        settings=settings,
        defaults=defaults or JobParameters(),
    )
    _check_shares(spec, report=report)
    _check_elastic(spec, report=report)
    report.raise_if_any()
    return spec


def _check_elastic(spec: JobSpec, *, report: Report) -> None:
    given = spec.settings.job_parameters
    if any("elastic" in layer for layer in (given.common, *(o.values for o in given.overlays))):
        from fedflow.domain.job.elastic_checks import check_job  # most jobs never need it

        check_job(spec, report=report)


def model_id(spec: JobSpec) -> str:
    """Return the job's model id; see `model_id_of`."""
    return model_id_of({role.value: parties for role, parties in spec.roles.items()})


def model_id_of(roles: Mapping[str, Sequence[str]]) -> str:
    """Return the model id of these roles, `arbiter-10000#guest-9999#host-10000#model`.

    Roles are sorted by name, party ids by number. Source: `docs/reference/jobs.md#identifiers`.
    """
    parts = [
        f"{role}-{'_'.join(sorted(set(parties), key=int))}"
        for role, parties in sorted(roles.items())
    ]
    return "#".join([*parts, "model"])


def _names(dsl: JsonObject) -> Collection[str] | None:
    declared = dsl.get("components")
    return declared.keys() if isinstance(declared, dict) else None


def _input_path(component: Component, *members: str) -> str:
    path = f"{child('$.dsl.components', component.name)}.input"
    return ".".join((path, *members))


def names_of(modules: Mapping[str, ModuleInfo]) -> dict[str, str]:
    """Return the names of modules by lower-case name and alias."""
    return {name: info.module for name, info in modules.items()}


def _known_modules(
    components: Iterable[Component], modules: Mapping[str, ModuleInfo], *, report: Report
) -> dict[str, ModuleInfo]:
    """Return the modules by component name; names are matched without regard to case."""
    known: dict[str, ModuleInfo] = {}
    for component in components:
        info = modules.get(component.module.lower())
        if info is None:
            from fedflow.domain.job.missing_modules import refusal  # most jobs never need it

            path = f"{child('$.dsl.components', component.name)}.module"
            rule, message = refusal(component.module, names_of(modules))
            report.problem(path, message, rule=rule)
        else:
            known[component.name] = info
    return known


def _check_ports(component: Component, info: ModuleInfo | None, *, report: Report) -> None:
    """Check that the connected data ports fit together, and fit the module."""
    ports = component.data.keys()
    for port in ports:
        if info is not None and port not in info.data_ports:
            understood = ", ".join(info.data_ports)
            message = f"{info.module} takes no data from other components"
            if understood:
                message = f"{info.module} does not understand this port, but {understood}"
            report.problem(_input_path(component, "data", port), message, rule="PortNotSupported")
    if info is not None and info.needs_input and not ports:
        message = f"{info.module} needs data on one of: {', '.join(info.data_ports)}"
        report.problem(_input_path(component, "data"), message, rule="MissingInput")
    has_model = bool(component.model or component.stored_models)
    for port, message in _illegal_ports(ports, has_model=has_model):
        report.problem(_input_path(component, "data", port), message, rule="IllegalPorts")


def _illegal_ports(ports: Collection[str], *, has_model: bool) -> Iterator[tuple[str, str]]:
    """Yield (port, what is wrong) for combinations that no module can run.

    `eval_data` is validation data beside `train_data`, and test data without it.
    Source: `docs/reference/components.md#stages`.
    """
    trains = "train_data" in ports
    if "validate_data" in ports and not trains:
        yield "validate_data", "validate_data needs train_data"
    for port in ("data", "test_data"):
        if port in ports and trains:
            yield port, f"{port} cannot be combined with train_data"
    if "eval_data" in ports:
        for port in ("validate_data", "test_data"):
            if port in ports:
                yield "eval_data", f"eval_data cannot be combined with {port}"
    for port in ("test_data", "eval_data"):
        if port in ports and not trains and not has_model:
            yield port, f"{port} needs a model: connect input.model"


def _check_sources(
    component: Component, known: Mapping[str, ModuleInfo], *, report: Report
) -> None:
    """Warn of inputs that will stay empty; declaring an output never written is no mistake."""
    sources = [("data", ref) for refs in component.data.values() for ref in refs]
    sources += [("model", ref) for ref in (*component.model, *component.isometric_model)]
    sources += [("cache", ref) for ref in component.cache]
    for kind, ref in sources:
        info = known.get(ref.component)
        if info is not None and kind not in info.outputs:
            message = f"{ref} will be missing: {info.module} writes no {kind}"
            report.warn(_input_path(component), message, code="NotWritten")


def _check_runs(components: Sequence[Component], settings: Conf, *, report: Report) -> None:
    """Check that the job is not larger than what its sites can work on in a moment."""
    runs = len(components) * len(settings.sites)
    if runs > MAX_RUNS:
        message = f"{len(components)} components at {len(settings.sites)} sites are {runs} runs"
        message += f", at most {MAX_RUNS} are allowed"
        report.problem("$.dsl.components", message, rule="LimitExceeded")
        report.raise_if_any()  # what follows would look at each of them


def _check_roles(
    components: Iterable[Component],
    known: Mapping[str, ModuleInfo],
    *,
    settings: Conf,
    report: Report,
) -> None:
    """Check that every component has a site to run at."""
    for component in components:
        info = known.get(component.name)
        if info is not None and not settings.roles.keys() & set(info.roles):
            needed = ", ".join(role.value for role in info.roles)
            message = f"{info.module} runs at {needed}, and the job has no such role"
            path = child("$.dsl.components", component.name)
            report.problem(path, message, rule="NoSiteForComponent")


def _check_guard(known: Mapping[str, ModuleInfo], settings: Conf, *, report: Report) -> None:
    """Check that no guest is the arbiter, who could decrypt the hosts' values.

    Allowed is the demonstration in which one party is everything: each such party is a host too,
    and there are no other hosts. Source: `docs/reference/jobs.md#runtime-conf`.
    """
    guarded = sorted({m.module for m in known.values() if m.module.lower() in _GUARDED_MODULES})
    guests, hosts, arbiters = (
        settings.roles.get(role, ()) for role in (Role.GUEST, Role.HOST, Role.ARBITER)
    )
    shared = set(guests) & set(arbiters)
    if not guarded or not hosts or not shared:
        return
    if shared <= set(hosts) and len(shared) == len(hosts):
        return
    for i, party in enumerate(arbiters):
        if party in shared:
            message = (
                f"party {party} is guest too and could decrypt the hosts' data in {guarded[0]}"
            )
            report.problem(f"$.conf.role.arbiter[{i}]", message, rule="GuestIsArbiter")


def _check_model_named(settings: Conf, *, report: Report) -> None:
    """Check that a predict job says which deployed model it uses."""
    for member in ("model_id", "model_version"):
        if not settings.job_parameters.common.get(member):
            path = f"$.conf.job_parameters.common.{member}"
            message = "a predict job names the deployed model that it uses"
            report.problem(path, message, rule="ModelNotNamed")


def _check_shares(spec: JobSpec, *, report: Report) -> None:
    """Check that no task takes more of a site than the whole job has there."""
    if not spec.rules.shares:  # all its tasks take the same
        return
    for site in spec.sites:
        parameters = spec.job_parameters_at(site)
        share = demand_at(site, parameters)
        for name in parameters.task_conf:
            if name not in spec.modules or not spec.runs_at(name, site):
                continue
            task = demand_at(site, parameters, component=name)
            for what, need, has in _resources(task, share):
                if need > has:
                    message = (
                        f"{name} would take {need} at {site}, where the whole job has {has}"
                        f" (task_{what} x task_parallelism): raise one of these, or lower it"
                    )
                    at = child("$.conf.job_parameters.common.task_conf", name)
                    report.problem(f"{at}.task_{what}", message, rule="JobParameterError")


def _resources(task: ResourceRequest, share: ResourceRequest) -> Iterator[tuple[str, int, int]]:
    """Yield (what, what the task takes, what the job has)."""
    yield "cores", task.of_task.cores, share.of_job.cores
    yield "memory", task.of_task.memory, share.of_job.memory


def _check_folds(components: Iterable[Component], settings: Conf, *, report: Report) -> None:
    """Check that cross validation and stepwise selection get training data and nothing else."""
    layers = settings.component_parameters
    asked = dict(_folding(layers.common))
    for overlay in layers.overlays:
        asked.update(_folding(overlay.values))
    for component in components:
        switch = asked.get(component.name)
        if switch is None:
            continue
        message = f"cannot be combined with {switch}, which takes train_data only"
        for port in sorted(component.data.keys() - {"train_data"}):
            report.problem(_input_path(component, "data", port), message, rule="IllegalPorts")
        if component.model:
            report.problem(_input_path(component, "model"), message, rule="IllegalPorts")


def _folding(values: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield (component name, switch) for parameters that switch cross validation or stepwise on."""
    for name, parameters in values.items():
        for member, switch in (("cv_param", "need_cv"), ("stepwise_param", "need_stepwise")):
            options = parameters.get(member) if isinstance(parameters, dict) else None
            if isinstance(options, dict) and options.get(switch) is True:
                yield name, switch
