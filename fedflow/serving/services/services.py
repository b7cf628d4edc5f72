"""The services of this process: which versions answer for them.

Requests read a mapping that is replaced as a whole; changes are stored before they are seen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from fedflow.base.clock import Clock
from fedflow.base.errors.serving_process import (
    BindingRefused,
    HookNotUsable,
    ServiceNotBound,
    VersionNotLoaded,
)
from fedflow.base.values import dataclass
from fedflow.serving.hooks.service_hooks import Hooks, UnusableHooks, hooks_of
from fedflow.serving.models import ServedModel, ServedModels
from fedflow.serving.partners.messages import IdValue
from fedflow.serving.rates import Rate
from fedflow.serving.services.comparison import VersionComparison
from fedflow.serving.services.releases import (
    HeaderRule,
    Percent,
    Release,
    ReleasedVersion,
    Version,
    check_release,
    with_version,
)
from fedflow.serving.services.selection import Header, choose, user_of
from fedflow.serving.services.service_options import (
    CACHED_STALE,
    DEFAULT_SCORE,
    GUEST_ONLY,
    NO_OPTIONS,
    ServiceOptions,
)
from fedflow.serving.services.service_state import (
    BoundService,
    PastRelease,
    ReleaseChange,
    ServiceState,
)
from fedflow.serving.settings import SERVICE_ID

logger = logging.getLogger(__name__)

_TWO: Final = 2  #: classes whose score is one number

Salt = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]


class BindService(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of a service: one version more, or all versions anew.

    What is not given stays as it is.
    """

    service_id: str
    model_id: str = ""
    model_version: str = ""
    weight: Percent = 100.0  #: percent of the users that this version answers
    shadow: bool = False
    versions: tuple[ReleasedVersion, ...] | None = None  #: instead of one version
    rules: tuple[HeaderRule, ...] | None = None
    options: ServiceOptions | None = None
    salt: Salt | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedService:
    """A service, ready to answer."""

    bound: BoundService
    salt: bytes
    rate: Rate | None  #: of its rows
    comparison: VersionComparison | None  #: None: one version alone answers
    hooks: Hooks


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectedVersion:
    """What answers a request, and why."""

    served: ServedModel
    service: ServedService | None  #: None: the version was named
    by: str  #: service, weight, rule, version or default

    @property
    def service_id(self) -> str:
        """Return the service; an empty text: the version was named."""
        return "" if self.service is None else self.service.bound.service_id

    @property
    def shadows(self) -> list[Version]:
        """Return the versions that score beside the one that answers."""
        if self.service is None:
            return []
        return [one.version for one in self.service.bound.release.versions if one.shadow]

    @property
    def options(self) -> ServiceOptions:
        """Return the options of the service."""
        return NO_OPTIONS if self.service is None else self.service.bound.options


class Services:
    """Services and what is bound to them. Thread-safe."""

    def __init__(
        self, state: ServiceState, models: ServedModels, *, caches_parts: bool, clock: Clock
    ) -> None:
        """`caches_parts`: hosts' parts are kept, so old ones may be used."""
        self._state = state
        self._models = models
        self._caches_parts = caches_parts
        self._clock = clock
        self._changes = threading.Lock()
        self._services: Mapping[str, ServedService] = {}
        self._retired: list[Hooks] = []

    def open(self) -> None:
        """Read what is bound. Raises: ServingStateNotUsable."""
        self._read()

    def all(self) -> list[BoundService]:
        """Return the services, in the order of their ids."""
        return [one.bound for one in self._services.values()]

    def get(self, service_id: str) -> ServedService:
        """Return a service. Raises: ServiceNotBound."""
        found = self._services.get(service_id)
        if found is None:
            raise ServiceNotBound(service_id=service_id[:128])
        return found

    def history(self, service_id: str) -> list[PastRelease]:
        """Return what answered for a service, the newest first."""
        return self._state.history(service_id)

    def bind(self, change: BindService) -> ReleaseChange:
        """Let loaded versions answer for a service.

        Raises: BindingRefused, VersionNotLoaded, ServingStateNotUsable.
        """
        service_id = change.service_id
        if not SERVICE_ID.fullmatch(service_id):
            reason = "a service id has 1 to 128 letters, digits and signs . _ # ~ @ + -"
            raise BindingRefused(service_id=ascii(service_id[:128]), reason=reason)
        with self._changes:
            done = self._state.change(
                service_id,
                lambda before: self._checked(change, before),
                options=change.options,
                salt=change.salt,
                now_ms=self._clock.now_ms(),
            )
            self._read()
        _log("bound", service_id, done.now)
        return done

    def unbind(self, service_id: str) -> ReleaseChange:
        """Let nothing answer for a service. Raises: ServiceNotBound, ServingStateNotUsable."""
        with self._changes:
            done = self._state.unbind(service_id)
            self._read()
        _log("unbound", service_id, None)
        return done

    def roll_back(self, service_id: str) -> ReleaseChange:
        """Let what answered before answer again.

        Raises: ServiceNotBound, BindingRefused, ServingStateNotUsable.
        """
        with self._changes:
            done = self._state.roll_back(service_id)
            self._read()
        _log("rolled back", service_id, done.now)
        return done

    def unload(self, model_id: str, model_version: str, load_id: str = "") -> list[str]:
        """Serve a version no longer; return the services that it belonged to.

        `load_id` is that of the unload. Raises: VersionNotLoaded, LoadRefused,
        ServingStateNotUsable.
        """
        with self._changes:
            return self._models.unload(model_id, model_version, load_id, self._read)

    def _read(self) -> None:
        before, clock = self._services, self._clock
        now = {
            one.service_id: _served(one, before.get(one.service_id), clock)
            for one in self._state.services()
        }
        self._services = now
        for hooks in self._retired:  # nobody holds them any more but who has waited for long
            hooks.close()
        used = {id(one.hooks) for one in now.values()}
        self._retired = [one.hooks for one in before.values() if id(one.hooks) not in used]

    def close(self) -> None:
        """Close the hooks of all services."""
        with self._changes:
            for hooks in (*self._retired, *(one.hooks for one in self._services.values())):
                hooks.close()

    def _checked(self, change: BindService, before: Release | None) -> Release:
        """Return the new release. Raises: BindingRefused, VersionNotLoaded."""
        service_id = change.service_id
        release = _changed(change, before)
        check_release(service_id, release)
        for one in release.versions:
            self._check_guest(service_id, one)
        known = self._services.get(service_id)
        options = change.options or (known.bound.options if known is not None else NO_OPTIONS)
        self._check_options(service_id, release, options)
        return release

    def _check_options(self, service_id: str, release: Release, options: ServiceOptions) -> None:
        """Raises: BindingRefused: a version cannot do in need what they say. HookNotUsable."""
        hooks_of(options).close()
        if options.on_fault == CACHED_STALE and not self._caches_parts:
            reason = "cached_stale: the setting caches.partners.enabled is false"
            raise BindingRefused(service_id=service_id, reason=reason)
        for one in release.versions:
            model = self._models.of_version(one.model_id, one.model_version).model
            name = f"version {one.model_version}"
            needs_hosts = any(model.without(host) is None for host in model.hosts)
            if options.on_fault == GUEST_ONLY and needs_hosts:
                reason = f"guest_only: {name} has no score without what its hosts say"
                raise BindingRefused(service_id=service_id, reason=reason)
            if options.on_fault == DEFAULT_SCORE and len(model.labels) > _TWO:
                reason = f"default_score: {name} has a score for each of its classes"
                raise BindingRefused(service_id=service_id, reason=reason)

    def _check_guest(self, service_id: str, one: ReleasedVersion) -> None:
        try:
            self._models.of_version(one.model_id, one.model_version)
        except VersionNotLoaded:
            if not self._models.has(one.version):
                raise
            reason = "this party is a host of a vertical model; services are bound at its guest"
            raise BindingRefused(service_id=service_id, reason=reason) from None


def version_of(
    service: ServedService,
    models: ServedModels,
    ids: Mapping[str, IdValue],
    request_id: str,
    header: Header,
) -> tuple[ServedModel, str]:
    """Return the version that answers for a user, and why. Raises: VersionNotLoaded."""
    bound = service.bound
    user = user_of(ids, request_id, sticky_by=bound.options.sticky_by)
    (model_id, model_version), by = choose(bound.release, service.salt, user, header)
    return models.of_version(model_id, model_version), by


def compared(service: ServedService) -> list[dict[str, Any]]:
    """Return how the versions of a service compare; one that is alone has nothing beside it."""
    release = service.bound.release
    parts = {
        one.version: "shadow" if one.shadow else f"{one.weight:g}%" for one in release.versions
    }
    comparison = service.comparison or VersionComparison()
    return comparison.shown(release.main.version, parts)


def _changed(change: BindService, before: Release | None) -> Release:
    if change.versions is not None:
        if change.model_id or change.model_version:
            reason = "give `versions`, or one model and version, not both"
            raise BindingRefused(service_id=change.service_id, reason=reason)
        rules = change.rules
        if rules is None:
            rules = before.rules if before is not None else ()
        return Release(versions=change.versions, rules=rules)
    if not change.model_version:
        if before is None:
            raise ServiceNotBound(service_id=change.service_id)
        release = before
    else:
        release = with_version(
            before,
            change.model_id,
            change.model_version,
            weight=change.weight,
            shadow=change.shadow,
        )
    return (
        release if change.rules is None else Release(versions=release.versions, rules=change.rules)
    )


def _served(bound: BoundService, before: ServedService | None, clock: Clock) -> ServedService:
    """Return a service ready to answer.

    Its rate goes on where options are the same, its counts where versions are.
    """
    rows_per_s, rate = bound.options.rows_per_s, None
    if before is not None and before.bound.options == bound.options:
        rate = before.rate
    elif rows_per_s is not None:
        rate = Rate(rows_per_s, max(rows_per_s, 1.0), clock)
    versions = {one.version for one in bound.release.versions}
    known = {one.version for one in before.bound.release.versions} if before is not None else set()
    comparison = before.comparison if before is not None and versions == known else None
    if comparison is None and len(versions) > 1:
        comparison = VersionComparison()
    return ServedService(
        bound=bound,
        salt=bytes.fromhex(bound.salt),
        rate=rate,
        comparison=comparison,
        hooks=_hooks(bound, before),
    )


def _hooks(bound: BoundService, before: ServedService | None) -> Hooks:
    """Return the hooks of a service: those that it had, where they are the same."""
    wanted = bound.options.before, bound.options.after
    if before is not None:
        known = before.bound.options
        if (known.before, known.after) == wanted:
            return before.hooks
    try:
        return hooks_of(bound.options)
    except HookNotUsable as exc:
        logger.error(
            "service %s: %s", bound.service_id, exc.message, extra={"action": "open_hooks"}
        )
        return UnusableHooks(str(exc.message))


def _log(what: str, service_id: str, release: Release | None) -> None:
    versions = (
        []
        if release is None
        else [
            f"{one.model_version} {'shadow' if one.shadow else f'{one.weight:g}%'}"
            for one in release.versions
        ]
    )
    logger.info("%s %s: %s", what, service_id, ", ".join(versions), extra={"action": "bind"})
