"""Requests at a steady rate, each answer compared with the offline score of its version."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.support.linear_model import INTERCEPT, WEIGHTS, logistic, share_of
from tests.support.serving_processes import ROWS, ServingPlace

Row = Mapping[str, float]

HOST_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "v1": WEIGHTS["host"],
    "v2": {"y0": -1.0, "y1": 0.5},
    "v3": {"y0": 0.75, "y1": -0.375},
}
"""A score of one version's guest and another one's host is that of no version."""
GUEST_INTERCEPTS: Mapping[str, float] = {"v1": INTERCEPT, "v2": -0.5, "v3": 1.0}


def shares(version: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the guest's and the host's share of a version."""
    return (
        share_of("guest", version, intercept=GUEST_INTERCEPTS[version]),
        share_of("host", version, weights=dict(HOST_WEIGHTS[version])),
    )


def offline(version: str, row: Row, user: str) -> float:
    """Return the score of a row as the offline prediction has it."""
    own = sum(WEIGHTS["guest"][name] * value for name, value in row.items())
    theirs = sum(HOST_WEIGHTS[version][name] * value for name, value in ROWS[user].items())
    return logistic(GUEST_INTERCEPTS[version] + own + theirs)


@dataclass
class Traffic:
    """What came of the requests so far."""

    codes: Counter[int] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    failures: list[tuple[float, int, str]] = field(default_factory=list)  #: when, code, sentence
    times_s: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Forget what came before."""
        self.codes.clear()
        self.versions.clear()
        self.failures.clear()
        self.times_s.clear()

    def add(self, answer: Any, row: Row, user: str, took_s: float) -> None:
        """Count one answer."""
        code = answer["retcode"]
        self.codes[code] += 1
        self.times_s.append(took_s)
        if code:
            self.failures.append((time.monotonic(), code, answer["retmsg"]))
            return
        version, score = answer["data"]["modelVersion"], answer["data"]["score"]
        self.versions[version] += 1
        if abs(score - offline(version, row, user)) > 1e-12:
            self.wrong.append(f"{version} {row} {user}: {score}")


class _Caller:
    """One connection of a caller, opened again when it ends."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._link: http.client.HTTPConnection | None = None

    def ask(self, row: Row, user: str) -> Any:
        body = json.dumps(
            {
                "head": {"serviceId": "credit"},
                "body": {"featureData": row, "sendToRemoteFeatureData": {"device_id": user}},
            }
        )
        if self._link is None:
            self._link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        headers = {"Content-Type": "application/json"}
        self._link.request("POST", "/federation/v1/inference", body, headers)
        return json.loads(self._link.getresponse().read())

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


@contextmanager
def traffic(guest: ServingPlace, *, per_second: float, callers: int = 8) -> Iterator[Traffic]:
    """Ask for scores until the end, `per_second` of them, whatever the answers take."""
    found, stop, lock = Traffic(), threading.Event(), threading.Lock()
    port, begun_s = guest.settings["callers"]["port"], time.monotonic()

    def ask_on(number: int) -> None:
        caller, rng, turn = _Caller(port), Random(number), number
        while not stop.wait(max(begun_s + turn / per_second - time.monotonic(), 0)):
            turn += callers
            row = {"x0": rng.uniform(-2, 2), "x1": rng.uniform(-2, 2)}
            user, started_s = rng.choice(list(ROWS)), time.monotonic()
            try:
                answer = caller.ask(row, user)
            except (OSError, http.client.HTTPException, ValueError) as exc:
                caller.close()
                answer = {"retcode": -1, "retmsg": repr(exc)}
            with lock:
                found.add(answer, row, user, time.monotonic() - started_s)
        caller.close()

    threads = [threading.Thread(target=ask_on, args=(n,)) for n in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


@contextmanager
def quiet_end(*places: ServingPlace) -> Iterator[None]:
    """Stop processes at the end."""
    try:
        yield
    finally:
        for one in places:
            with suppress(OSError):
                one.stop()
