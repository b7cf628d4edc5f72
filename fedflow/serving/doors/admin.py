"""The admin port: loads in two phases, bindings, lists, health and metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from fedflow.base.errors.serving_process import BadServingRequest
from fedflow.base.values import dataclass
from fedflow.serving.doors.wsgi import (
    JSON,
    HttpAnswer,
    HttpCall,
    check_token,
    json_answer,
    no_route,
)
from fedflow.serving.drift import VersionDrift, drift_answer, drift_lines
from fedflow.serving.health import ServingHealth
from fedflow.serving.load_state import VersionKey
from fedflow.serving.metrics import CONTENT_TYPE, ServingMetrics
from fedflow.serving.models import ServedModels
from fedflow.serving.partners.messages import IdValue
from fedflow.serving.services.releases import Release
from fedflow.serving.services.service_state import BoundService, ReleaseChange
from fedflow.serving.services.services import BindService, Services, compared
from fedflow.serving.settings import ServingSettings
from fedflow.serving.warm_up import WarmUp, WarmUpRows

_PREFIX: Final = "/admin/v1/"


class PrepareLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `POST /admin/v1/loads`."""

    load_id: str
    share: msgspec.Raw
    sample: dict[str, str | int | float | bool | None] | None = None


class PurgeCaches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /admin/v1/caches/purge`: what is forgotten; nothing given: all."""

    service_id: str | None = None
    model_version: str | None = None
    ids: dict[str, IdValue] | None = None  #: all ids of a row


_loads: Final = msgspec.json.Decoder(PrepareLoad)
_purges: Final = msgspec.json.Decoder(PurgeCaches)
_warm_ups: Final = msgspec.json.Decoder(WarmUpRows)
_binds: Final = msgspec.json.Decoder(BindService)


@dataclass(frozen=True, kw_only=True, slots=True)
class AdminActions:
    """What the admin port lets others do."""

    tried: Callable[[HttpCall], dict[str, Any]]  #: answers a request as the callers' port does
    purge: Callable[..., int]  #: of the caches
    warm_up: WarmUp


class AdminPortRoutes:
    """Answers the requests of the admin port."""

    def __init__(
        self,
        models: ServedModels,
        services: Services,
        health: ServingHealth,
        metrics: ServingMetrics,
        *,
        settings: ServingSettings,
        actions: AdminActions,
    ) -> None:
        self._models = models
        self._services = services
        self._health = health
        self._metrics = metrics
        self._token = settings.admin.token
        self._partner_ids = settings.partner_ids
        self._actions = actions

    def answer(self, call: HttpCall) -> HttpAnswer:
        """Raises: FedflowError."""
        looked = look_answer(call, self._health)
        if looked is not None:
            return looked
        check_token(call, self._token)
        if call.path == "/metrics" and call.method == "GET":
            return HttpAnswer(body=self._metrics_text(), content_type=CONTENT_TYPE)
        if call.path.startswith(_PREFIX):
            found = self._route(call)
            if found is not None:
                return _success(found())
        raise no_route(call)

    def _metrics_text(self) -> bytes:
        text = self._metrics.text(
            loaded=len(self._models.loaded()),
            refused=len(self._models.refused()),
            services=len(self._services.all()),
        )
        return text + ("\n".join(drift_lines(self._drifts())) + "\n").encode()

    def _drifts(self) -> list[tuple[VersionKey, VersionDrift]]:
        return [(one.key, one.drift) for one in self._models.loaded()]

    def _route(self, call: HttpCall) -> Callable[[], Any] | None:
        """Return what a request does; None: there is no such route."""
        models, services = self._models, self._services
        match call.method, *_words(call):
            case "GET", "models":
                return self._list_models
            case "GET", "drift":
                return lambda: drift_answer(self._drifts())
            case "GET", "bindings":
                return lambda: [self._shown(one) for one in services.all()]
            case "POST", "caches", "purge":
                return lambda: self._purged(_decoded(_purges, _json(call)))
            case "POST", "caches", "warm-ups":
                return lambda: msgspec.to_builtins(
                    self._actions.warm_up.warm(_decoded(_warm_ups, _json(call)))
                )
            case "GET", "tries":
                return lambda: {"partner_ids": self._partner_ids}
            case "POST", "tries":
                return _json_checked(call, lambda: self._actions.tried(call))
            case "POST", "loads":
                return lambda: self._prepare(_json(call))
            case "POST", "loads", load_id, "commit":
                return _json_checked(call, lambda: models.commit(load_id))
            case "POST", "loads", load_id, "abort":
                return _json_checked(call, lambda: models.abort(load_id))
            case "POST", "bindings":
                return lambda: self._bind(_json(call))
            case "POST", "bindings", service_id, "rollback":
                return _json_checked(call, lambda: _change(services.roll_back(service_id)))
            case "GET", "bindings", service_id, "comparison":
                return lambda: compared(services.get(service_id))
            case "DELETE", "bindings", service_id:
                return lambda: _change(services.unbind(service_id))
            case "DELETE", "models", version:
                return lambda: self._unload(version, call.query())
        return None

    def _prepare(self, body: bytes) -> None:
        given = _decoded(_loads, body)
        self._models.prepare(given.load_id, bytes(given.share), given.sample)

    def _bind(self, body: bytes) -> dict[str, Any]:
        given = _decoded(_binds, body)
        change = self._services.bind(given)
        return {**_change(change), "salt": self._services.get(given.service_id).bound.salt}

    def _purged(self, given: PurgeCaches) -> dict[str, int]:
        number = self._actions.purge(
            service_id=given.service_id, model_version=given.model_version, ids=given.ids
        )
        return {"purged": number}

    def _unload(self, model_version: str, query: Mapping[str, str]) -> dict[str, Any]:
        model_id, load_id = query.get("model_id", ""), query.get("load_id", "")
        if not model_id:
            raise BadServingRequest(reason="the parameter model_id is missing")
        return {"unbound": self._services.unload(model_id, model_version, load_id)}

    def _list_models(self) -> list[dict[str, Any]]:
        services = self._services.all()
        loaded = [
            {
                "role": one.key.role,
                "party_id": one.key.party_id,
                "model_id": one.key.model_id,
                "model_version": one.key.model_version,
                "digest": one.head.digest,
                "party_model_id": one.key.party_model_id,
                "load_id": one.load_id,
                "status": "loaded",
                "inputs": list(one.model.inputs),
                "texts": sorted(one.model.text_inputs),
                "hosts": list(one.model.hosts),
                "answers_callers": one.answers_callers,
                "services": _services_of(services, one.key.model_id, one.key.model_version),
            }
            for one in self._models.loaded()
        ]
        refused = [
            {
                "role": one.key.role,
                "party_id": one.key.party_id,
                "model_id": one.key.model_id,
                "model_version": one.key.model_version,
                "status": "refused",
                "reason": one.reason,
                "party_model_id": one.key.party_model_id,
                "services": _services_of(services, one.key.model_id, one.key.model_version),
            }
            for one in self._models.refused()
        ]
        return loaded + refused

    def _shown(self, service: BoundService) -> dict[str, Any]:
        history = self._services.history(service.service_id)
        return {
            "service_id": service.service_id,
            **_release(service.release),
            "bound_ms": service.bound_ms,
            "options": msgspec.to_builtins(service.options),
            "salt": service.salt,
            "history": [
                {**_release(one.release), "bound_ms": one.bound_ms, "current": one.current}
                for one in history
            ],
        }


def look_answer(call: HttpCall, health: ServingHealth) -> HttpAnswer | None:
    """Return the answer to a look at the process; None: the request is another one."""
    if call.method not in ("GET", "HEAD"):
        return None
    if call.path == "/healthz":
        return json_answer({"alive": True})
    if call.path == "/readyz":
        found = health.readiness()
        return json_answer(found, status=200 if found["ready"] else 503)
    return None


def _words(call: HttpCall) -> list[str]:
    """Return the parts of the path below `/admin/v1/`; an id may have a `/` as `%2F`."""
    raw = str(call.environ.get("REQUEST_URI", "")).partition("?")[0]
    return [unquote(word) for word in raw.removeprefix(_PREFIX).split("/")]


def _json(call: HttpCall) -> bytes:
    """Return the body; pages of other sites cannot send JSON. Raises: BadServingRequest."""
    if call.content_type != JSON:
        raise BadServingRequest(reason=f"its Content-Type is not {JSON}")
    return call.body


def _json_checked(call: HttpCall, action: Callable[[], Any]) -> Callable[[], Any]:
    def checked() -> Any:
        _json(call)
        return action()

    return checked


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise BadServingRequest(reason=f"the body: {exc}") from exc


def _services_of(services: Sequence[BoundService], model_id: str, model_version: str) -> list[str]:
    return [one.service_id for one in services if one.release.has((model_id, model_version))]


def _release(release: Release) -> dict[str, Any]:
    """Return a release, and beside it the version that answers most."""
    main = release.main
    return {
        "model_id": main.model_id,
        "model_version": main.model_version,
        "weight": main.weight,
        "versions": [
            {
                "model_id": one.model_id,
                "model_version": one.model_version,
                "weight": one.weight,
                "shadow": one.shadow,
            }
            for one in release.versions
        ],
        "rules": msgspec.to_builtins(release.rules),
    }


def _change(change: ReleaseChange) -> dict[str, Any]:
    return {
        "before": None if change.before is None else _release(change.before),
        "now": None if change.now is None else _release(change.now),
    }


def _success(data: Any) -> HttpAnswer:
    envelope = {"retcode": 0, "retmsg": "success"}
    return json_answer(envelope if data is None else {**envelope, "data": data})
