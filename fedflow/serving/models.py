"""The models that this process serves.

Requests read two mappings that are replaced as a whole; changes are stored before they are seen.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from fedflow.base.clock import Clock
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.serving_process import (
    BadServingRequest,
    LoadRefused,
    VersionNotLoaded,
)
from fedflow.base.values import dataclass
from fedflow.serving.codes import ItemAnswer
from fedflow.serving.drift import VersionDrift, drift_of
from fedflow.serving.joining import JoinedRequests
from fedflow.serving.learned_references import LearnedReferences
from fedflow.serving.load_state import LoadState, StoredLoad, VersionKey, sha256_of
from fedflow.serving.online import Build, ServableModel
from fedflow.serving.settings import ServingLimits
from fedflow.wire.deployed_model import ReferenceHistograms

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOAD_ID: Final = re.compile(r"[0-9A-Za-z_.-]{1,128}")
_GUESTS: Final = ("guest", "local")  #: roles whose processes answer callers of vertical models


class VersionHead(msgspec.Struct, frozen=True, kw_only=True):
    """What this process reads of a share; the model reads the rest."""

    role: str
    party_id: str
    model_id: str
    model_version: str
    digest: str
    roles: dict[str, list[str]] = {}
    reference: ReferenceHistograms | None = None


_PREPARED: Final = {"action": "prepare_load"}
_heads: Final = msgspec.json.Decoder(VersionHead)


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A share that is loaded, or prepared."""

    load_id: str
    key: VersionKey
    head: VersionHead
    model: ServableModel
    lines: dict[str, JoinedRequests[Any, ItemAnswer]]  #: of single requests, by service
    drift: VersionDrift

    @property
    def answers_callers(self) -> bool:
        """Tell whether callers may ask it: it is a guest's, or the whole model."""
        return self.key.role in _GUESTS or self.model.scores_alone


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedModel:
    """A stored share that cannot be served."""

    key: VersionKey
    reason: str


class ServedModels:
    """Loads, and what they are of. Thread-safe."""

    def __init__(
        self,
        state: LoadState,
        build: Build,
        *,
        party_id: str | None,
        limits: ServingLimits,
        references: LearnedReferences,
        clock: Clock,
    ) -> None:
        self._state = state
        self._references = references
        self._build = build
        self._party_id = party_id
        self._limits = limits
        self._clock = clock
        self._changes = threading.Lock()
        self._prepared: dict[str, ServedModel] = {}
        self._loaded: Mapping[VersionKey, ServedModel] = {}
        self._answering: Mapping[tuple[str, str], ServedModel] = {}
        self._refused: Mapping[VersionKey, RefusedModel] = {}

    def open(self) -> None:
        """Build what was loaded or prepared before; what cannot be served is named in the log."""
        self._state.forget_old(self._clock.now_ms())
        loaded, refused = {}, {}
        stored = self._state.loads()
        self._references.keep_only(load.load_id for load in stored)
        for load in stored:
            try:
                served = self._served(load)
            except LoadRefused as exc:
                logger.error("%s", exc.message, extra={"action": "refuse_share"})
                if load.state == "loaded":
                    refused[load.key] = RefusedModel(key=load.key, reason=exc.fields["reason"])
                continue
            if load.state == "loaded":
                loaded[load.key] = served
            else:
                self._prepared[load.load_id] = served
        self._refused = refused
        self._publish(loaded)

    # --- what is served ---------------------------------------------------------------------------

    def loaded(self) -> list[ServedModel]:
        """Return what is loaded, in the order of model ids and versions."""
        return sorted(
            self._loaded.values(), key=lambda one: (one.key.model_id, one.key.model_version)
        )

    def refused(self) -> list[RefusedModel]:
        """Return what was loaded and cannot be served."""
        return list(self._refused.values())

    def has(self, version: tuple[str, str]) -> bool:
        """Tell whether a version is loaded, whatever its party's role."""
        return any((key.model_id, key.model_version) == version for key in self._loaded)

    def of_version(self, model_id: str, model_version: str) -> ServedModel:
        """Return the share that answers callers: the guest's, of a horizontal model else a host's.

        Raises: VersionNotLoaded.
        """
        served = self._answering.get((model_id, model_version))
        if served is not None:
            return served
        raise VersionNotLoaded(model_id=model_id[:300], model_version=model_version[:100])

    def of_host(self, party_id: str, model_id: str, model_version: str) -> ServedModel:
        """Return the share of a host that says its part of a version. Raises: VersionNotLoaded."""
        key = VersionKey(
            role="host", party_id=party_id, model_id=model_id, model_version=model_version
        )
        served = self._loaded.get(key)
        if served is None or served.model.scores_alone:  # whose scores are no matter of a guest
            raise VersionNotLoaded(model_id=model_id[:300], model_version=model_version[:100])
        return served

    # --- loads ------------------------------------------------------------------------------------

    def prepare(self, load_id: str, share: bytes, sample: Mapping[str, Any] | None) -> None:
        """Check, build, try and store a share; nothing of it is served yet.

        A repeat changes nothing. Raises: BadServingRequest, LoadRefused, ServingStateNotUsable.
        """
        self._forget_old()
        head = _head_of(share)
        _check_load_id(load_id)
        sha256 = sha256_of(share)
        known = self._state.state_of(load_id)
        if known is not None:
            _check_repeat(known, load_id, sha256, head.model_version)
            return
        load = StoredLoad(
            load_id=load_id,
            state="prepared",
            key=_key_of(head),
            digest=head.digest,
            share=share,
            share_sha256=sha256,
            changed_ms=self._clock.now_ms(),
        )
        served = self._served(load)
        _try(served, sample)
        with self._changes:
            self._state.prepare(load)
            self._prepared[load_id] = served
        row = "a row of zeros" if sample is None else "its sample row"
        logger.info("prepared %s, tried with %s", _text(served), row, extra=_PREPARED)

    def commit(self, load_id: str) -> None:
        """Serve a prepared load from now on; a repeat changes nothing.

        Raises: BadServingRequest, LoadNotFound, LoadRefused, ServingStateNotUsable.
        """
        _check_load_id(load_id)
        self._forget_old()
        with self._changes:
            served = self._prepared.get(load_id)
            known = self._state.state_of(load_id)
            if served is None and known is not None and known[0] == "prepared":
                raise LoadRefused(model_version="", reason=f"load {load_id} is damaged")
            self._state.commit(load_id, self._clock.now_ms())
            if served is None:
                return
            self._publish({**self._loaded, served.key: served})
            self._refused = {k: one for k, one in self._refused.items() if k != served.key}
            del self._prepared[load_id]
        logger.info("loaded %s", _text(served), extra={"action": "commit_load"})

    def abort(self, load_id: str) -> None:
        """Forget a prepared load; a repeat changes nothing.

        Raises: BadServingRequest, LoadRefused: it is committed. ServingStateNotUsable.
        """
        _check_load_id(load_id)
        with self._changes:
            self._state.abort(load_id, self._clock.now_ms())
            self._prepared.pop(load_id, None)

    def unload(
        self, model_id: str, model_version: str, load_id: str, stored: Callable[[], None]
    ) -> list[str]:
        """Serve a version no longer; return the services that it belonged to.

        `stored` is called when that is stored, before requests see it. Raises: VersionNotLoaded.
        LoadRefused: it was loaded after `load_id`. ServingStateNotUsable.
        """
        with self._changes:
            now_ms = self._clock.now_ms()
            services = self._state.unload(model_id, model_version, now_ms, load_id=load_id)
            stored()
            version = (model_id, model_version)
            self._prepared = {
                load_id: one
                for load_id, one in self._prepared.items()
                if (one.key.model_id, one.key.model_version) != version
            }
            self._refused = _without(self._refused, version)
            self._publish(_without(self._loaded, version))
        logger.info("unloaded %s", model_version, extra={"action": "unload"})
        return services

    # --- parts ------------------------------------------------------------------------------------

    def _served(self, load: StoredLoad) -> ServedModel:
        """Build a stored share. Raises: LoadRefused."""
        version = load.key.model_version
        if load.is_damaged:
            raise LoadRefused(model_version=version, reason="the stored share is damaged")
        head = _head_of(load.share)
        if self._party_id is not None and head.party_id != self._party_id:
            reason = f"the share is that of party {head.party_id}, not {self._party_id}"
            raise LoadRefused(model_version=version, reason=reason)
        try:
            model = self._build(load.share)
        except FedflowError as exc:
            raise LoadRefused(model_version=version, reason=str(exc.message)) from exc
        except Exception as exc:
            logger.exception("A share could not be built", extra={"action": "build"})
            raise LoadRefused(model_version=version, reason="it could not be built") from exc
        if model.digest != head.digest or model.role != head.role:
            raise LoadRefused(model_version=version, reason="its parts do not fit together")
        return ServedModel(
            load_id=load.load_id,
            key=load.key,
            head=head,
            model=model,
            lines={},
            drift=drift_of(
                model,
                head.reference,
                learned=self._references.read(load.load_id),
                keep=partial(self._references.write, load.load_id),
            ),
        )

    def _publish(self, loaded: Mapping[VersionKey, ServedModel]) -> None:
        guests_last = sorted(loaded.items(), key=lambda one: one[0].role in _GUESTS)
        self._answering = {
            (key.model_id, key.model_version): served
            for key, served in guests_last
            if served.answers_callers
        }
        self._loaded = loaded

    def _forget_old(self) -> None:
        with self._changes:
            for load_id in self._state.forget_old(self._clock.now_ms()):
                self._prepared.pop(load_id, None)


def _without(kept: Mapping[VersionKey, T], version: tuple[str, str]) -> dict[VersionKey, T]:
    return {k: one for k, one in kept.items() if (k.model_id, k.model_version) != version}


def _head_of(share: bytes) -> VersionHead:
    try:
        head = _heads.decode(share)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise BadServingRequest(reason=f"the share: {exc}") from exc
    words = (head.role, head.party_id, head.model_id, head.model_version, head.digest)
    if not all(0 < len(word) <= 512 and word.isprintable() for word in words):
        raise BadServingRequest(reason="the share: role, ids, version and digest are short texts")
    if head.role not in ("host", *_GUESTS):
        raise BadServingRequest(reason=f"the share: nothing of a role {head.role!r} is served")
    return head


def _key_of(head: VersionHead) -> VersionKey:
    return VersionKey(
        role=head.role,
        party_id=head.party_id,
        model_id=head.model_id,
        model_version=head.model_version,
    )


def _check_load_id(load_id: str) -> None:
    if not _LOAD_ID.fullmatch(load_id):
        raise BadServingRequest(
            reason="a load id has up to 128 letters, digits and the signs _ . -"
        )


def _check_repeat(known: tuple[str, str], load_id: str, sha256: str, version: str) -> None:
    state, stored = known
    if state not in ("prepared", "loaded") or stored != sha256:
        reason = f"the load id {load_id} was used before"
        raise LoadRefused(model_version=version, reason=reason)


def _try(served: ServedModel, sample: Mapping[str, Any] | None) -> None:
    """Score one row. Raises: LoadRefused."""
    model, version = served.model, served.key.model_version
    row = sample if sample is not None else dict.fromkeys(model.inputs, 0.0)
    try:
        batch = model.read([row])
        if batch.errors and sample is not None:
            reason = f"its sample row cannot be read: {batch.errors[0]}"
            raise LoadRefused(model_version=version, reason=reason)
        if batch.errors:
            return
        if not served.answers_callers:
            model.partial(batch)
        else:
            local = model.local(batch)
            if not model.hosts:
                model.merge(local, {})
    except LoadRefused:
        raise
    except Exception as exc:
        logger.exception("A row could not be scored", extra={"action": "try_load"})
        reason = f"a row could not be scored: {type(exc).__name__}: {exc}"
        raise LoadRefused(model_version=version, reason=reason[:500]) from exc


def _text(served: ServedModel) -> str:
    return f"{served.key.party_model_id} {served.key.model_version}"
