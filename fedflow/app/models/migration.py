"""Migrating a model to other parties: a version with their ids, at the sites that have it now.

Each executing site makes a share under the new ids (`LocalMigration`), which can then be exported
and given to the new party. It goes by `app/models/model_changes.py`, as deploying does; a site
does it for the model's initiator, or for its own server. Source: `docs/reference/rest.md#models`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedflow.app.models.deployment import check_source, trained_version
from fedflow.app.models.model_changes import (
    ChangedModel,
    ModelChange,
    ModelChanges,
    PreparedModels,
    sites_of,
)
from fedflow.app.models.models import ModelRepository
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import TypedCommand
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.models import ModelChangeRefused, ModelNotFound, ModelsDiffer, SameParties
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import party_id_of, role_of
from fedflow.domain.job.spec import model_id_of
from fedflow.domain.models.migration import Migration, structure_fault
from fedflow.domain.models.model import (
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelVersion,
    common_digest,
)
from fedflow.domain.records import Reply
from fedflow.domain.site import Site
from fedflow.wire import paths
from fedflow.wire.commands import MigrateModel
from fedflow.wire.task_report import ReportedModel

Roles = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrateRequest:
    """What a client asks for; party ids are texts, in the order of the lists that it sent."""

    model_id: str
    model_version: str
    roles: Roles
    new_roles: Roles
    new_initiator: Site
    execute: Roles
    new_version: str | None = None


class Migrations(UseCase):
    """The use case of the migrate route."""

    def __init__(self, kernel: Kernel, *, model_changes: ModelChanges) -> None:
        super().__init__(kernel)
        self._model_changes = model_changes

    def migrate(self, asked: MigrateRequest) -> ChangedModel:
        """Make a version with other party ids at all executing sites, or at none.

        Raises: ModelNotFound, SameParties, ModelChangeRefused.
        """
        share = self._share(asked)
        migration = self._migration(share, asked)
        try:
            sites = sites_of(asked.execute)
        except ValueError as exc:
            raise ModelChangeRefused(reason="execute_party has an unknown role") from exc
        known = set(sites_of(share.roles))
        if not sites or not known.issuperset(sites):
            raise ModelChangeRefused(reason="execute_party must list sites of the model")
        body = MigrateModel(
            model_id=asked.model_id,
            old_version=asked.model_version,
            old_digest=common_digest(share),
            role=asked.roles,
            migrate_role=asked.new_roles,
            migrate_initiator=asked.new_initiator.key,
        )
        outcome = self._model_changes.carry_out(
            ModelChange(
                id=new_request_id(),
                command="model_migrate",
                version=migration.model_version,
                source=share.key.site,
                bodies=dict.fromkeys(sites, body),
                digest=common_digest(migration.version(share, now_ms=0)),
            )
        )
        return ChangedModel(
            model_id=migration.model_id, model_version=migration.model_version, outcome=outcome
        )

    def _share(self, asked: MigrateRequest) -> ModelVersion:
        """Return this server's share of the model, the initiator's if it is here.

        Raises: ModelNotFound.
        """
        which = ModelFilter(model_id=asked.model_id, model_version=asked.model_version)
        with self._store.read() as tx:
            found = tx.models.find(which)
        if not found:
            raise ModelNotFound(model=f"model {asked.model_id} version {asked.model_version}")
        return next((v for v in found if v.key.site == v.initiator), found[0])

    def _migration(self, share: ModelVersion, asked: MigrateRequest) -> Migration:
        version = asked.new_version or self._new_job_id(self._clock.now_ms())
        if not paths.fits("job_id", version):
            raise ModelChangeRefused(reason="unify_model_version is no model version")
        return migration_of(
            share,
            old=asked.roles,
            new=asked.new_roles,
            initiator=asked.new_initiator,
            version=version,
        )


class LocalMigration(UseCase):
    """An executing site's half."""

    def __init__(
        self, kernel: Kernel, *, repository: ModelRepository, prepared: PreparedModels
    ) -> None:
        super().__init__(kernel)
        self._repository = repository
        self._prepared = prepared

    def check(self, incoming: TypedCommand[MigrateModel]) -> None:
        """Check, and store the rewritten contents, which no row names yet.

        Raises: ModelNotFound, WrongModelSource, ModelsDiffer, ModelDamaged, BadRequest, DiskFull,
            ModelChangeRefused, SameParties.
        """
        with self._store.read() as tx:
            version, migration, components = self._find(tx, incoming)
        self._rewritten(version, migration, components)

    def prepare(self, tx: Tx, incoming: TypedCommand[MigrateModel], effects: AfterCommit) -> Reply:
        """Store the new share, which is not usable before it is committed."""
        version, migration, components = self._find(tx, incoming)
        own = self._rewritten(version, migration, components)
        whole = replace(version, size_bytes=sum(c.size_bytes for c in own))
        return self._prepared.put(tx, incoming, whole, own)

    def _find(
        self, tx: Tx, incoming: TypedCommand[MigrateModel]
    ) -> tuple[ModelVersion, Migration, list[ModelComponent]]:
        """Return the new version, how it comes about, and the old components."""
        key = ModelKey(
            site=incoming.job.site,
            model_id=incoming.body.model_id,
            model_version=incoming.body.old_version,
        )
        old = trained_version(tx, key)
        if incoming.source_party != key.site.party_id:
            check_source(old, incoming, what=f"migrate the {key}")
        if common_digest(old) != incoming.body.old_digest:
            raise ModelsDiffer(site=key.site, what="a DSL, a role or the initiator")
        try:
            initiator = Site.from_key(incoming.body.migrate_initiator)
        except ValueError as exc:
            raise BadRequest(reason="`migrate_initiator` is no site") from exc
        migration = migration_of(
            old,
            old=roles_of(incoming.body.role, "role"),
            new=roles_of(incoming.body.migrate_role, "migrate_role"),
            initiator=initiator,
            version=incoming.job_id,
        )
        version = migration.version(old, now_ms=self._clock.now_ms())
        return version, migration, tx.models.components(key)

    def _rewritten(
        self, version: ModelVersion, migration: Migration, components: Sequence[ModelComponent]
    ) -> list[ModelComponent]:
        return [self._component(version, migration, c) for c in components]

    def _component(
        self, version: ModelVersion, migration: Migration, old: ModelComponent
    ) -> ModelComponent:
        content = self._repository.content(old, module=old.module)
        written = self._repository.write(
            ReportedModel(
                alias=content.alias,
                meta_name=content.meta_name,
                param_name=content.param_name,
                meta=migration.content(dict(content.meta)),
                param=migration.content(dict(content.param)),
            )
        )
        return replace(
            old,
            key=version.key,
            meta=written.meta,
            param=written.param,
            created_ms=version.created_ms,
        )


# --- rules that both halves share -----------------------------------------------------------------


def migration_of(
    share: ModelVersion, *, old: Roles, new: Roles, initiator: Site, version: str
) -> Migration:
    """Return how a version gets other party ids.

    Raises: SameParties. ModelChangeRefused: the roles do not fit the model or each other.
    """
    if {r: sorted(p) for r, p in old.items()} != {r: sorted(p) for r, p in share.roles.items()}:
        raise ModelChangeRefused(reason="`role` does not list the parties of the model")
    fault = structure_fault(old, new)
    if fault is not None:
        raise ModelChangeRefused(reason=fault)
    if {r: list(p) for r, p in old.items()} == {r: list(p) for r, p in new.items()}:
        raise SameParties
    if initiator.party_id not in new.get(initiator.role.value, ()):
        raise ModelChangeRefused(reason="migrate_initiator is not listed in migrate_role")
    return Migration(
        old=old,
        new=new,
        initiator=initiator,
        model_id=model_id_of(new),
        model_version=version,
    )


def roles_of(value: Any, name: str) -> dict[str, list[str]]:
    """Return party ids by role, as texts. Raises: BadRequest: it is no such object."""
    if not isinstance(value, dict):
        raise BadRequest(reason=f"`{name}` must be an object")
    roles: dict[str, list[str]] = {}
    for role, parties in value.items():
        if role_of(role) is None or not isinstance(parties, list):
            raise BadRequest(reason=f"`{name}` must list party ids by role")
        ids = [party_id_of(party) for party in parties]
        roles[role] = [party for party in ids if party is not None]
        if len(roles[role]) != len(parties):
            raise BadRequest(reason=f"`{name}.{role}` lists what is no party id")
    return roles
