"""Looking at a party's serving processes: all at once, each within a short time.

A process that does not answer, or answers what cannot be read, is a state like others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec
import requests
from urllib3.exceptions import HTTPError

from fedflow.app.ports.serving import ServingProcessState, TriedReply
from fedflow.base.clock import SystemClock
from fedflow.base.settings import LOOPBACK
from fedflow.base.thread_starts import Pool
from fedflow.wire.prometheus_text import samples
from fedflow.wire.serving_states import (
    ComparedVersion,
    DriftVersion,
    PartnerIds,
    ProcessReadiness,
    ServedVersion,
    ServiceSplit,
    TriedRequest,
)

UNANSWERED: Final = (requests.RequestException, HTTPError, OSError)

_LONGEST_S: Final = 3.0  #: of a process with all that is asked
_STEP_S: Final = 1.5  #: without a byte
_TRY_S: Final = 10.0  #: of a request that is tried
_MOST_BYTES: Final = 8 << 20  #: of an answer
_THREADS: Final = 16
_COMPARED: Final = 20  #: services whose versions are compared

T = TypeVar("T")


class _Said(msgspec.Struct, frozen=True):
    """The envelope of an answer."""

    retcode: int
    data: msgspec.Raw = msgspec.Raw(b"null")


_said: Final = msgspec.json.Decoder(_Said)
_readiness: Final = msgspec.json.Decoder(ProcessReadiness)
_versions: Final = msgspec.json.Decoder(list[ServedVersion])
_services: Final = msgspec.json.Decoder(list[ServiceSplit])
_compared: Final = msgspec.json.Decoder(list[ComparedVersion])
_drift: Final = msgspec.json.Decoder(list[DriftVersion])
_ids: Final = msgspec.json.Decoder(PartnerIds)
_tried: Final = msgspec.json.Decoder(TriedRequest)


class _Refused(Exception):
    """A process answers with an HTTP status that is no success."""


def read_states(addresses: Sequence[str], headers: Mapping[str, str]) -> list[ServingProcessState]:
    """Return what the processes at these admin ports say, in their order."""
    pool = Pool(min(len(addresses), _THREADS) or 1, thread_name_prefix="fedflow-servings")
    try:
        found = [pool.submit(_state, address, headers) for address in addresses]
        done, _ = wait(found, timeout=_LONGEST_S + 1)
        return [
            one.result() if one in done else ServingProcessState(address=address, trouble="silent")
            for address, one in zip(addresses, found, strict=True)
        ]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def first_answer(
    addresses: Sequence[str],
    headers: Mapping[str, str],
    service_id: str,
    features: Mapping[str, Any],
    ids: Mapping[str, Any],
) -> TriedReply:
    """Return what the first process that answers says to a request of a service."""
    row = {"featureData": features, "sendToRemoteFeatureData": ids}
    body = {"head": {"serviceId": service_id}, "body": row}
    for address in addresses:
        port = _AdminPort(address, headers, longest_s=_TRY_S, step_s=_TRY_S)
        try:
            answer = _tried.decode(port.data("tries", body=body))
        except (*UNANSWERED, _Refused, msgspec.MsgspecError):
            continue
        finally:
            port.close()
        return TriedReply(address=address, answer=answer)
    return TriedReply(address=addresses[-1] if addresses else "", answer=None)


def base_url(address: str, session: requests.Session) -> str:
    """Return the URL of an admin port; one on this machine is asked without a proxy."""
    url = address if "://" in address else f"http://{address}"
    if url.partition("://")[2].rpartition(":")[0].strip("[]") in LOOPBACK:
        session.trust_env = False
    return url.rstrip("/")


def _state(address: str, headers: Mapping[str, str]) -> ServingProcessState:
    port = _AdminPort(address, headers, longest_s=_LONGEST_S, step_s=_STEP_S)
    try:
        services = _services.decode(port.data("bindings"))
        return ServingProcessState(
            address=address,
            readiness=_readiness.decode(port.get("/readyz", allowed=(200, 503))),
            versions=_versions.decode(port.data("models")),
            services=services,
            comparisons=_comparisons(port, services),
            drift=_drift.decode(port.data("drift")),
            partner_ids=_ids.decode(port.data("tries")).partner_ids,
            samples=list(samples(port.get("/metrics").decode())),
        )
    except _Refused:
        return ServingProcessState(address=address, trouble="refused")
    except UNANSWERED:
        return ServingProcessState(address=address, trouble="silent")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ServingProcessState(address=address, trouble="unreadable")
    finally:
        port.close()


def _comparisons(
    port: _AdminPort, services: Sequence[ServiceSplit]
) -> dict[str, list[ComparedVersion]]:
    """Return how the versions of services compare, of the first services with several versions."""
    several = [one.service_id for one in services if len(one.versions) > 1][:_COMPARED]
    return {
        name: _compared.decode(port.data(f"bindings/{quote(name, safe='')}/comparison"))
        for name in several
    }


class _AdminPort:
    """Requests to one admin port, with a time limit for all of them together."""

    def __init__(
        self, address: str, headers: Mapping[str, str], *, longest_s: float, step_s: float
    ) -> None:
        """`step_s` is the longest time without a byte."""
        self._session = requests.Session()
        self._url = base_url(address, self._session)
        self._headers = headers
        self._clock = SystemClock()
        self._step_s = step_s
        self._end_s = self._clock.monotonic_s() + longest_s

    def close(self) -> None:
        """End the connections."""
        self._session.close()

    def data(self, path: str, *, body: Mapping[str, Any] | None = None) -> msgspec.Raw:
        """Return the data of an answer. Raises: as `get`; msgspec.MsgspecError."""
        said = _said.decode(self.get(f"/admin/v1/{path}", body=body))
        if said.retcode:
            raise _Refused
        return said.data

    def get(
        self,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        allowed: tuple[int, ...] = (200,),
    ) -> bytes:
        """Return an answer. Raises: requests.RequestException, OSError, _Refused."""
        left_s = self._end_s - self._clock.monotonic_s()
        if left_s <= 0:
            raise requests.Timeout
        response = self._session.request(
            "GET" if body is None else "POST",
            f"{self._url}{path}",
            json=body,
            headers=dict(self._headers),
            timeout=min(self._step_s, left_s),
            allow_redirects=False,
            stream=True,
        )
        with response:
            content = response.raw.read(_MOST_BYTES + 1, decode_content=True)
        if response.status_code not in allowed or len(content) > _MOST_BYTES:
            raise _Refused
        return bytes(content)
