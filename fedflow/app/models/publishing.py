"""Publishing deployed models to serving processes: loaded at all parties of a model, or at none.

The coordinator is the server of the site that trained the model. It lets every guest and host
*prepare*: the site's server sends its share to each of its serving processes, which build and test
it. When all have, every site *commits*, else all *abort*. Each step may be repeated. What was
prepared and never committed the serving processes forget by themselves, so a crash here leaves the
version loaded at all, at some or at no parties, and another load of it settles that.

A horizontal model each party has whole, so it is loaded at each by itself: at all that name serving
processes, or at the sites of one party if its own server is asked.

Of other models hosts commit before guests do, and unload after them. So a version that a guest has
loaded, and may bind, its hosts have as well. No request can mix versions meanwhile: parties compare
digests in every call.

Source: docs/reference/rest.md#models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.app.models.deployment import (
    check_source,
    initiators_share,
    predict_dsl_of,
    stored_models,
    version_id,
)
from fedflow.app.models.drift_reference import DriftReferences
from fedflow.app.models.model_changes import UNANSWERED, answer_of, sites_of
from fedflow.app.models.models import ModelRepository
from fedflow.app.ports.data import TableWindows
from fedflow.app.ports.serving import BindOptions, ServingReply, ServingServers, TriedReply
from fedflow.app.protocol.commands import TypedCommand
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.models import (
    BadServiceId,
    ModelNotDeployed,
    ModelNotFound,
    ModelsDiffer,
    NoServings,
    NotModelInitiator,
)
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.domain.models.model import ModelFilter, ModelKey, ModelVersion, common_digest
from fedflow.domain.records import JobKey, Reply
from fedflow.domain.site import Role, Site
from fedflow.wire import paths
from fedflow.wire.commands import PublishModel, PublishStep, plain
from fedflow.wire.deployed_model import DeployedComponent, DeployedModel, is_horizontal

_SERVED: Final = (Role.GUEST, Role.HOST)
_NOT_LOADED: Final = 104  #: of a serving process that has not got a version
_LEFT_OUT: Final = Reply(retcode=107, retmsg="not asked, as another party did not do it")
_LATE_S: Final = 120.0  #: a site's serving processes build and test a model meanwhile
_FORBIDDEN: Final = "?:/&"  #: in a service id, as in FATE-Serving
_LONGEST_ID: Final = 200

WHOLE: Final = BindOptions()


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """What came of it: every site's answer to the last step that it was asked for."""

    version: ModelVersion
    replies: Mapping[Site, Reply]

    @property
    def done(self) -> bool:
        """Tell whether all sites did it."""
        return not any(reply.retcode for reply in self.replies.values())


class Publishing(UseCase):
    """The use cases of the load, bind, unbind and unload routes."""

    def __init__(self, kernel: Kernel, *, servings: ServingServers | None) -> None:
        """`servings` are those of this server's party; None: the settings name none."""
        super().__init__(kernel)
        self._servings = servings

    def load(self, model_id: str | None, version: str) -> Published:
        """Load a deployed version at all serving processes of its parties, or at none.

        A horizontal model is loaded at each party by itself.

        Raises: ModelNotFound, ModelNotReady, NotModelInitiator, ModelNotDeployed, NoServings.
        """
        share, load_id = self._share(model_id, version), self._new_load_id()
        if _is_horizontal(share):
            return self._load_each(share, load_id)
        guests, hosts = _guests_and_hosts(share)
        replies = self._at(guests + hosts, share, "prepare", load_id)
        if _failed(replies):
            self._at(guests + hosts, share, "abort", load_id)
            return Published(version=share, replies=replies)
        replies = self._at(hosts, share, "commit", load_id)
        if _failed(replies):
            self._at(guests, share, "abort", load_id)
            return Published(version=share, replies=replies | dict.fromkeys(guests, _LEFT_OUT))
        replies |= self._at(guests, share, "commit", load_id)
        return Published(version=share, replies=replies)

    def _load_each(self, share: ModelVersion, load_id: str) -> Published:
        """Load a horizontal model at each site, whatever comes of the others."""
        replies = self._at(self._sites(share), share, "prepare", load_id)
        ready = [site for site, one in replies.items() if not one.retcode]
        self._at([site for site in replies if site not in ready], share, "abort", load_id)
        replies |= self._at(ready, share, "commit", load_id)
        return Published(version=share, replies=_without_servings(replies))

    def unload(self, model_id: str | None, version: str) -> Published:
        """Let all serving processes of a version's parties forget it: hosts when all guests have.

        Who has not got it counts as done, unless nobody has. Raises: as `load`.
        """
        share, load_id = self._share(model_id, version), self._new_load_id()
        if _is_horizontal(share):
            replies = self._at(self._sites(share), share, "unload", load_id)
            return Published(version=share, replies=_without_absent(_without_servings(replies)))
        guests, hosts = _guests_and_hosts(share)
        replies = self._at(guests, share, "unload", load_id)
        if any(one.retcode not in (0, _NOT_LOADED) for one in replies.values()):
            replies |= dict.fromkeys(hosts, _LEFT_OUT)
        else:
            replies |= self._at(hosts, share, "unload", load_id)
        return Published(version=share, replies=_without_absent(replies))

    def bind(
        self,
        service_id: str,
        model_id: str | None,
        version: str,
        how: BindOptions = WHOLE,
    ) -> Sequence[ServingReply]:
        """Let this party's serving processes answer a service with a version.

        Raises: as `load`; BadServiceId.
        """
        check_service_id(service_id)
        key = self._share(model_id, version).key
        return self._own().bind(service_id, key.model_id, key.model_version, how)

    def unbind(self, service_id: str) -> Sequence[ServingReply]:
        """Let this party's serving processes forget a service. Raises: BadServiceId, NoServings."""
        check_service_id(service_id)
        return self._own().unbind(service_id)

    def roll_back(self, service_id: str) -> Sequence[ServingReply]:
        """Let this party's serving processes answer a service as before the last change.

        Raises: BadServiceId, NoServings.
        """
        check_service_id(service_id)
        return self._own().roll_back(service_id)

    def tried(
        self, service_id: str, features: Mapping[str, Any], ids: Mapping[str, Any]
    ) -> TriedReply:
        """Ask a service of this party for the score of a row. Raises: BadServiceId, NoServings."""
        check_service_id(service_id)
        return self._own().tried(service_id, features, ids)

    def _new_load_id(self) -> str:
        """Return an id that begins with the time: a late unload undoes no newer load."""
        return f"{self._clock.now_ms():013d}-{new_request_id()}"

    def _own(self) -> ServingServers:
        if self._servings is None:
            raise NoServings
        return self._servings

    def _share(self, model_id: str | None, version: str) -> ModelVersion:
        """Return the initiator's share of a version that can be served.

        Of a horizontal model that another party trained it is a share of this server's.
        """
        if model_id is None:
            with self._store.read() as tx:
                found = tx.models.find(ModelFilter(model_version=version))
            if not found:
                raise ModelNotFound(model=f"model version {version}")
            model_id = found[0].key.model_id
        share = self._named_share(model_id, version)
        if not share.is_deployed and ":" in version:
            share = self._deployed_from(share)
        if not share.is_deployed:
            raise ModelNotDeployed(model=f"model {model_id} version {version}")
        self._own()
        return share

    def _named_share(self, model_id: str, name: str) -> ModelVersion:
        version = version_id(self._store, model_id, name)
        try:
            return initiators_share(self._store, model_id, version)
        except NotModelInitiator:
            with self._store.read() as tx:
                found = tx.models.find(ModelFilter(model_id=model_id, model_version=version))
            own = [one for one in found if one.key.site.role in _SERVED and _is_horizontal(one)]
            if not own:
                raise
            return own[0]

    def _sites(self, share: ModelVersion) -> list[Site]:
        """Return the sites that a horizontal model is loaded at: all, or those of this server."""
        if share.key.site == share.initiator:
            return [site for site in sites_of(share.roles) if site.role in _SERVED]
        which = ModelFilter(model_id=share.key.model_id, model_version=share.key.model_version)
        with self._store.read() as tx:
            sites = [one.key.site for one in tx.models.find(which)]
        return [site for site in sites if site.role in _SERVED]

    def _deployed_from(self, share: ModelVersion) -> ModelVersion:
        """Return the newest version that was deployed from a trained one, else that one."""
        with self._store.read() as tx:
            found = tx.models.find(ModelFilter(model_id=share.key.model_id))
        deployed = [
            one
            for one in found
            if one.is_deployed
            and one.key.site == share.key.site
            and one.parent_info.get("parent_model_version") == share.key.model_version
        ]
        return max(deployed, key=lambda one: (one.created_ms, one.key.model_version), default=share)

    def _at(
        self, sites: Sequence[Site], share: ModelVersion, step: PublishStep, load_id: str
    ) -> dict[Site, Reply]:
        return {site: self._ask(share, site, step, load_id) for site in sites}

    def _ask(self, share: ModelVersion, site: Site, step: PublishStep, load_id: str) -> Reply:
        body = PublishModel(
            model_id=share.key.model_id, digest=common_digest(share), load_id=load_id, step=step
        )
        try:
            return answer_of(lambda: self._call(share, site, body))
        except UNANSWERED as exc:
            return Reply(retcode=100, retmsg=exc.message, error=exc.name)

    def _call(self, share: ModelVersion, site: Site, body: PublishModel) -> Reply:
        version, initiator = share.key.model_version, share.initiator
        return self._parties.call(
            initiator if share.key.site == initiator else site,
            site.party_id,
            paths.job_path("model_publish", JobKey(job_id=version, site=site)),
            plain(body),
            request_id=new_request_id(),
            job_id=version,
            deadline_s=_LATE_S,
        )


class LocalPublishing(UseCase):
    """A site's half: its own share and its own serving processes."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        repository: ModelRepository,
        servings: ServingServers | None,
        windows: TableWindows | None,
    ) -> None:
        """`windows` read what drift is measured against; None: nothing is."""
        super().__init__(kernel)
        self._repository = repository
        self._servings = servings
        self._references = windows and DriftReferences(store=kernel.store, windows=windows)

    def answer(self, incoming: TypedCommand[PublishModel]) -> Reply:
        """Carry out one step; twice has no second effect.

        Each site's load has an id of its own: one process may serve several parties.

        Raises: ModelNotFound, ModelNotDeployed, WrongModelSource, ModelsDiffer, ModelDamaged,
            NoServings.
        """
        if self._servings is None:
            raise NoServings
        body = incoming.body
        key = ModelKey(
            site=incoming.job.site, model_id=body.model_id, model_version=incoming.job_id
        )
        version = self._repository.version(key)
        if incoming.source_party != key.site.party_id:
            check_source(version, incoming, what=f"publish the {key}")
        if common_digest(version) != body.digest:
            raise ModelsDiffer(site=key.site, what="a DSL, a role or the initiator")
        load_id = f"{body.load_id}-{key.site.role.value}-{key.site.party_id}"
        match body.step:
            case "prepare":
                answers = self._servings.prepare(
                    load_id, self._built(version), self._sample(version)
                )
            case "commit":
                answers = self._servings.commit(load_id)
            case "abort":
                answers = self._servings.abort(load_id)
            case "unload":
                answers = _have_unloaded(
                    self._servings.unload(key.model_id, key.model_version, body.load_id)
                )
        reply = summed_up(answers)
        if body.step == "commit" and not reply.retcode:
            self._count_load(key)
        return reply

    def _count_load(self, key: ModelKey) -> None:
        """Count a load of what the store has now: the steps took their time."""
        with self._store.transaction() as tx:
            tx.models.lock(key.model_version)
            now = tx.models.get(key)
            if now is not None:
                tx.models.put(replace(now, loaded_times=now.loaded_times + 1))

    def _sample(self, version: ModelVersion) -> dict[str, str] | None:
        """Return a row of the training that the serving processes try the model with."""
        dsl = predict_dsl_of(version)
        return self._references.sample(version, dsl) if self._references and dsl else None

    def _built(self, version: ModelVersion) -> DeployedModel:
        """Return a version's share with the contents of its components, checked.

        Raises: ModelNotDeployed, ModelDamaged.
        """
        dsl = predict_dsl_of(version)
        if dsl is None:
            raise ModelNotDeployed(model=version.key)
        key, wanted = version.key, stored_models(dsl)
        components, parameters = {}, {}
        for component in self._repository.components(key):
            if component.component not in wanted:
                continue
            found = self._repository.content(component, module=component.module)
            components[component.component] = DeployedComponent(
                module=found.module,
                meta_name=found.meta_name,
                param_name=found.param_name,
                meta=dict(found.meta),
                param=dict(found.param),
            )
            parameters[component.component] = _object(component.run_parameters)
        return DeployedModel(
            role=key.site.role.value,
            party_id=key.site.party_id,
            model_id=key.model_id,
            model_version=key.model_version,
            roles={role: list(map(str, ids)) for role, ids in version.roles.items()},
            digest=common_digest(version),
            dsl=dict(dsl),
            parameters=parameters,
            components=components,
            reference=self._references.of(version, dsl) if self._references else None,
        )


def _guests_and_hosts(share: ModelVersion) -> tuple[list[Site], list[Site]]:
    sites = sites_of(share.roles)
    return (
        [site for site in sites if site.role is Role.GUEST],
        [site for site in sites if site.role is Role.HOST],
    )


def _is_horizontal(version: ModelVersion) -> bool:
    dsl = predict_dsl_of(version)
    return dsl is not None and is_horizontal(dsl)


def _without_servings(replies: Mapping[Site, Reply]) -> dict[Site, Reply]:
    """Return replies where sites without serving processes are done, if another one has some."""
    if all(one.error == NoServings.__name__ for one in replies.values()):
        return dict(replies)
    left_out = Reply(retcode=0, retmsg="left out, as it names no serving processes")
    return {s: left_out if one.error == NoServings.__name__ else one for s, one in replies.items()}


def _failed(replies: Mapping[Site, Reply]) -> bool:
    return any(reply.retcode for reply in replies.values())


def _without_absent(replies: Mapping[Site, Reply]) -> dict[Site, Reply]:
    """Return replies to an unload: a site without the version is done, if another one had it."""
    if all(reply.retcode == _NOT_LOADED for reply in replies.values()):
        return dict(replies)
    done = Reply(retcode=0, retmsg="it was not loaded")
    return {s: done if one.retcode == _NOT_LOADED else one for s, one in replies.items()}


def _have_unloaded(replies: Sequence[ServingReply]) -> Sequence[ServingReply]:
    """Return the answers that count: a process without the version, if another one had it."""
    return [one for one in replies if one.retcode != _NOT_LOADED] or replies


def summed_up(replies: Sequence[ServingReply]) -> Reply:
    """Return what all serving processes of a party said: success, or the first refusal."""
    for one in replies:
        if one.retcode:
            return Reply(retcode=one.retcode, retmsg=f"serving {one.address}: {one.retmsg}")
    return Reply(retcode=0, retmsg="success")


def check_service_id(service_id: str) -> None:
    """Raises: BadServiceId: it has a character that is not allowed, or is too long."""
    is_plain = service_id.isprintable() and not set(service_id) & set(_FORBIDDEN)
    if not service_id or not is_plain or len(service_id) > _LONGEST_ID:
        raise BadServiceId(service_id=service_id[:_LONGEST_ID])


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
