"""Reading a runtime conf of version 2: from a submitted object to a `Conf` value.

Source: `docs/reference/jobs.md#runtime-conf`. FATE ignores an index, role or component name that
does not exist; here it is ignored with a warning, because parameters are lost. FATE's own toy job
leaves out the index: a component name in its place counts for all parties of the role. The conf of
a predict job carries the parameters of the training job, also of components that were not deployed.
FATE has no class names for the mistakes, so `rule` is our own word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Final

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.job.document import (
    JsonObject,
    Report,
    child,
    kind_of,
    lay_over,
    shown,
)
from fedflow.domain.job.dsl import Mode, read_provider
from fedflow.domain.job.parameters import check_job_parameters
from fedflow.domain.site import Role, Site

MAX_PARTIES: Final = 1_000  #: of one role
ALL: Final = "all"  #: the index key that means every party of the role
PARAMETER_DEPTH: Final = 5  #: levels of a component's parameters that are merged

_MEMBERS: Final = (
    "dsl_version",
    "initiator",
    "role",
    "job_parameters",
    "component_parameters",
    "provider",
)
_SECTIONS: Final = ("job_parameters", "component_parameters", "provider")
_CLIENT_EXTRAS: Final = (
    "conf_path",
    "dsl_path",
    "local",
)  # FATE's clients send them with each submit
V1_MEMBERS: Final = ("role_parameters", "algorithm_parameters")
MODEL_MEMBERS: Final = ("job_type", "model_id", "model_version")
"""Job parameters of a predict job, which old clients write beside `common`."""

_ReadValue = Callable[[object, str], object]  # (value, path) -> checked value, None to leave it out


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """Values for some parties of one role."""

    role: Role
    indexes: frozenset[int]  #: positions in the role's list of parties
    values: JsonObject
    path: str  #: of what holds the values, as `$.conf.component_parameters.role.host.0`


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """Values for all sites, and overlays in file order."""

    common: JsonObject
    overlays: tuple[Overlay, ...]
    _naming: Mapping[str, list[Overlay]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        naming: dict[str, list[Overlay]] = {}
        for overlay in self.overlays:
            for name in overlay.values:
                naming.setdefault(name, []).append(overlay)
        object.__setattr__(self, "_naming", naming)

    def values_of(self, name: str, role: Role, index: int) -> list[object]:
        """Return the values of one member for the party at `index` of `role`, in file order; other
        members cost nothing.
        """
        found = [self.common[name]] if name in self.common else []
        matching = (o for o in self._naming.get(name, ()) if o.role is role and index in o.indexes)
        return found + [overlay.values[name] for overlay in matching]

    def at(self, role: Role, index: int) -> tuple[JsonObject, ...]:
        """Return the layers for the party at `index` of `role`, the common one first."""
        matching = (o.values for o in self.overlays if o.role is role and index in o.indexes)
        return (self.common, *matching)

    def with_paths(self, role: Role, index: int, section: str) -> list[tuple[str, JsonObject]]:
        """Return the same with the path of each layer of a `section` of the conf."""
        found = [(f"$.conf.{section}.common", self.common)]
        matching = (o for o in self.overlays if o.role is role and index in o.indexes)
        return found + [(o.path, o.values) for o in matching]


@dataclass(frozen=True, kw_only=True, slots=True)
class Conf:
    """A runtime conf that was read and checked."""

    initiator: Site
    roles: Mapping[Role, tuple[PartyId, ...]]  #: in the conf's order; the position is the index
    job_parameters: Layers
    component_parameters: Layers  #: component name -> parameters
    provider: Layers  #: component name -> `name` or `name@version`
    _indexes: Mapping[Site, int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        indexes = {Site(r, p): i for r, ids in self.roles.items() for i, p in enumerate(ids)}
        object.__setattr__(self, "_indexes", indexes)

    @property
    def sites(self) -> tuple[Site, ...]:
        """Return all sites, in the conf's order."""
        return tuple(self._indexes)

    def has(self, site: Site) -> bool:
        """Tell whether a site is one of the job's."""
        return site in self._indexes

    def parameters_of(self, component_name: str, site: Site) -> dict[str, object]:
        """Return a new object with what the conf says for a component at one of the job's sites.

        The common parameters, then those under each index key that names the site, in file order;
        a later value replaces an earlier one, objects are merged to a depth of `PARAMETER_DEPTH`.
        Raises: KeyError: unknown site.
        """
        merged: dict[str, object] = {}
        index = self.index_of(site)
        for values in self.component_parameters.values_of(component_name, site.role, index):
            if isinstance(values, dict):
                lay_over(merged, values, depth=PARAMETER_DEPTH)
        return merged

    def path_of(self, component_name: str, site: Site, members: Sequence[str]) -> str:
        """Return the path of what a parameter of a component is set by at one of the job's sites.

        `members` lead to it, as `("encrypt_param", "key_length")`; for one that is set nowhere it
        is where it might be. Raises: KeyError: unknown site.
        """
        layers = self.component_parameters.with_paths(
            site.role, self.index_of(site), "component_parameters"
        )
        best, depth = layers[0][0], -1
        for path, layer in layers:
            reached = _depth(layer, (component_name, *members))
            if reached and reached >= depth:
                best, depth = path, reached
        for name in (component_name, *members):
            best = child(best, name)
        return best

    def index_of(self, site: Site) -> int:
        """Return the position of `site` in its role's list. Raises: KeyError: it is not a site."""
        if site not in self._indexes:
            raise KeyError(f"{site} is not a site of this job")
        return self._indexes[site]


def _depth(values: object, members: Sequence[str]) -> int:
    """Return how many of the members, one inside the other, there are."""
    for depth, name in enumerate(members):
        if not isinstance(values, dict) or name not in values:
            return depth
        values = values[name]
    return len(members)


def version_of(conf: JsonObject) -> str:
    """Return what `dsl_version` says, `1` if it is missing; a text that is no version as it is."""
    version = conf.get("dsl_version", 1)
    is_number = isinstance(version, int | str) and not isinstance(version, bool)
    return str(version).strip() if is_number else shown(version)


def given_version(conf: JsonObject) -> int:
    """Return the version in which a job was submitted whose conf is one of version 2 now."""
    section = conf.get("job_parameters")
    common = section.get("common") if isinstance(section, dict) else None
    given = common.get("dsl_version") if isinstance(common, dict) else None
    return 1 if given in (1, "1") and not isinstance(given, bool) else 2


def mode_of(conf: object) -> Mode:
    """Return whether a conf of any version, right or wrong, is one of a predict job."""
    section = conf.get("job_parameters") if isinstance(conf, dict) else None
    common = section.get("common") if isinstance(section, dict) else None
    asked = [v.get("job_type") for v in (common, section) if isinstance(v, dict)]
    return "predict" if "predict" in asked else "train"


def known_part(conf: object) -> object:
    """Return a conf of version 2 without the members that have no effect; anything else as it is.

    So a party stores of another one's conf only what a job may consist of.
    """
    if not isinstance(conf, dict):
        return conf
    known = {key: value for key, value in conf.items() if key in _MEMBERS}
    for section in _SECTIONS:
        given = known.get(section)
        if isinstance(given, dict):
            kept = ("common", "role", *MODEL_MEMBERS)
            known[section] = {key: value for key, value in given.items() if key in kept}
    return known


def readable_conf(conf: object, report: Report) -> JsonObject | None:
    """Return `conf` if it is one of version 2; if not, record the one reason.

    Other versions obey other rules, so nothing else should be checked after None.
    """
    if not isinstance(conf, dict):
        report.problem("$.conf", f"must be an object, not {kind_of(conf)}", rule="ConfTypeError")
        return None
    if version_of(conf) == "2":
        return conf
    missing = "" if "dsl_version" in conf else "; a missing one means 1"
    message = f"must be 2, not {shown(conf.get('dsl_version', 1))}{missing}"
    report.problem("$.conf.dsl_version", message, rule="DSLVersionError")
    return None


def parse_conf(
    conf: JsonObject, report: Report, *, component_names: Collection[str] | None
) -> Conf | None:
    """Return the conf, or None if sites or initiator cannot be known; mistakes go to `report`.

    `component_names` are those that the DSL declares; None leaves the names unchecked.
    """
    for key in conf:
        _check_member(key, report)
    roles = read_roles(conf.get("role"), report)
    initiator = _initiator(conf, roles, report=report)
    mode = mode_of(conf)
    sections = _Sections(conf=conf, roles=roles, names=component_names, report=report, mode=mode)
    job_parameters = sections.job_parameters()
    component_parameters = sections.by_component(
        "component_parameters",
        lambda v, at: report.expect_object(v, at, rule="ParametersTypeError"),
    )
    provider = sections.by_component("provider", lambda v, at: read_provider(v, at, report=report))
    if initiator is None or not roles:
        return None
    return Conf(
        initiator=initiator,
        roles=roles,
        job_parameters=job_parameters,
        component_parameters=component_parameters,
        provider=provider,
    )


def _check_member(key: str, report: Report) -> None:
    path = child("$.conf", key)
    if key in V1_MEMBERS:
        message = "belongs to DSL version 1 and has no effect in version 2"
        report.warn(path, message, code="NoEffect")
    elif key not in _MEMBERS and key not in _CLIENT_EXTRAS:
        report.warn(path, "unknown member, it has no effect", code="UnknownMember")


def read_roles(value: object, report: Report) -> dict[Role, tuple[PartyId, ...]]:
    """Return the parties by role, in the conf's order; mistakes go to `report`."""
    members = report.expect_object(value, "$.conf.role", rule="RoleError")
    if members is not None and not members:
        report.problem("$.conf.role", "lists no party", rule="RoleError")
    roles: dict[Role, tuple[PartyId, ...]] = {}
    for name, parties in (members or {}).items():
        path = child("$.conf.role", name)
        role = role_of(name)
        if role is None:
            known = ", ".join(r.value for r in Role)
            report.problem(path, f"unknown role; known are {known}", rule="UnknownRole")
        elif not isinstance(parties, list) or not 1 <= len(parties) <= MAX_PARTIES:
            message = f"must be a list of 1 to {MAX_PARTIES} party ids"
            report.problem(path, message, rule="RoleError")
        else:
            roles[role] = _parties(parties, path, report=report)
    return roles


def _parties(values: list[object], path: str, *, report: Report) -> tuple[PartyId, ...]:
    """Return the ids by position; a wrong one keeps its place, so that indexes stay right."""
    parties: list[PartyId] = []
    for i, value in enumerate(values):
        party = party_id_of(value)
        if party is None:
            message = f"{shown(value)} is not a party id: a whole number, at most 18 digits"
            report.problem(f"{path}[{i}]", message, rule="PartyIdError")
        elif party in parties:
            report.problem(f"{path}[{i}]", f"party {party} is listed twice", rule="DuplicateParty")
        parties.append(PartyId("") if party is None else party)
    return tuple(parties)


def party_id_of(value: object) -> PartyId | None:
    """Return a party id given as number or text, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        return None
    return PartyId(str(int(text)))


def role_of(name: object) -> Role | None:
    """Return the role of this name, None if there is none."""
    return next((role for role in Role if role.value == name), None)


def _initiator(
    conf: JsonObject, roles: Mapping[Role, tuple[PartyId, ...]], *, report: Report
) -> Site | None:
    path = "$.conf.initiator"
    members = report.expect_object(conf.get("initiator"), path, rule="InitiatorError")
    if members is None:
        return None
    role, party = role_of(members.get("role")), party_id_of(members.get("party_id"))
    if role is None:
        message = f"{shown(members.get('role'))} is not a role"
        report.problem(f"{path}.role", message, rule="InitiatorError")
    if party is None:
        message = f"{shown(members.get('party_id'))} is not a party id"
        report.problem(f"{path}.party_id", message, rule="InitiatorError")
    if role is None or party is None:
        return None
    site = Site(role, party)
    is_known = role in roles or not _declares(conf, role)  # else its list is wrong, and reported
    if is_known and party not in roles.get(role, ()):
        message = f"{site} is not listed in $.conf.role.{role.value}"
        report.problem(path, message, rule="InitiatorError")
    return site


def _declares(conf: JsonObject, role: Role) -> bool:
    """Tell whether the conf has a list for `role`, right or wrong; True if that cannot be known."""
    declared = conf.get("role")
    return not isinstance(declared, dict) or role.value in declared


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sections:
    """Reads the members of a conf that have a `common` and a `role` part."""

    conf: JsonObject
    roles: Mapping[Role, tuple[PartyId, ...]]
    names: Collection[str] | None
    report: Report
    mode: Mode

    def job_parameters(self) -> Layers:
        """Return the checked job parameters."""

        def read(values: JsonObject, path: str) -> JsonObject:
            checked = check_job_parameters(values, path, report=self.report)
            if checked.get("job_type", self.mode) != self.mode:
                message = "is the same at all sites: set it in `common`"
                self.report.problem(f"{path}.job_type", message, rule="JobParameterError")
            self._check_components(checked, path)
            return checked

        return self._layers("job_parameters", read, beside_common=MODEL_MEMBERS)

    def _check_components(self, parameters: JsonObject, path: str) -> None:
        """Record components that job parameters name and the DSL does not have."""
        if self.names is None or self.mode == "predict":
            return
        options, run_to = parameters.get("task_conf"), parameters.get("run_to")
        for name in options if isinstance(options, dict) else ():
            self._knows(name, child(f"{path}.task_conf", name))
        named = [(f"{path}.run_to", str(run_to))] if run_to else []
        if isinstance(run_to, list):
            named = [(f"{path}.run_to[{i}]", name) for i, name in enumerate(run_to)]
        for at, name in named:
            if name not in self.names:
                message = f"there is no component {shown(name)} in the DSL"
                self.report.problem(at, message, rule="UnknownComponentName")

    def _knows(self, name: str, path: str) -> bool:
        """Tell whether the DSL has a component; if not, warn that its values have no effect."""
        if self.names is None or name in self.names:
            return True
        if self.mode == "train":  # the conf of a predict job is that of the whole training job
            message = "there is no component of this name in the DSL; this has no effect"
            self.report.warn(path, message, code="UnknownComponentName")
        return False

    def by_component(self, section: str, read_value: _ReadValue) -> Layers:
        """Return a section with members by component, each value read by `read_value`."""

        def read(values: JsonObject, path: str) -> JsonObject:
            found: dict[str, object] = {}
            for name, value in values.items():
                at = child(path, name)
                checked = read_value(value, at) if self._knows(name, at) else None
                if checked is not None:
                    found[name] = checked
            return found

        return self._layers(section, read)

    def _layers(
        self,
        section: str,
        read: Callable[[JsonObject, str], JsonObject],
        *,
        beside_common: Collection[str] = (),
    ) -> Layers:
        """Return a section; members named in `beside_common` count as if they were in `common`."""
        path = f"$.conf.{section}"
        members = self._object_or_none(self.conf.get(section), path)
        for key in members:
            if key in beside_common:
                message = "belongs into `common`, and counts as if there"
                self.report.warn(child(path, key), message, code="Misplaced")
            elif key not in ("common", "role"):
                message = "has no effect here: only members of `common` and `role` are read"
                self.report.warn(child(path, key), message, code="UnknownMember")
        common = {key: members[key] for key in beside_common if key in members}
        common |= self._object_or_none(members.get("common"), f"{path}.common")
        overlays: list[Overlay] = []
        by_role = self._object_or_none(members.get("role"), f"{path}.role")
        for name, by_index in by_role.items():
            overlays += self._role_overlays(name, by_index, path=f"{path}.role", read=read)
        return Layers(common=read(common, f"{path}.common"), overlays=tuple(overlays))

    def _role_overlays(
        self, name: str, value: object, *, path: str, read: Callable[[JsonObject, str], JsonObject]
    ) -> list[Overlay]:
        path = child(path, name)
        role = role_of(name)
        if role is None or role not in self.roles:
            if role is None or not _declares(self.conf, role):
                message = "there is no party with this role in the job; this has no effect"
                self.report.warn(path, message, code="UnknownRole")
            return []
        overlays: list[Overlay] = []
        parties = len(self.roles[role])
        everyone = frozenset(range(parties))
        for key, values in self._object_or_none(value, path).items():
            at = child(path, key)
            if self._is_misplaced(key):
                message = "a component name where the index of a party belongs: taken as `all`"
                self.report.warn(at, message, code="Misplaced")
                checked = read({key: values}, path)
                indexes, at = everyone, path
            else:
                indexes = everyone if key == ALL else self._indexes(key, at, parties=parties)
                checked = read(self._object_or_none(values, at), at) if indexes else {}
            if indexes:
                overlays.append(Overlay(role=role, indexes=indexes, values=checked, path=at))
        return overlays

    def _is_misplaced(self, key: str) -> bool:
        """Tell whether a key is the name of a component, and no index."""
        is_index = key == ALL or re.fullmatch(r"[0-9|]+", key, re.ASCII)
        return self.names is not None and key in self.names and not is_index

    def _indexes(self, key: str, path: str, *, parties: int) -> frozenset[int]:
        """Return the positions that an index key such as `0` or `0|2` names.

        As at FATE, what names no party has no effect; there is a warning.
        """
        parts = key.split("|")
        indexes = [int(p) for p in parts if re.fullmatch(r"[0-9]{1,6}", p, re.ASCII)]
        if len(indexes) < len(parts):
            message = "is not an index (`0` for the first party, `0|1` for two, or `all`)"
            self.report.warn(path, f"{message}; this has no effect", code="UnknownIndex")
        elif max(indexes) >= parties:
            many = "is only one party" if parties == 1 else f"are only {parties} parties"
            message = f"there {many} with this role, counted from 0; others are ignored"
            self.report.warn(path, message, code="UnknownIndex")
        return frozenset(index for index in indexes if index < parties)

    def _object_or_none(self, value: object, path: str) -> JsonObject:
        """Return the object, an empty one if the member is missing or null."""
        if value is None:
            return {}
        return self.report.expect_object(value, path, rule="ParametersTypeError") or {}
