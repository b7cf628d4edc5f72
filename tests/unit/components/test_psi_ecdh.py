"""Blinding in one and in several processes, and points that a hostile peer may send."""

from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors import CodecError, ComponentFailed
from fedflow.components.psi import workers
from fedflow.components.psi.curve import POINT_BYTES
from fedflow.components.psi.ecdh import (
    Blinder,
    as_column,
    check_distinct,
    parse_points,
    secret_order,
)

P = 2**255 - 19
SMALL_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
]


def encode(number: int) -> bytes:
    return number.to_bytes(POINT_BYTES, "little")


def test_two_parties_reach_the_same_value_for_the_same_id() -> None:
    ids = pa.array(["7", "8", "Zoë"])
    a, b = Blinder(), Blinder()
    one = b.blind_points(a.blind_ids(ids, b"d"))
    other = a.blind_points(b.blind_ids(ids, b"d"))
    assert one.shape == (3, POINT_BYTES)
    assert one.tobytes() == other.tobytes()
    assert Blinder().blind_ids(ids, b"d").tobytes() != Blinder().blind_ids(ids, b"d").tobytes()


def test_another_domain_gives_other_points() -> None:
    ids = pa.array(["7"])
    blinder = Blinder(secret=bytes(range(32)))
    assert blinder.blind_ids(ids, b"d").tobytes() != blinder.blind_ids(ids, b"e").tobytes()


def test_several_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FORK_FROM", 10)
    ids = pa.array([f"id-{i}" for i in range(1001)])
    secret = bytes(range(32))
    done: list[float] = []
    alone = Blinder(secret=secret).blind_ids(ids, b"d")
    forked = Blinder(secret=secret, processes=3).blind_ids(ids, b"d", progress=done.append)
    assert forked.tobytes() == alone.tobytes()
    assert done[-1] == 1.0
    twice = Blinder(secret=secret, processes=3).blind_points(forked)
    assert twice.tobytes() == Blinder(secret=secret).blind_points(alone).tobytes()


def test_a_bad_point_in_a_forked_share_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FORK_FROM", 10)
    points = Blinder().blind_ids(pa.array(map(str, range(100))), b"d").copy()
    points[90] = 0
    with pytest.raises(CodecError):
        Blinder(processes=2).blind_points(points)


def test_a_worker_that_dies_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FORK_FROM", 10)

    def work(start: int, stop: int, out: memoryview) -> None:
        if start:
            raise SystemExit(7)

    with pytest.raises(ComponentFailed, match="7"):
        workers.fill_points(20, work, processes=2, progress=lambda done: None)


def test_a_worker_that_is_stuck_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers, "FORK_FROM", 10)
    monkeypatch.setattr(workers, "STALL_S", 0.1)
    here = os.getpid()

    def work(start: int, stop: int, out: memoryview) -> None:
        if os.getpid() != here:
            threading.Event().wait()
        out[:] = bytes([start]) * len(out)

    points = workers.fill_points(30, work, processes=3, progress=lambda done: None)
    assert points[:, 0].tolist() == [0] * 10 + [10] * 10 + [20] * 10
    assert caplog.text.count("is stuck") == 2
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("number", SMALL_ORDER)
def test_a_point_of_small_order_is_refused(number: int) -> None:
    good = Blinder().blind_ids(pa.array(["1", "2"]), b"d").tobytes()
    points = parse_points(good + encode(number), count=3)
    with pytest.raises(CodecError):
        Blinder().blind_points(points)


@pytest.mark.parametrize("number", [P, P + 1, P + 18, 2**255, 2**255 + 9, 2**256 - 1])
def test_a_coordinate_not_below_the_prime_is_refused(number: int) -> None:
    with pytest.raises(CodecError, match="canonical"):
        parse_points(encode(9) + encode(number), count=2)


def test_the_largest_coordinates_below_the_prime_are_accepted() -> None:
    assert len(parse_points(encode(P - 2) + encode(P - 256), count=2)) == 2


@pytest.mark.parametrize("value", [b"", b"x" * 31, b"x" * 65, None, [9], "x" * 64, np.zeros(64)])
def test_another_length_or_type_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        parse_points(value, count=2)


def test_repeated_points_are_refused() -> None:
    column = as_column(parse_points(encode(9) + encode(10) + encode(9), count=3))
    with pytest.raises(CodecError, match="duplicates"):
        check_distinct(column)


def test_points_are_sent_in_an_order_that_only_their_values_decide() -> None:
    points = Blinder().blind_ids(pa.array(map(str, range(100))), b"d")
    order = secret_order(points)
    assert sorted(order.tolist()) == list(range(100))
    assert points[order].tobytes() == points[::-1][secret_order(points[::-1])].tobytes()
