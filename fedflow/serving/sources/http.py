"""Features from an HTTP service of the host.

    features: {source: http, options: {url: "http://127.0.0.1:9000/features"}}

Asked is `POST url` with `{"ids": [{name: value, ...}, ...]}`; the answer is `{"data": [...]}` with
an object of features per item, in their order, or null if there are none. Ids stand in the body
only. Redirects are not followed, and proxies of the environment are not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import requests

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.codes import ServingCode
from fedflow.serving.sources.source import FeatureFault, Ids, not_found, options_as

_MOST_BYTES: Final = 16 * 1024 * 1024  #: of an answer


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source `http`."""

    url: str
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=60_000)] = 1_000
    headers: dict[str, str] = {}  #: such as a token of the service


class _Found(msgspec.Struct, frozen=True):
    data: list[dict[str, str | int | float | bool | None] | None]


_answers: Final = msgspec.json.Decoder(_Found)


class HttpFeatures:
    """The features that a service gives."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._clock = SystemClock()
        self._session = requests.Session()
        self._session.trust_env = False

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> list[Mapping[str, Any] | FeatureFault]:
        """Return what the service gives for each item."""
        left_s = max(deadline_s - self._clock.monotonic_s(), 0.001)
        try:
            raw = self._asked(ids, min(left_s, self._options.timeout_ms / 1000))
            found = _answers.decode(raw).data
        except (requests.RequestException, msgspec.MsgspecError, ValueError, RecursionError) as exc:
            reason = f"the feature service failed ({type(exc).__name__})"
            return [FeatureFault(retcode=ServingCode.SOURCE, reason=reason)] * len(ids)
        if len(found) != len(ids):
            reason = f"the feature service gave {len(found)} items for {len(ids)}"
            return [FeatureFault(retcode=ServingCode.SOURCE, reason=reason)] * len(ids)
        return [not_found() if one is None else _present(one) for one in found]

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _asked(self, ids: Sequence[Ids], timeout_s: float) -> bytes:
        """Return the body of the answer. Raises: requests.RequestException, ValueError."""
        end_s = self._clock.monotonic_s() + timeout_s
        with self._session.post(
            self._options.url,
            data=msgspec.json.encode({"ids": [dict(one) for one in ids]}),
            headers={"Content-Type": "application/json", **self._options.headers},
            timeout=timeout_s,
            allow_redirects=False,
            stream=True,
        ) as answer:
            if answer.status_code != requests.codes.ok:
                raise ValueError(f"status {answer.status_code}")
            body = bytearray()
            for chunk in answer.iter_content(65_536):
                body += chunk
                if len(body) > _MOST_BYTES or self._clock.monotonic_s() > end_s:
                    raise ValueError("the answer is too long, or too slow")
            return bytes(body)


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def open_source(options: Mapping[str, Any]) -> HttpFeatures:
    """Return the source; the service is not asked yet. Raises: BadServingSetting."""
    given = options_as(options, HttpOptions)
    if not given.url.startswith(("http://", "https://")):
        raise BadServingSetting(path="features.options.url", reason="http:// or https:// is needed")
    return HttpFeatures(given)
