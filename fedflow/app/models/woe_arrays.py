"""Weights of evidence of a host's bins: out of the guest's stored model, into the host's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fedflow.app.models.models import ModelRepository, version_in
from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.errors.models import ModelComponentNotFound, WrongWoeArrays
from fedflow.domain.models.model import ModelComponent, ModelContent, ModelKey
from fedflow.domain.models.woe import PARAM, extract_woe, merge_woe
from fedflow.domain.site import Role
from fedflow.wire.task_report import ReportedModel

_ATTEMPTS: Final = 3  #: how often a model is read anew that somebody else changes meanwhile


class WoeArrays:
    """What lets a host transform its columns by woe (`domain.models.woe`)."""

    def __init__(self, *, store: Store, repository: ModelRepository, clock: Clock) -> None:
        self._store = store
        self._repository = repository
        self._clock = clock

    def extract(self, key: ModelKey, component: str, *, host: str | None = None) -> dict[str, Any]:
        """Return the woe arrays of a host's columns by their anonymous names, of the guest's model.

        Raises: ModelNotFound, ModelComponentNotFound, ModelDamaged. WrongWoeArrays: it is no
        guest's model of a binning with two classes, or has nothing of this host.
        """
        _check_role(key, Role.GUEST, "extracted from")
        _, content = self._read(key, component)
        try:
            return extract_woe(content.param, host)
        except ValueError as exc:
            raise WrongWoeArrays(component=component, reason=exc) from exc

    def merge(self, key: ModelKey, component: str, arrays: Mapping[str, Any]) -> None:
        """Put woe arrays into a host's stored model of a binning; a repeat changes nothing.

        Raises: ModelNotFound, ModelComponentNotFound, ModelDamaged, DiskFull. WrongWoeArrays: it is
        no host's model of a binning, the arrays do not fit it, or others keep changing it.
        """
        _check_role(key, Role.HOST, "merged into")
        for _ in range(_ATTEMPTS):
            found, content = self._read(key, component)
            try:
                param = merge_woe(content.param, arrays)
            except ValueError as exc:
                raise WrongWoeArrays(component=component, reason=exc) from exc
            written = self._repository.write(
                ReportedModel(
                    alias=content.alias,
                    meta_name=content.meta_name,
                    param_name=content.param_name,
                    meta=content.meta,
                    param=param,
                )
            )
            if self._replace(found, replace(found, param=written.param)):
                return
        raise WrongWoeArrays(component=component, reason="the model changes all the time")

    def _read(self, key: ModelKey, component: str) -> tuple[ModelComponent, ModelContent]:
        stored = self._repository.components(key)
        found = next((one for one in stored if one.component == component), None)
        if found is None:
            raise ModelComponentNotFound(model=key, component=component)
        if found.param.name != PARAM:
            reason = f"the model of {found.module} has {found.param.name}, not {PARAM}"
            raise WrongWoeArrays(component=component, reason=reason)
        return found, self._repository.content(found, module=found.module)

    def _replace(self, seen: ModelComponent, new: ModelComponent) -> bool:
        """Store a component's new contents, unless it is not any more what was `seen`."""
        with self._store.transaction() as tx:
            version = version_in(tx, seen.key)
            if seen not in tx.models.components(seen.key):
                return False
            tx.models.put_component(new)
            size = sum(c.size_bytes for c in tx.models.components(seen.key))
            tx.models.put(replace(version, size_bytes=size, updated_ms=self._clock.now_ms()))
        return True


def _check_role(key: ModelKey, role: Role, verb: str) -> None:
    if key.site.role is not role:
        raise WrongWoeArrays(
            component="the model",
            reason=f"they are {verb} the model of a {role.value}, not of {key.site}",
        )
