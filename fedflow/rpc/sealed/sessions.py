"""The sessions that other parties opened here, and which of their calls have come already."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from typing import Final

from fedflow.base.errors.parties import SealBroken, SealReplayed
from fedflow.rpc.sealed.agreement import WINDOW_MS, SealedSession, SessionHello

LIFETIME_S: Final = 3_600.0  #: after which calls need a new session
LATE_S: Final = 60.0  #: for so long calls of an old one are still taken
PER_PARTY: Final = 64  #: sessions; the one that was used longest ago goes first
CALLS_BACK: Final = 8_192  #: a call whose number is so far behind the newest counts as a repeat
HELLOS: Final = 512  #: proposals of one party within the window; further ones are refused


class CallNumbers:
    """Which calls of a session have come. Source: RFC 4303, 3.4.3 (anti-replay window)."""

    def __init__(self) -> None:
        self._newest = 0
        self._seen = 0  #: bit n: the call that is n before the newest has come

    def check(self, call: int) -> None:
        """Raises: SealReplayed: a call has come already, or is too old to tell."""
        back = self._newest - call
        if call < 1 or back >= CALLS_BACK or (back >= 0 and self._seen >> back & 1):
            raise SealReplayed(call=call)

    def add(self, call: int) -> None:
        """Note that a call has come, once it is known to be its party's. Raises: SealReplayed."""
        self.check(call)
        ahead = call - self._newest
        if ahead > 0:
            kept = self._seen << ahead if ahead < CALLS_BACK else 0
            self._seen = (kept | 1) & _MASK
            self._newest = call
        else:
            self._seen |= 1 << -ahead


_MASK: Final = (1 << CALLS_BACK) - 1


class OpenSession:
    """A session of another party, with the numbers of its calls."""

    def __init__(self, session: SealedSession) -> None:
        self.session = session
        self.calls = CallNumbers()
        self.since_s = time.monotonic()


class PartySessions:
    """Sessions by their id, bounded per party (thread-safe)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, OrderedDict[bytes, OpenSession]] = {}
        self._hellos: dict[str, deque[tuple[float, bytes]]] = {}

    def see(self, hello: SessionHello) -> None:
        """Note a proposal that is signed. Raises: SealReplayed; SealBroken: there are too many."""
        now_s = time.monotonic()
        with self._lock:
            seen = self._hellos.setdefault(hello.source, deque())
            while seen and now_s - seen[0][0] > 2 * WINDOW_MS / 1000:
                seen.popleft()
            if any(nonce == hello.nonce for _, nonce in seen):
                raise SealReplayed(call=0)
            if len(seen) >= HELLOS:
                raise SealBroken(reason="its party proposes too many sessions")
            seen.append((now_s, hello.nonce))

    def add(self, session: SealedSession) -> None:
        """Keep a session."""
        with self._lock:
            own = self._of.setdefault(session.source, OrderedDict())
            own[session.session_id] = OpenSession(session)
            if len(own) > PER_PARTY:
                own.popitem(last=False)

    def find(self, session_id: bytes) -> OpenSession | None:
        """Return a session; None: it is not known here, or too old."""
        with self._lock:
            for own in self._of.values():
                found = own.get(session_id)
                if found is None:
                    continue
                if time.monotonic() - found.since_s > LIFETIME_S + LATE_S:
                    del own[session_id]
                    return None
                own.move_to_end(session_id)
                return found
        return None
