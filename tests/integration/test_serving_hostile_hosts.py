"""A host that answers garbage, too little, no numbers, late, or that ends calls: each has a code.

The host is a gRPC server of the test, the guest a real process. After each fault the next request
has its score.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf, nan
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from fedflow.serving.partners.messages import (
    METHOD,
    PartnerResponse,
    pack_message,
    read_partner_request,
)
from fedflow.serving.scoring.host_answer import answer_of
from tests.support.linear_model import (
    GUEST,
    HOST,
    INTERCEPT,
    expected_score,
    logistic,
    share_of,
)
from tests.support.serving_processes import ROWS, ServingPlace
from tests.support.serving_traffic import quiet_end

ROW = {"x0": 1.0, "x1": 2.0}
SCORE = expected_score({**ROW, **ROWS["u1"]})
PART = 2.0 * ROWS["u1"]["y0"] + 0.125 * ROWS["u1"]["y1"]

Answer = Callable[[int, grpc.ServicerContext], bytes]


def part(scores: list[float]) -> bytes:
    values = np.array(scores, np.float64)[:, None]
    return answer_of(np.zeros(len(scores), np.bool_), scores=values).to_bytes()


def good(rows: int, _: grpc.ServicerContext) -> bytes:
    return pack_message(PartnerResponse(partial=part([PART] * rows)))


class HostileHost:
    """Answers well, unless a test says how the next calls are answered."""

    def __init__(self) -> None:
        self.next: list[Answer] = []
        self._server = grpc.server(ThreadPoolExecutor(4))
        _, service, method = METHOD.split("/")
        handler = grpc.unary_unary_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _serve(self, raw: bytes, context: grpc.ServicerContext) -> bytes:
        rows = len(read_partner_request(raw).ids)
        return (self.next.pop(0) if self.next else good)(rows, context)

    def stop(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServingPlace, HostileHost]]:
    host = HostileHost()
    guest = ServingPlace(
        tmp_path_factory.mktemp("guest"),
        {
            "party_id": GUEST, "callers": {"port": 0}, "admin": {"port": 0},
            "partners": {"port": 0}, "routes": {HOST: f"127.0.0.1:{host.port}"},
            "limits": {"single_ms": 1000, "batch_ms": 1000, "circuit_failures": 1000},
        },
    )  # fmt: skip
    with quiet_end(guest):
        guest.start()
        guest.load("load-v1", share_of("guest"))
        guest.bind()
        yield guest, host
    host.stop()


def raw(value: bytes) -> Answer:
    return lambda *_: value


def parts(scores: list[float]) -> Answer:
    return raw(pack_message(PartnerResponse(partial=part(scores))))


def ends(code: grpc.StatusCode) -> Answer:
    def answer(_: int, context: grpc.ServicerContext) -> bytes:
        context.abort(code, "said the host")
        return b""

    return answer


def cancels(_: int, context: grpc.ServicerContext) -> bytes:
    context.cancel()  # as a server does that stops
    return b""


def whole(answer: PartnerResponse) -> Answer:
    return raw(pack_message(answer))


UNUSABLE = {
    "nothing": raw(b""),
    "text": raw(b"<html>Bad gateway</html>"),
    "zeros": raw(b"\0" * 100_000),
    "another shape": raw(b"\x81\xa7partial\x01"),
    "no part": whole(PartnerResponse()),
    "no rows": parts([]),
    "too many": parts([PART, PART]),
    "nan": parts([nan]),
    "inf": parts([inf]),
    "half a part": whole(PartnerResponse(partial=part([PART])[:-3])),
    "no such code": whole(PartnerResponse(retcode=7, message="x")),
    "other rows": whole(PartnerResponse(partial=part([PART]), errors={5: (113, "x")})),
    "code 0": whole(PartnerResponse(partial=part([PART]), errors={0: (0, "x")})),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_an_answer_that_cannot_be_used_is_code_2135(
    both: tuple[ServingPlace, HostileHost], kind: str
) -> None:
    guest, host = both
    host.next = [UNUSABLE[kind]]
    answer = guest.infer(ROW)
    assert answer["retcode"] == 2135, answer
    assert "score" not in str(answer.get("data"))
    assert guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)


@pytest.mark.parametrize("scores", [[PART] * 2, [PART, PART, nan], [PART, PART, PART, PART]])
def test_too_few_too_many_or_no_scores_fail_the_whole_batch(
    both: tuple[ServingPlace, HostileHost], scores: list[float]
) -> None:
    guest, host = both
    items = [
        {"index": n, "featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1"}}
        for n in range(3)
    ]
    host.next = [parts(scores)]
    found = guest.batch(items)["batchDataList"]
    assert [one["retcode"] for one in found] == [2135] * 3
    found = guest.batch(items)["batchDataList"]
    assert [one["data"]["score"] for one in found] == pytest.approx([SCORE] * 3, abs=1e-12)


@pytest.mark.parametrize(
    ("code", "retcode"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, 2121),
        (grpc.StatusCode.UNAUTHENTICATED, 2121),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 2124),
        (grpc.StatusCode.INTERNAL, 2105),
        (grpc.StatusCode.UNIMPLEMENTED, 2105),
    ],
)
def test_a_status_of_the_host_has_a_code(
    both: tuple[ServingPlace, HostileHost], code: grpc.StatusCode, retcode: int
) -> None:
    guest, host = both
    host.next = [ends(code)]
    assert guest.infer(ROW)["retcode"] == retcode
    assert guest.infer(ROW)["retcode"] == 0


@pytest.mark.parametrize("gone", [cancels, ends(grpc.StatusCode.UNAVAILABLE)])
def test_a_call_that_a_stopping_server_ends_is_made_again(
    both: tuple[ServingPlace, HostileHost], gone: Answer
) -> None:
    guest, host = both
    host.next = [gone]
    assert guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    host.next = [gone, gone]  # but not for ever
    assert guest.infer(ROW)["retcode"] == 2105
    assert guest.infer(ROW)["retcode"] == 0


def test_a_slow_host_takes_no_longer_than_the_budget(
    both: tuple[ServingPlace, HostileHost],
) -> None:
    guest, host = both

    def slow(rows: int, context: grpc.ServicerContext) -> Any:
        time.sleep(2.0)
        return good(rows, context)

    host.next = [slow]
    began_s = time.monotonic()
    answer = guest.infer(ROW)
    assert answer["retcode"] == 2105, answer
    assert 0.9 < time.monotonic() - began_s < 1.9
    assert guest.infer(ROW)["retcode"] == 0


def test_a_part_that_the_model_cannot_use_is_not_kept(tmp_path: Path) -> None:
    """It is whole, so a cache takes it; another request for the same user has its score."""
    host = HostileHost()
    guest = ServingPlace(
        tmp_path,
        {
            "party_id": GUEST, "callers": {"port": 0}, "admin": {"port": 0},
            "partners": {"port": 0}, "routes": {HOST: f"127.0.0.1:{host.port}"},
            "caches": {"partners": {"enabled": True}},
        },
    )  # fmt: skip
    with quiet_end(guest):
        guest.start()
        guest.load("load-v1", share_of("guest"))
        guest.bind()
        without_scores = answer_of(np.zeros(1, np.bool_)).to_bytes()
        host.next = [whole(PartnerResponse(partial=without_scores))]
        assert guest.infer(ROW)["retcode"] == 2135
        assert guest.infer(ROW)["data"]["score"] == pytest.approx(SCORE, abs=1e-12)
    host.stop()


def test_a_user_whom_one_host_of_two_does_not_know(tmp_path: Path) -> None:
    """Such a row has the code of that host, or `guest_only` without it; the others have scores."""
    knows, does_not = HostileHost(), HostileHost()
    hosts = {HOST: knows, "10001": does_not}
    guest = ServingPlace(
        tmp_path,
        {
            "party_id": GUEST, "callers": {"port": 0}, "admin": {"port": 0},
            "partners": {"port": 0},
            "routes": {party: f"127.0.0.1:{one.port}" for party, one in hosts.items()},
        },
    )  # fmt: skip
    items = [
        {"index": n, "featureData": ROW, "sendToRemoteFeatureData": {"device_id": "u1"}}
        for n in range(3)
    ]
    lacks = PartnerResponse(partial=part([1.0] * 3), errors={1: (113, "no features for the id")})
    own = 0.5 * ROW["x0"] - 1.25 * ROW["x1"] + INTERCEPT
    with quiet_end(guest):
        guest.start()
        guest.load("load", share_of("guest", roles={"guest": [GUEST], "host": list(hosts)}))
        guest.bind()
        does_not.next = [whole(lacks), whole(lacks)]
        found = guest.batch(items)["batchDataList"]
        assert [one["retcode"] for one in found] == [0, 2113, 0]
        assert found[0]["data"]["score"] == pytest.approx(logistic(own + PART + 1.0), abs=1e-12)
        helps = {"service_id": "credit", "options": {"on_fault": "guest_only"}}
        assert guest.admin("POST", "bindings", helps)[0] == 200
        found = guest.batch(items)["batchDataList"]
        assert [one["retcode"] for one in found] == [0, 0, 0]
        scores = [one["data"]["score"] for one in found]
        wanted = [logistic(own + PART + other) for other in (1.0, 0.0, 1.0)]
        assert scores == pytest.approx(wanted, abs=1e-12)
    knows.stop()
    does_not.stop()
