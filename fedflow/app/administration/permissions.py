"""What other parties' jobs may use at this server: grants, and the check when a job is created.

Nothing is checked unless `permission.switch` is on. Then, if `permission.component` or
`permission.dataset` is on too, another party's job may run or read here only what was granted to
that party. Roles and commands (the form that FATE Flow had up to 1.8) restrict a party from the
moment when the first role, or the first command, is granted to it. A party's own jobs always pass.
Source: `docs/reference/rest.md#site-signature` and `docs/reference/rest.md#administration`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fedflow.app.ports.components import Catalog
from fedflow.app.ports.store import Store, Tx
from fedflow.base.clock import Clock
from fedflow.base.errors.requests import BadRequest, PermissionDenied, PermissionsOff, UnknownGrant
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.administration.records import ANY, Grant, GrantKind
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.records import TableRecord
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import fits

COMMANDS: Final = ("create", "stop", "run")
GRANTED_ROLES: Final = (Role.GUEST.value, Role.HOST.value, Role.ARBITER.value)
_MAX_NAME: Final = 200  #: characters of a table's name or namespace
_MADE: Final = "output"  #: origin of a table that a component wrote
_CODES: Final = {
    GrantKind.ROLE: 1, GrantKind.COMMAND: 1, GrantKind.COMPONENT: 2, GrantKind.DATASET: 3,
}  # fmt: skip

Dataset = tuple[str, str]  #: namespace and name of a table
ALL_TABLES: Final[Dataset] = (ANY, ANY)  #: every table, later ones too


@dataclass(frozen=True, kw_only=True, slots=True)
class PermissionRules:
    """What is checked; all off is FATE's default."""

    switch: bool = False
    component: bool = False
    dataset: bool = False


class Permissions:
    """The use cases of `/v1/permission`. `rules` may be replaced while the server runs."""

    def __init__(
        self, *, store: Store, catalog: Catalog, clock: Clock, rules: PermissionRules
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self.rules = rules

    # --- grants -----------------------------------------------------------------------------------

    def grant(
        self, party_id: str, *, components: Iterable[str] = (), datasets: Iterable[Dataset] = ()
    ) -> None:
        """Let a party use components (`*` is all) and tables (`ALL_TABLES` is all).

        Raises: PermissionsOff, UnknownGrant: no such component; BadRequest.
        """
        self._require_switch()
        grants = self._grants(_party(party_id), components, datasets)
        with self._store.transaction() as tx:
            tx.permissions.add(grants, now_ms=self._clock.now_ms())

    def delete(
        self,
        party_id: str,
        *,
        components: Iterable[str] = (),
        datasets: Iterable[Dataset] = (),
        all_datasets: bool = False,
    ) -> None:
        """Take grants back; the component `*` and `all_datasets` mean all of their kind.

        Raises: PermissionsOff, UnknownGrant, BadRequest.
        """
        self._require_switch()
        components = tuple(components)
        gone = self._grants(_party(party_id), components, datasets)
        kinds = {GrantKind.DATASET} if all_datasets else set()
        if ANY in components:
            kinds.add(GrantKind.COMPONENT)
        with self._store.transaction() as tx:
            known = [g for g in tx.permissions.of(party_id) if g.kind in kinds and not g.role]
            tx.permissions.remove([*gone, *known])

    def query(self, party_id: str) -> tuple[list[str], list[Dataset]]:
        """Return the components and tables that a party may use. Raises: BadRequest."""
        with self._store.read() as tx:
            grants = [g for g in tx.permissions.of(_party(party_id)) if not g.role]
        components = [g.name for g in grants if g.kind is GrantKind.COMPONENT]
        return components, [(g.namespace, g.name) for g in grants if g.kind is GrantKind.DATASET]

    def _grants(
        self, party_id: str, components: Iterable[str], datasets: Iterable[Dataset]
    ) -> list[Grant]:
        grants = [
            Grant(party_id=party_id, kind=GrantKind.COMPONENT, name=self._module(name))
            for name in components
        ]
        for namespace, name in datasets:
            if not name or max(len(namespace), len(name)) > _MAX_NAME:
                raise BadRequest(reason="a dataset needs a name and a namespace")
            grants.append(
                Grant(party_id=party_id, kind=GrantKind.DATASET, name=name, namespace=namespace)
            )
        return grants

    def _module(self, name: str) -> str:
        """Return a module's lower-case name. Raises: UnknownGrant."""
        if name == ANY:
            return ANY
        found = self._catalog.modules().get(name.strip().lower())
        if found is None:
            raise UnknownGrant(what="component", name=name[:100])
        return str(found.module).lower()

    def _require_switch(self) -> None:
        if not self.rules.switch:
            raise PermissionsOff

    # --- privileges, FATE's older form ------------------------------------------------------------

    def grant_privileges(
        self, party_id: str, role: str, privileges: Iterable[tuple[GrantKind, str]]
    ) -> None:
        """Let a party that has `role` in a job use roles, commands and components.

        Raises: PermissionsOff, UnknownGrant, BadRequest.
        """
        self._require_switch()
        grants = self._privileges(party_id, role, privileges)
        with self._store.transaction() as tx:
            tx.permissions.add(grants, now_ms=self._clock.now_ms())

    def delete_privileges(
        self, party_id: str, role: str, privileges: Iterable[tuple[GrantKind, str]]
    ) -> None:
        """Take privileges back; the name `*` means all of its kind.

        Raises: PermissionsOff, UnknownGrant, BadRequest.
        """
        self._require_switch()
        gone = self._privileges(party_id, role, privileges)
        kinds = {g.kind for g in gone if g.name == ANY}
        with self._store.transaction() as tx:
            known = [g for g in tx.permissions.of(party_id) if g.role == role and g.kind in kinds]
            tx.permissions.remove([*gone, *known])

    def privileges(self, party_id: str, role: str) -> dict[GrantKind, list[str]]:
        """Return roles, commands and components that a party may use in a role.

        Raises: BadRequest.
        """
        _party(party_id)
        _role(role)
        with self._store.read() as tx:
            grants = [g for g in tx.permissions.of(party_id) if g.role == role]
        all_names = {
            GrantKind.ROLE: GRANTED_ROLES,
            GrantKind.COMMAND: COMMANDS,
            GrantKind.COMPONENT: tuple(
                sorted({str(m.module).lower() for m in self._catalog.modules().values()})
            ),
        }
        found: dict[GrantKind, list[str]] = {}
        for kind, everything in all_names.items():
            names = [g.name for g in grants if g.kind is kind]
            found[kind] = list(everything) if ANY in names else names
        return found

    def _privileges(
        self, party_id: str, role: str, privileges: Iterable[tuple[GrantKind, str]]
    ) -> list[Grant]:
        _party(party_id)
        _role(role)
        known: dict[GrantKind, Sequence[str]] = {
            GrantKind.ROLE: GRANTED_ROLES, GrantKind.COMMAND: COMMANDS,
        }  # fmt: skip
        grants = []
        for kind, name in privileges:
            if kind is GrantKind.COMPONENT:
                name = self._module(name)
            elif name != ANY and name not in known.get(kind, ()):
                raise UnknownGrant(what=kind.value, name=name[:100])
            grants.append(Grant(party_id=party_id, kind=kind, name=name, role=role))
        return grants

    # --- the check --------------------------------------------------------------------------------

    def check_job(self, spec: JobSpec, site: Site) -> None:
        """Check what another party's job would use at `site`. Raises: PermissionDenied."""
        if not self.rules.switch:
            return
        here = [c for c in spec.components if spec.runs_at(c.name, site)]
        self.check(
            spec.initiator,
            site,
            components=[c.module for c in here],
            datasets=[d for c in here for d in _tables(spec.component_parameters(c.name, site))],
        )

    def check_component(
        self, source: Site, site: Site, module: str, parameters: dict[str, object]
    ) -> None:
        """Check what one component of a job of `source` would use. Raises: PermissionDenied."""
        self.check(source, site, components=[module], datasets=_tables(parameters))

    def check(
        self, source: Site, site: Site, *, components: Iterable[str], datasets: Iterable[Dataset]
    ) -> None:
        """Check whether a job of `source` may use these things at `site`.

        Raises: PermissionDenied: code 1 the role or command, 2 a component, 3 a table.
        """
        if not self._is_checked(source, site):
            return
        with self._store.read() as tx:
            grants = _grants_of(tx, source)
        for kind, name in ((GrantKind.ROLE, site.role.value), (GrantKind.COMMAND, COMMANDS[0])):
            if any(g.kind is kind for g in grants):
                _require(grants, kind, name, source=source, what=f"the {kind.value} {name}")
        if self.rules.component:
            for module in components:
                name = self._module(module)
                _require(
                    grants,
                    GrantKind.COMPONENT,
                    name,
                    source=source,
                    what=Message("the component {component}", module),
                )
        if self.rules.dataset:
            for table in datasets:
                _require_table(grants, table, source=source)

    def check_table(self, tx: Tx, source: Site, site: Site, table: TableRecord) -> None:
        """Check a table that a job names by the earlier job that gave it out.

        What an earlier job made needs no grant of its own; but the output of a Reader is the
        uploaded table itself, whose grant may have been taken back since. Raises: PermissionDenied.
        """
        if self.rules.dataset and table.origin != _MADE and self._is_checked(source, site):
            _require_table(_grants_of(tx, source), (table.namespace, table.name), source=source)

    def _is_checked(self, source: Site, site: Site) -> bool:
        other = source.party_id != site.party_id and site.role is not Role.LOCAL
        return self.rules.switch and other


def _grants_of(tx: Tx, source: Site) -> list[Grant]:
    """Return what a party may use in the role that it has."""
    return [g for g in tx.permissions.of(source.party_id) if g.role in ("", source.role.value)]


def _require(
    grants: Iterable[Grant], kind: GrantKind, name: str, *, source: Site, what: str,
    namespace: str = "",
) -> None:  # fmt: skip
    for grant in grants:
        if grant.kind is not kind:
            continue
        everything = ALL_TABLES if kind is GrantKind.DATASET else ("", ANY)
        if (grant.namespace, grant.name) in (everything, (namespace, name)):
            return
    raise PermissionDenied(party_id=source.party_id, what=what, kind=_CODES[kind])


def _require_table(grants: Iterable[Grant], table: Dataset, *, source: Site) -> None:
    namespace, name = table
    what = f"the table {namespace}.{name}"
    _require(grants, GrantKind.DATASET, name, source=source, namespace=namespace, what=what)


def _tables(parameters: dict[str, object]) -> list[Dataset]:
    """Return the tables that the parameters of a component name."""
    found = []
    for value in (parameters.get("table"), parameters.get("tables")):
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and "name" in one:
                found.append((str(one.get("namespace", "")), str(one["name"])))
    return found


def _party(party_id: str) -> str:
    if not fits("party_id", party_id):
        raise BadRequest(reason=f"{party_id[:100]!r} is not a party id")
    return party_id


def _role(role: str) -> None:
    if role not in {r.value for r in Role}:
        raise BadRequest(reason=f"{role[:100]!r} is not a role")
