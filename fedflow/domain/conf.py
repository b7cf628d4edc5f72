"""Reading a runtime conf of version 2: from a submitted object to a `Conf` value.

Source: `reference/flow-semantics.md` 2.1. FATE ignores an index, role or component name that does
not exist; here it is a mistake, because the parameters below it would silently be lost. The one
exception is a component name in the place of an index, which FATE's own toy job sends: a warning.
FATE has no class names for these mistakes, so `rule` is our own word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from fedflow.base.ids import PartyId
from fedflow.domain.document import JsonObject, Report, child, kind_of, shown
from fedflow.domain.dsl import read_provider
from fedflow.domain.job_parameters import check_job_parameters
from fedflow.domain.site import Role, Site

MAX_PARTIES: Final = 1_000  #: of one role
ALL: Final = "all"  #: the index key that means every party of the role

_MEMBERS: Final = (
    "dsl_version",
    "initiator",
    "role",
    "job_parameters",
    "component_parameters",
    "provider",
)
_CLIENT_EXTRAS: Final = (
    "conf_path",
    "dsl_path",
    "local",
)  # FATE's clients send them with each submit
_V1_MEMBERS: Final = ("role_parameters", "algorithm_parameters")

_ReadValue = Callable[[object, str], object]  # (value, path) -> checked value, None to leave it out


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """Values for some parties of one role."""

    role: Role
    indexes: frozenset[int]  #: positions in the role's list of parties
    values: JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """Values for all sites, and overlays in file order."""

    common: JsonObject
    overlays: tuple[Overlay, ...]

    def at(self, role: Role, index: int) -> tuple[JsonObject, ...]:
        """Return the layers for the party at `index` of `role`, the common one first."""
        matching = (o.values for o in self.overlays if o.role is role and index in o.indexes)
        return (self.common, *matching)


@dataclass(frozen=True, kw_only=True, slots=True)
class Conf:
    """A runtime conf that was read and checked."""

    initiator: Site
    roles: Mapping[Role, tuple[PartyId, ...]]  #: in the conf's order; the position is the index
    job_parameters: Layers
    component_parameters: Layers  #: component name -> parameters
    provider: Layers  #: component name -> `name` or `name@version`

    @property
    def sites(self) -> tuple[Site, ...]:
        """Return all sites, in the conf's order."""
        return tuple(Site(role, party) for role, ids in self.roles.items() for party in ids)

    def index_of(self, site: Site) -> int:
        """Return the position of `site` in its role's list. Raises: KeyError: it is not a site."""
        parties = self.roles.get(site.role, ())
        if site.party_id not in parties:
            raise KeyError(f"{site} is not a site of this job")
        return parties.index(site.party_id)


def readable_conf(conf: object, report: Report) -> JsonObject | None:
    """Return `conf` if it is one that this version can run; if not, record the one reason.

    Version 1 and predict jobs obey other rules, so nothing else should be checked after None.
    """
    if not isinstance(conf, dict):
        report.problem("$.conf", f"must be an object, not {kind_of(conf)}", rule="ConfTypeError")
        return None
    version = conf.get("dsl_version", 1)
    path = "$.conf.dsl_version"
    if isinstance(version, bool) or not isinstance(version, int | str):
        report.problem(path, f"must be 2, not {shown(version)}", rule="DSLVersionError")
    elif str(version) == "1":
        reason = (
            "" if "dsl_version" in conf else " (the member is missing, which means 1: set it to 2)"
        )
        message = f"DSL version 1 is not supported yet by this version of fedflow{reason}"
        report.problem(path, message, rule="NotSupportedYet")
    elif str(version) != "2":
        report.problem(path, f"must be 2, not {shown(version)}", rule="DSLVersionError")
    elif (predict := _predict_path(conf)) is not None:
        message = "predict jobs are not supported yet by this version of fedflow"
        report.problem(predict, message, rule="NotSupportedYet")
    else:
        return conf
    return None


def parse_conf(
    conf: JsonObject, report: Report, *, component_names: Collection[str] | None
) -> Conf | None:
    """Return the conf, or None if sites or initiator cannot be known; mistakes go to `report`.

    `component_names` are those that the DSL declares; None leaves the names unchecked.
    """
    for key in conf:
        _check_member(key, report)
    roles = _roles(conf.get("role"), report)
    initiator = _initiator(conf, roles, report=report)
    sections = _Sections(conf=conf, roles=roles, names=component_names, report=report)
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


def _predict_path(conf: JsonObject) -> str | None:
    """Return where the conf says that it is one of a predict job, if it does."""
    section = conf.get("job_parameters")
    common = section.get("common") if isinstance(section, dict) else None
    path = "$.conf.job_parameters"
    for values, at in ((section, path), (common, f"{path}.common")):
        if isinstance(values, dict) and values.get("job_type") == "predict":
            return f"{at}.job_type"
    return None


def _check_member(key: str, report: Report) -> None:
    path = child("$.conf", key)
    if key in _V1_MEMBERS:
        report.warn(path, "belongs to DSL version 1 and has no effect in version 2")
    elif key not in _MEMBERS and key not in _CLIENT_EXTRAS:
        report.warn(path, "unknown member, it has no effect")


def _roles(value: object, report: Report) -> dict[Role, tuple[PartyId, ...]]:
    members = report.expect_object(value, "$.conf.role", rule="RoleError")
    if members is not None and not members:
        report.problem("$.conf.role", "lists no party", rule="RoleError")
    roles: dict[Role, tuple[PartyId, ...]] = {}
    for name, parties in (members or {}).items():
        path = child("$.conf.role", name)
        role = _role(name)
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
        party = _party_id(value)
        if party is None:
            message = f"{shown(value)} is not a party id: a whole number, at most 18 digits"
            report.problem(f"{path}[{i}]", message, rule="PartyIdError")
        elif party in parties:
            report.problem(f"{path}[{i}]", f"party {party} is listed twice", rule="DuplicateParty")
        parties.append(PartyId("") if party is None else party)
    return tuple(parties)


def _party_id(value: object) -> PartyId | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        return None
    return PartyId(str(int(text)))


def _role(name: object) -> Role | None:
    return next((role for role in Role if role.value == name), None)


def _initiator(
    conf: JsonObject, roles: Mapping[Role, tuple[PartyId, ...]], *, report: Report
) -> Site | None:
    path = "$.conf.initiator"
    members = report.expect_object(conf.get("initiator"), path, rule="InitiatorError")
    if members is None:
        return None
    role, party = _role(members.get("role")), _party_id(members.get("party_id"))
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

    def job_parameters(self) -> Layers:
        """Return the checked job parameters."""

        def read(values: JsonObject, path: str) -> JsonObject:
            return check_job_parameters(values, path, report=self.report)

        return self._layers("job_parameters", read)

    def by_component(self, section: str, read_value: _ReadValue) -> Layers:
        """Return a section with members by component, each value read by `read_value`."""

        def read(values: JsonObject, path: str) -> JsonObject:
            found: dict[str, object] = {}
            for name, value in values.items():
                at = child(path, name)
                if self.names is not None and name not in self.names:
                    message = "there is no component of this name in the DSL"
                    self.report.problem(at, message, rule="UnknownComponentName")
                    continue
                checked = read_value(value, at)
                if checked is not None:
                    found[name] = checked
            return found

        return self._layers(section, read)

    def _layers(self, section: str, read: Callable[[JsonObject, str], JsonObject]) -> Layers:
        path = f"$.conf.{section}"
        members = self._object_or_none(self.conf.get(section), path)
        for key in members:
            if key not in ("common", "role"):
                message = "has no effect here: only members of `common` and `role` are read"
                self.report.warn(child(path, key), message)
        common = self._object_or_none(members.get("common"), f"{path}.common")
        overlays: list[Overlay] = []
        by_role = self._object_or_none(members.get("role"), f"{path}.role")
        for name, by_index in by_role.items():
            overlays += self._role_overlays(name, by_index, path=f"{path}.role", read=read)
        return Layers(common=read(common, f"{path}.common"), overlays=tuple(overlays))

    def _role_overlays(
        self, name: str, value: object, *, path: str, read: Callable[[JsonObject, str], JsonObject]
    ) -> list[Overlay]:
        path = child(path, name)
        role = _role(name)
        if role is None or role not in self.roles:
            if role is None or not _declares(self.conf, role):
                message = "there is no party with this role in the job"
                self.report.problem(path, message, rule="UnknownRole")
            return []
        overlays: list[Overlay] = []
        for key, values in self._object_or_none(value, path).items():
            at = child(path, key)
            indexes = self._indexes(key, at, parties=len(self.roles[role]))
            if indexes:
                checked = read(self._object_or_none(values, at), at)
                overlays.append(Overlay(role=role, indexes=indexes, values=checked))
        return overlays

    def _indexes(self, key: str, path: str, *, parties: int) -> frozenset[int]:
        """Return the positions that an index key such as `0`, `0|2` or `all` names."""
        if key == ALL:
            return frozenset(range(parties))
        parts = key.split("|")
        if all(re.fullmatch(r"[0-9]{1,6}", part, re.ASCII) for part in parts):
            indexes = frozenset(int(part) for part in parts)
            if max(indexes) < parties:
                return indexes
            message = f"there are only {parties} parties with this role, counted from 0"
            self.report.problem(path, message, rule="UnknownIndex")
        elif self.names is not None and key in self.names:
            message = "has no effect: a component name where the index of a party belongs"
            self.report.warn(path, message)
        else:
            message = "is not an index: `0` for the first party, `0|1` for two, or `all`"
            self.report.problem(path, message, rule="UnknownIndex")
        return frozenset()

    def _object_or_none(self, value: object, path: str) -> JsonObject:
        """Return the object, an empty one if the member is missing or null."""
        if value is None:
            return {}
        return self.report.expect_object(value, path, rule="ParametersTypeError") or {}
