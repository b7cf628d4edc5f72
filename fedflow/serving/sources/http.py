"""Features from an HTTP service of the host.

    features: {source: http, options: {url: "http://127.0.0.1:9000/features"}}

Asked is `POST url` with `{"ids": [{name: value, ...}, ...]}`; the answer is `{"data": [...]}` with
an object of features per item, in their order, or null if there are none. Beside `data` it may have
`version`, that of the features, and `valid_s`: for how many seconds guests may use again what was
found; 0: never. Ids stand in the body
only. Redirects are not followed, and proxies of the environment are not used.

A service that is slow for one id is slow for its call. With fewer `ids_per_call` there are several
calls, up to `calls` of them at once, and only those of the slow id fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import requests

from fedflow.base.clock import SystemClock
from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.base.thread_starts import Pool
from fedflow.serving.partners.messages import MOST_VERSION
from fedflow.serving.sources.source import (
    FeatureFault,
    FoundFeatures,
    Ids,
    Validity,
    failed_source,
    not_found,
    options_as,
    together,
)

_MOST_BYTES: Final = 16 * 1024 * 1024  #: of an answer


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source `http`."""

    url: str
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=60_000)] = 1_000  #: of a call
    headers: dict[str, str] = {}  #: such as a token of the service
    ids: list[str] = []  #: names of the ids that it is asked with; none: all that are given
    ids_per_call: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 10_000
    calls: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8  #: at once


class _Found(msgspec.Struct, frozen=True):
    data: list[msgspec.Raw]
    version: str | int | float | None = None
    valid_s: Validity = None


_answers: Final = msgspec.json.Decoder(_Found)
_items: Final = msgspec.json.Decoder(dict[str, str | int | float | bool | None] | None)


class HttpFeatures:
    """The features that a service gives."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self.id_names = frozenset(options.ids)
        self._clock = SystemClock()
        self._session = requests.Session()
        self._session.trust_env = False
        adapter = requests.adapters.HTTPAdapter(pool_maxsize=4 * options.calls)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._pool = Pool(options.calls, thread_name_prefix="fedflow-features")

    def find(
        self, ids: Sequence[Ids], *, deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        """Return what the service gives for each item."""
        number = self._options.ids_per_call
        parts = [ids[start : start + number] for start in range(0, len(ids), number)]
        if len(parts) == 1:
            return self._call(ids, deadline_s)
        found = list(self._pool.map(partial(self._call, deadline_s=deadline_s), parts))
        return together((item for part in found for item in part), found)

    def close(self) -> None:
        """Close the connections."""
        self._pool.shutdown()
        self._session.close()

    def _call(
        self, ids: Sequence[Ids], deadline_s: float
    ) -> Sequence[Mapping[str, Any] | FeatureFault]:
        left_s = deadline_s - self._clock.monotonic_s()
        if left_s <= 0:
            return [failed_source("no time was left to ask the feature service")] * len(ids)
        try:
            raw = self._asked(ids, min(left_s, self._options.timeout_ms / 1000))
            answer = _answers.decode(raw)
            version = _text(answer.version)
        except (requests.RequestException, msgspec.MsgspecError, ValueError, RecursionError) as exc:
            reason = f"the feature service failed ({type(exc).__name__})"
            return [failed_source(reason)] * len(ids)
        if len(answer.data) != len(ids):
            reason = f"the feature service gave {len(answer.data)} items for {len(ids)}"
            return [failed_source(reason)] * len(ids)
        return FoundFeatures(map(_read, answer.data), version=version, valid_s=answer.valid_s)

    def _asked(self, ids: Sequence[Ids], timeout_s: float) -> bytes:
        """Return the body of the answer. Raises: requests.RequestException, ValueError."""
        end_s = self._clock.monotonic_s() + timeout_s
        with self._session.post(
            self._options.url,
            data=msgspec.json.encode({"ids": [self._sent(one) for one in ids]}),
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

    def _sent(self, ids: Ids) -> Ids:
        """Return the ids of an item that the service gets."""
        names = self.id_names
        return {name: value for name, value in ids.items() if not names or name in names}


def _text(version: str | float | None) -> str:
    """Raises: ValueError: it is too long."""
    text = "" if version is None else str(version)
    if len(text) > MOST_VERSION:
        raise ValueError(f"the version has {len(text)} characters")
    return text


def _read(raw: msgspec.Raw) -> Mapping[str, Any] | FeatureFault:
    try:
        values = _items.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return failed_source("the feature service gave something that are no features")
    if values is None:
        return not_found()
    return {name: value for name, value in values.items() if value is not None}


def open_source(options: Mapping[str, Any]) -> HttpFeatures:
    """Return the source; the service is not asked yet. Raises: BadServingSetting."""
    given = options_as(options, HttpOptions)
    if not given.url.startswith(("http://", "https://")):
        raise BadServingSetting(path="features.options.url", reason="http:// or https:// is needed")
    return HttpFeatures(given)
