"""Blinding in one and in several processes, and points that a hostile peer may send."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.data_plane import CodecError
from fedflow.components.intersection.curve import POINT_BYTES
from fedflow.components.intersection.ecdh import CurveCipher
from fedflow.components.intersection.elements import (
    Elements,
    as_column,
    check_distinct,
    parse_elements,
    secret_order,
)
from fedflow.cores import forked as processes
from fedflow.cores.workers import LocalWorkers

P = 2**255 - 19
SMALL_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
]


SECRET = bytes(range(32)).hex()


def parse(value: object, *, count: int) -> Elements:
    return CurveCipher(LocalWorkers(1)).parse(value, count=count)


def encode(number: int) -> bytes:
    return number.to_bytes(POINT_BYTES, "little")


def test_two_parties_reach_the_same_value_for_the_same_id() -> None:
    ids = pa.array(["7", "8", "Zoë"])
    a, b = CurveCipher(LocalWorkers(1)), CurveCipher(LocalWorkers(1))
    one = b.blind_elements(a.blind_ids(ids, b"d"))
    other = a.blind_elements(b.blind_ids(ids, b"d"))
    assert one.shape == (3, POINT_BYTES)
    assert one.tobytes() == other.tobytes()
    assert (
        CurveCipher(LocalWorkers(1)).blind_ids(ids, b"d").tobytes()
        != CurveCipher(LocalWorkers(1)).blind_ids(ids, b"d").tobytes()
    )


def test_another_domain_gives_other_points() -> None:
    ids = pa.array(["7"])
    blinder = CurveCipher(LocalWorkers(1), secret=SECRET)
    assert blinder.blind_ids(ids, b"d").tobytes() != blinder.blind_ids(ids, b"e").tobytes()


def test_several_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FORK_FROM", 10)
    ids = pa.array([f"id-{i}" for i in range(1001)])
    done: list[float] = []
    alone = CurveCipher(LocalWorkers(1), secret=SECRET).blind_ids(ids, b"d")
    forked = CurveCipher(LocalWorkers(3), secret=SECRET).blind_ids(ids, b"d", progress=done.append)
    assert forked.tobytes() == alone.tobytes()
    assert done[-1] == 1.0
    twice = CurveCipher(LocalWorkers(3), secret=SECRET).blind_elements(forked)
    assert (
        twice.tobytes()
        == CurveCipher(LocalWorkers(1), secret=SECRET).blind_elements(alone).tobytes()
    )


def test_a_bad_point_in_a_forked_share_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FORK_FROM", 10)
    points = CurveCipher(LocalWorkers(1)).blind_ids(pa.array(map(str, range(100))), b"d").copy()
    points[90] = 0
    with pytest.raises(CodecError):
        CurveCipher(LocalWorkers(2)).blind_elements(points)


@pytest.mark.parametrize("number", SMALL_ORDER)
def test_a_point_of_small_order_is_refused(number: int) -> None:
    good = CurveCipher(LocalWorkers(1)).blind_ids(pa.array(["1", "2"]), b"d").tobytes()
    points = parse(good + encode(number), count=3)
    with pytest.raises(CodecError):
        CurveCipher(LocalWorkers(1)).blind_elements(points)


@pytest.mark.parametrize("number", [P, P + 1, P + 18, 2**255, 2**255 + 9, 2**256 - 1])
def test_a_coordinate_not_below_the_prime_is_refused(number: int) -> None:
    with pytest.raises(CodecError, match="canonical"):
        parse(encode(9) + encode(number), count=2)


def test_the_largest_coordinates_below_the_prime_are_accepted() -> None:
    assert len(parse(encode(P - 2) + encode(P - 256), count=2)) == 2


@pytest.mark.parametrize("value", [b"", b"x" * 31, b"x" * 65, None, [9], "x" * 64, np.zeros(64)])
def test_another_length_or_type_is_refused(value: object) -> None:
    with pytest.raises(CodecError):
        parse(value, count=2)


def test_another_hash_gives_other_points() -> None:
    ids = pa.array(["7"])
    one = CurveCipher(LocalWorkers(1), secret=SECRET, hash_method="sha256").blind_ids(ids, b"d")
    other = CurveCipher(LocalWorkers(1), secret=SECRET, hash_method="sha512").blind_ids(ids, b"d")
    assert one.tobytes() != other.tobytes()


def test_no_ids_give_no_rows_and_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[float] = []
    nothing = CurveCipher(LocalWorkers(1)).blind_ids(
        pa.array([], pa.string()), b"d", progress=done.append
    )
    assert nothing.shape == (0, POINT_BYTES)
    assert done == [1.0]
    assert parse_elements(b"", count=0, width=7).shape == (0, 7)


def test_repeated_points_are_refused() -> None:
    column = as_column(parse(encode(9) + encode(10) + encode(9), count=3))
    with pytest.raises(CodecError, match="duplicates"):
        check_distinct(column)


def test_points_are_sent_in_an_order_that_only_their_values_decide() -> None:
    points = CurveCipher(LocalWorkers(1)).blind_ids(pa.array(map(str, range(100))), b"d")
    order = secret_order(points)
    assert sorted(order.tolist()) == list(range(100))
    assert points[order].tobytes() == points[::-1][secret_order(points[::-1])].tobytes()
