"""torch's rendezvous handler over the engine of `fedflow.elastic`.

A round: leave the last one, join, then meet at the store of rank 0. Each member opens a store for
each round, as it may get rank 0, and shows its address in the state. A thread sends heartbeats
while the workers run. A server that does not answer does not end them: who joins or leaves waits
for it, and who only looks sees what was there before.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import SystemRandom
from typing import Any, Final

from torch.distributed import DistError, PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)

from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.rendezvous import (
    RendezvousClosed,
    RendezvousEnded,
    RendezvousStateCorrupt,
    RendezvousTimeout,
    RendezvousUnreachable,
)
from fedflow.elastic.backend import Backend
from fedflow.elastic.executor import run, steps
from fedflow.elastic.member import MemberIdentity, member_name
from fedflow.elastic.operators import Operator, close, join, keep_alive, leave
from fedflow.elastic.patience import PatientBackend
from fedflow.elastic.run_backend import RunBackend
from fedflow.elastic.state import Membership, State, state_from_bytes
from fedflow.torchrun.links import open_link
from fedflow.torchrun.options import Options, read_options

logger = logging.getLogger(__name__)

NAME: Final = "fedflow"
_FIRST_S: Final = 0.3  #: a first round begins after a random pause, at most so long
_LOOK_S: Final = 1.0  #: how old the state may be that torch's loop looks at
_STORE_S: Final = 30.0  #: how long a member waits for the store of rank 0
_NUMBERS: Final = itertools.count()
_ERRORS: Final = (
    (RendezvousClosed, RendezvousClosedError),
    (RendezvousTimeout, RendezvousTimeoutError),
    (RendezvousEnded, RendezvousGracefulExitError),
    (RendezvousStateCorrupt, RendezvousStateError),
    (RendezvousUnreachable, RendezvousConnectionError),
    (FedflowError, RendezvousError),
)


def create_handler(params: RendezvousParameters) -> FedflowHandler:
    """Return the handler of a run, whose server has answered.

    Raises: ValueError: an option is wrong. RendezvousError: the endpoint is over an exchange.
    RendezvousConnectionError, RendezvousStateError.
    """
    with _as_torch():
        options = read_options(
            params.endpoint, params.run_id, min_nodes=params.min_nodes, max_nodes=params.max_nodes,
            local_addr=params.local_addr, config=params.config,
        )  # fmt: skip
    clock = SystemClock()
    backend = RunBackend(NAME, open_link(options), monotonic_s=clock.monotonic_s)
    first = PatientBackend(backend, _Timer(), limit_s=options.connect_timeout_s)
    with _as_torch():
        found = first.get_state()
        if found is not None:
            state_from_bytes(found.state)
    return FedflowHandler(options, backend)


class FedflowHandler(RendezvousHandler):  # type: ignore[misc]
    """See `torch.distributed.elastic.rendezvous.RendezvousHandler`."""

    def __init__(self, options: Options, backend: Backend) -> None:
        self._options = options
        self._settings = options.settings
        self._timer = _Timer()
        self._backend = backend
        self._patient = PatientBackend(backend, self._timer, limit_s=options.reconnect_timeout_s)
        self._rng = SystemRandom()
        self._host = options.local_address or socket.getfqdn()
        self._name = member_name(self._host, process=os.getpid(), number=next(_NUMBERS))
        self._member = MemberIdentity(name=self._name)
        self._lock = threading.RLock()  #: of the back end, which one thread at a time uses
        self._seen: tuple[float, State] | None = None  #: the last state, and when it was read
        self._stores: list[TCPStore] = []  #: of this round and the last, at this member
        self._heartbeats: tuple[threading.Thread, threading.Event] | None = None
        self._first = True

    def get_backend(self) -> str:
        return NAME

    def get_run_id(self) -> str:
        return self._settings.run_id

    @property
    def use_agent_store(self) -> bool:
        """Tell that workers meet at the store of the agent of rank 0."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Return rank, size and store of the next round, once it is complete.

        Raises: RendezvousClosedError, RendezvousGracefulExitError, RendezvousTimeoutError,
        RendezvousStateError, RendezvousConnectionError.
        """
        self._stop_heartbeats()
        if self._first:  # so that members that start together do not all write at once
            self._first = False
            self._timer.pause(self._rng.random() * _FIRST_S)
        end_s = self._timer.monotonic_s() + self._settings.join_timeout_s
        with _as_torch():
            while True:
                self._open_store()
                self._run(leave, self._settings.close_timeout_s, self._patient)
                state = self._run(join, self._settings.join_timeout_s, self._patient)
                self._start_heartbeats()
                try:
                    return self._meet(state)
                except DistError as exc:  # rank 0 is gone already: this round comes to nothing
                    logger.warning("round %d has no store: %s", state.round, exc)
                    self._stop_heartbeats()
                    if self._timer.monotonic_s() > end_s:
                        seconds = round(self._settings.join_timeout_s)
                        raise RendezvousTimeout(
                            run_id=self._settings.run_id, seconds=seconds
                        ) from exc

    def is_closed(self) -> bool:
        """Tell whether the run is closed, as far as the server can be asked."""
        with _as_torch():
            return self._look().closed

    def set_closed(self) -> None:
        """Let there be no further rounds."""
        with _as_torch():
            self._run(close, self._settings.close_timeout_s, self._patient)

    def num_nodes_waiting(self) -> int:
        """Return how many members wait for the next round, as far as the server can be asked."""
        with _as_torch():
            return len(self._look().at(Membership.WAITING))

    def shutdown(self) -> bool:
        """Close the run; tell whether that went well."""
        self._stop_heartbeats()
        try:
            self.set_closed()
        except RendezvousError as exc:
            logger.warning("the run %s could not be closed: %s", self._settings.run_id, exc)
            return False
        return True

    # --- the engine -----------------------------------------------------------------------------

    def _run(self, operator: Operator, timeout_s: float, backend: Backend) -> State:
        with self._lock:
            work = steps(
                operator, member=self._member, settings=self._settings, timeout_s=timeout_s,
                monotonic_s=self._timer.monotonic_s, now_ms=backend.now_ms, rng=self._rng,
            )  # fmt: skip
            state = run(work, backend, self._timer)
            self._seen = (self._timer.monotonic_s(), state)
            return state

    def _look(self) -> State:
        """Return the state as it was at most a second ago, or as it was when the server answered
        last.
        """
        with self._lock:
            now_s = self._timer.monotonic_s()
            if self._seen is not None and now_s - self._seen[0] < _LOOK_S:
                return self._seen[1]
            try:
                found = self._backend.get_state()
            except RendezvousUnreachable as exc:
                logger.warning("%s", exc.message)
                state = self._seen[1] if self._seen is not None else State()
            else:
                state = State() if found is None else state_from_bytes(found.state)
            self._seen = (self._timer.monotonic_s(), state)
            return state

    # --- stores -----------------------------------------------------------------------------------

    def _open_store(self) -> None:
        """Open a store for a round, and forget that of the last but one.

        Each round has its own: keys of an earlier round would mislead the workers.
        """
        store = TCPStore(
            host_name=self._host, port=0, is_master=True, wait_for_workers=False,
            multi_tenant=False, timeout=timedelta(seconds=_STORE_S),
        )  # fmt: skip
        self._stores = [*self._stores[-1:], store]
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self._member = MemberIdentity(name=self._name, address=f"{shown}:{store.port}")

    def _meet(self, state: State) -> RendezvousInfo:
        """Return what torch needs of a complete round. Raises: DistError: rank 0 is not there."""
        ranks = state.ranks
        rank = ranks[self._name]
        if rank == 0:
            store, address = self._stores[-1], self._member.address
        else:
            address = next((state.members[n].address for n, r in ranks.items() if r == 0), "")
            store = None
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdigit():
            raise DistError("rank 0 has left, or shows no address")
        if store is None:
            store = TCPStore(
                host_name=host, port=int(port), is_master=False, wait_for_workers=False,
                timeout=timedelta(seconds=_STORE_S),
            )  # fmt: skip
        logger.info("%s has rank %d of %d in round %d", self._name, rank, state.size, state.round)
        return RendezvousInfo(
            PrefixStore(f"fedflow/{state.round}", store),
            rank,
            state.size,
            RendezvousStoreInfo(host, int(port)),
        )

    # --- heartbeats -------------------------------------------------------------------------------

    def _start_heartbeats(self) -> None:
        stop = threading.Event()
        thread = threading.Thread(
            target=self._beat, args=(stop,), name="fedflow-rendezvous-heartbeat", daemon=True
        )
        self._heartbeats = (thread, stop)
        thread.start()

    def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            thread, stop = self._heartbeats
            self._heartbeats = None
            stop.set()
            thread.join()

    def _beat(self, stop: threading.Event) -> None:
        while not pause(self._settings.keep_alive_interval_s, stop):
            try:
                self._run(keep_alive, self._settings.heartbeat_timeout_s, self._backend)
            except FedflowError as exc:
                logger.warning("a heartbeat failed: %s", exc.message)


class _Timer:
    """See `executor.Timer`."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._never = threading.Event()

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    def pause(self, seconds: float) -> None:
        pause(seconds, self._never)


@contextmanager
def _as_torch() -> Iterator[None]:
    """Raise torch's own errors for those of fedflow."""
    try:
        yield
    except FedflowError as exc:
        kind: Any = next(torchs for ours, torchs in _ERRORS if isinstance(exc, ours))
        raise kind(str(exc)) from exc
