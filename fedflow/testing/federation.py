"""An in-process data plane: every site of a task attempt in one process, one mailbox for all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors.data_plane import (
    DuplicateValue,
    NothingSent,
    NotSendable,
    PeerFailed,
    UndeclaredMessage,
    ValueTooLate,
)
from fedflow.base.errors.jobs import WrongSite
from fedflow.domain.arrivals import Arrival, Departure
from fedflow.domain.site import Site
from fedflow.federation import codec
from fedflow.federation.departures import Departures

if TYPE_CHECKING:
    from fedflow.sdk.context import Value

T = TypeVar("T")

_NOTHING = object()  #: instead of a value that there is none of

DEFAULT_TIMEOUT_S = 60.0  #: how long a `recv` without an own limit waits, seconds


@dataclass(frozen=True, slots=True)
class _Key:
    """Names one value between two sites."""

    name: str
    tag: str
    source: Site
    destination: Site

    def concerns(self, site: Site) -> bool:
        return site in (self.source, self.destination)


class LocalFederation:
    """The mailbox of one task attempt, shared by threads that play its sites.

    Values behave as over a network. The receiver gets a copy of its own: arrays read-only, JSON as
    JSON gives it back. A value is sent once and read once. Every wait has a deadline, and a site
    that failed or ended wakes those who wait for it.
    """

    def __init__(
        self,
        sites: Iterable[Site],
        *,
        receive_timeout_s: float = DEFAULT_TIMEOUT_S,
        clock: Clock | None = None,
    ) -> None:
        self.sites = tuple(sites)
        self.sent_bytes = 0  #: payload of all sends so far, without headers
        self._timeout_s = receive_timeout_s
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._declared: Collection[str] | None = None
        self._values: dict[_Key, Any] = {}
        self._sent: set[_Key] = set()
        self._read: set[_Key] = set()
        self._dropped: list[tuple[Site, str]] = []  # how tags begin that nobody reads
        self._gone: dict[Site, str] = {}  # ended or failed, with the reason
        self._failed: set[Site] = set()
        self._departures = {site: Departures() for site in self.sites}

    def at(self, site: Site) -> SiteFederation:
        """Return the handle of `site`, which satisfies `fedflow.sdk.Federation`."""
        self._check_member(site)
        return SiteFederation(self, site)

    def declare(self, names: Collection[str] | None) -> None:
        """Send only messages of these names from now on; None: all."""
        self._declared = names

    def fail(self, site: Site, reason: str) -> None:
        """Let every present and future `recv` from `site` raise PeerFailed, but for arrived values.

        The first reason stays. Sends to the site raise PeerFailed too.
        """
        self._check_member(site)
        with self._changed:
            self._failed.add(site)
            self._leave(site, reason)

    def finish(self, site: Site) -> None:
        """Note that `site` ended well: who still waits for a value of it sees PeerFailed."""
        self._check_member(site)
        with self._changed:
            self._leave(site, "its task ended without sending the value")

    def again(self, site: Site) -> None:
        """Let a site that failed or ended take part again, as a task that is launched again.

        Nothing is left of what it sent, or was sent, before.
        """
        self._check_member(site)
        with self._changed:
            self._failed.discard(site)
            self._gone.pop(site, None)
            self._departures[site] = Departures()
            self._values = {k: v for k, v in self._values.items() if not k.concerns(site)}
            self._sent = {key for key in self._sent if not key.concerns(site)}
            self._read = {key for key in self._read if not key.concerns(site)}

    def unread(self) -> list[str]:
        """Return the names of values that were sent but not read, for tests of a whole protocol."""
        with self._changed:
            return sorted(f"{k.name}[{k.tag}] {k.source} -> {k.destination}" for k in self._values)

    def _leave(self, site: Site, reason: str) -> None:
        if site not in self._gone:
            self._gone[site] = reason
            for departures in self._departures.values():
                departures.add(site, reason)
        self._changed.notify_all()

    def _check_member(self, site: Site) -> None:
        if site not in self.sites:
            raise WrongSite(site=site, job_id="of this federation")

    def _put(self, key: _Key, value: Any, size: int) -> None:
        self._check_member(key.destination)
        if self._declared is not None and key.name not in self._declared:
            raise UndeclaredMessage(name=key.name)
        with self._changed:
            if key in self._sent:
                raise DuplicateValue(name=key.name, tag=key.tag, site=key.destination)
            if key.destination in self._failed:
                raise PeerFailed(site=key.destination, reason=self._gone[key.destination])
            self._sent.add(key)
            self.sent_bytes += size
            if self._is_dropped(key):
                self._read.add(key)
                return
            self._values[key] = value
            self._changed.notify_all()

    def _take(self, key: _Key, timeout_s: float | None) -> Any:
        self._check_member(key.source)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline_s = self._clock.monotonic_s() + limit_s
        with self._changed:
            if key in self._read:
                raise DuplicateValue(name=key.name, tag=key.tag, site=key.destination)
            while key not in self._values:
                if key.source in self._gone:
                    raise PeerFailed(site=key.source, reason=self._gone[key.source])
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0:
                    raise ValueTooLate(seconds=limit_s, name=key.name, tag=key.tag, site=key.source)
                self._changed.wait(left_s)
            self._read.add(key)
            value = self._values.pop(key)
            if value is _NOTHING:
                raise NothingSent(site=str(key.source), name=key.name, tag=key.tag)
            return value

    def _drop(self, own: Site, tags: str) -> None:
        with self._changed:
            self._dropped.append((own, tags))
            for key in [key for key in self._values if self._is_dropped(key)]:
                self._read.add(key)
                del self._values[key]

    def _is_dropped(self, key: _Key) -> bool:
        return any(key.destination == own and key.tag.startswith(t) for own, t in self._dropped)

    def _take_any(
        self, name: str, own: Site, sources: Sequence[Site], tags: str, timeout_s: float
    ) -> Arrival | Departure | None:
        deadline_s = self._clock.monotonic_s() + timeout_s
        with self._changed:
            while True:
                found = self._next(name, own, sources, tags)
                left_s = deadline_s - self._clock.monotonic_s()
                if found is not None or left_s <= 0:
                    return found
                self._changed.wait(left_s)

    def _next(
        self, name: str, own: Site, sources: Sequence[Site], tags: str
    ) -> Arrival | Departure | None:
        pending = self._departures[own].pending(name, tags, sources, self._gone)
        for key in self._values:
            named = key.destination == own and key.name == name and key.tag.startswith(tags)
            if named and key.source in sources:
                if key.source in pending and key.source not in self._gone:
                    return Departure(site=key.source, reason=pending.pop(key.source))
                self._read.add(key)
                value = self._values.pop(key)
                if value is _NOTHING:
                    return Arrival(site=key.source, tag=key.tag, value=None, is_nothing=True)
                return Arrival(site=key.source, tag=key.tag, value=value)
        for site in sources:
            if site in pending:
                return Departure(site=site, reason=pending.pop(site))
        return None


class SiteFederation:
    """One site's handle of a `LocalFederation`; see `fedflow.sdk.Federation`."""

    def __init__(self, mailbox: LocalFederation, site: Site) -> None:
        self._mailbox = mailbox
        self._site = site

    def send(
        self,
        name: str,
        value: Value,
        *,
        to: Site | Sequence[Site],
        tag: str = "",
        required: bool = True,
    ) -> None:
        """Send `value` to every site in `to`.

        Raises: DuplicateValue, PeerFailed, CodecError, UndeclaredMessage.
        """
        receive, size = _carried(value)
        self._send(name, receive, size, to, tag, required)

    def send_nothing(
        self,
        name: str,
        *,
        to: Site | Sequence[Site],
        tag: str = "",
        required: bool = True,
    ) -> None:
        """Tell every site in `to` that there is no such value. Raises: as `send`."""
        self._send(name, lambda: _NOTHING, 0, to, tag, required)

    def _send(
        self,
        name: str,
        receive: Callable[[], Any],
        size: int,
        to: Site | Sequence[Site],
        tag: str,
        required: bool,
    ) -> None:
        for site in (to,) if isinstance(to, Site) else to:
            key = _Key(name, tag, self._site, site)
            try:
                self._mailbox._put(key, receive(), size)
            except PeerFailed:
                if required:
                    raise

    def recv(self, name: str, *, from_: Site, tag: str = "", timeout_s: float | None = None) -> Any:
        """Wait for a value of `from_` and return it.

        Raises: PeerFailed, ValueTooLate; DuplicateValue: it was read before.
        """
        return self._mailbox._take(_Key(name, tag, from_, self._site), timeout_s)

    def recv_all(
        self, name: str, *, from_: Sequence[Site], tag: str = "", timeout_s: float | None = None
    ) -> list[Any]:
        """Return one value per site, in the order of `from_`."""
        return [self.recv(name, from_=site, tag=tag, timeout_s=timeout_s) for site in from_]

    def recv_any(
        self, name: str, *, from_: Sequence[Site], timeout_s: float, tags: str = ""
    ) -> Arrival | Departure | None:
        """Return the next value `name` of any of the sites; None: nothing came in time."""
        return self._mailbox._take_any(name, self._site, from_, tags, timeout_s)

    def drop(self, tags: str) -> None:
        """Drop the unread values whose tags begin with `tags`, and those that arrive later."""
        self._mailbox._drop(self._site, tags)

    remote = send
    get = recv


def _carried(value: Any) -> tuple[Callable[[], Any], int]:
    """Return what makes each receiver's own copy of `value`, and its size in bytes.

    Raises: NotSendable: a value of this type does not travel between parties.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biufSV" or value.dtype.hasobject:
            raise NotSendable(reason=f"arrays of dtype {value.dtype} are not sent")
        copy = np.array(value, order="C", copy=True)
        copy.setflags(write=False)
        return copy.view, copy.nbytes
    if isinstance(value, pa.Table | pa.RecordBatch):
        return lambda: value, value.nbytes
    if isinstance(value, bytes):
        return lambda: value, len(value)
    if isinstance(value, dict | list) and _has_leaves(value):
        data = b"".join(codec.encode(value).parts)
        return lambda: codec.decode(data), len(data)
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise NotSendable(reason=f"a {type(value).__name__} is not sent ({exc})") from exc
    return lambda: json.loads(text), len(text)


def _has_leaves(value: Any) -> bool:
    """Tell whether there are arrays, tables or bytes in lists and dicts."""
    if isinstance(value, dict):
        return any(_has_leaves(one) for one in value.values())
    if isinstance(value, list | tuple):
        return any(_has_leaves(one) for one in value)
    return isinstance(value, np.ndarray | pa.Table | pa.RecordBatch | bytes)
