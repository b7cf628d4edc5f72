"""Attacks on signed requests: by who can hold one back, change it and send it, or send it again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fedflow.base.clock import SystemClock
from fedflow.base.ids import new_request_id
from fedflow.client.signing import signature
from fedflow.wire import headers
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.hostile import http, request
from tests.attack.scene import APP_KEY, SECRET_KEY

_LIST: Final = "/v1/job/list/job"
_JSON: Final = "application/json"
_FORM: Final = "multipart/form-data; boundary=x"
_FIELDS: Final = "application/x-www-form-urlencoded"
_clock: Final = SystemClock()


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A request that a client with the key has signed, and what became of it on its way."""

    target: str = _LIST
    body: bytes = b'{"limit":1}'
    kind: str = _JSON
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> bytes:
        return request(
            self.method, self.target, body=self.body,
            headers={"Content-Type": self.kind, **self.headers},
        )  # fmt: skip


def signed(target: str = _LIST, body: bytes = b'{"limit":1}', *, late_s: float = 0) -> Signed:
    """Return a request as a client signs it, so many seconds ago."""
    timestamp, nonce = str(_clock.now_ms() - round(1000 * late_s)), new_request_id()
    given = {
        headers.TIMESTAMP: timestamp,
        headers.NONCE: nonce,
        "APP_KEY": APP_KEY,
        headers.SIGNATURE: signature(
            SECRET_KEY, app_key=APP_KEY, timestamp=timestamp, nonce=nonce, target=target,
            json_body=body,
        ),
    }  # fmt: skip
    return Signed(target=target, body=body, headers=given)


def _changed(job_id: str) -> Iterator[tuple[str, Signed]]:
    """Yield what a request is changed into, each time another one, and how."""
    stop = json.dumps({"job_id": job_id}).encode()
    part = b'--x\r\nContent-Disposition: form-data; name="job_id"\r\n\r\n%s\r\n--x--\r\n'
    bodies = (stop, part % job_id.encode(), b'{"job_id":"' + job_id.encode() + b'"}&', b"[]")
    for path in ("/v1/job/stop", "/v1/job/rerun", "/v1/job/clean", "/v1/table/delete", _LIST):
        for first in (b"", b"{}"):
            for kind in (_FORM, _FORM.upper(), _FIELDS, _JSON, "text/plain", ""):
                for body in bodies:
                    yield f"{first!r} as {kind}", replace(signed(path, first), body=body, kind=kind)
    one = signed()
    yield "its body", replace(one, body=b'{"limit":2}')
    yield "its query", replace(signed(), target=f"{_LIST}?limit=2")
    yield "its path", replace(signed(), target="/v1/job/query")
    yield "its time", replace(one, headers={**one.headers, headers.TIMESTAMP: "1"})
    yield "its nonce", replace(one, headers={**one.headers, headers.NONCE: new_request_id()})
    yield "its key", replace(one, headers={**one.headers, "APP_KEY": "other"})
    yield "no signature", replace(one, headers={})
    yield "an old one", signed(late_s=3_600)
    yield "one of later", signed(late_s=-3_600)
    for name in one.headers:
        without = {key: value for key, value in signed().headers.items() if key != name}
        yield f"without {name}", replace(one, headers=without)


async def signed_requests(attempt: Attempt) -> Violations:
    """Change what a client has signed: body, form, path, query, time, nonce, key."""
    victim, found = attempt.scene.host, []
    status, answer = await http(victim, signed().raw, attempt.answers)
    if status != 200 or b'"retcode":0' not in answer:
        return [f"a right request got HTTP {status}"]
    changes = list(_changed(attempt.scene.trained))
    for how, changed in attempt.rng.sample(changes, min(attempt.times(80), len(changes))):
        status, answer = await http(victim, changed.raw, attempt.answers)
        if b'"retcode":109' not in answer:
            found.append(f"{changed.target}, {how}: HTTP {status} {answer[:100]!r}")
    return found


async def replayed_requests(attempt: Attempt) -> Violations:
    """Send what a client has signed once more: later, and many times at once."""
    victim, found = attempt.scene.host, []
    for _ in range(attempt.times(10)):
        raw = signed().raw
        answers = await asyncio.gather(*(http(victim, raw, attempt.answers) for _ in range(8)))
        answers.append(await http(victim, raw, attempt.answers))
        taken = sum(b'"retcode":0' in answer for _, answer in answers)
        if taken != 1:
            found.append(f"one signature was taken {taken} times")
    return found


SIGNATURES: Final = (
    Attack(name="signed-requests", who=Who.REST_CLIENT, play=signed_requests),
    Attack(name="replayed-requests", who=Who.REST_CLIENT, play=replayed_requests),
)
