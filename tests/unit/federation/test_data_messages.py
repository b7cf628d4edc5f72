"""Frames and messages: what is sent is what is read; anything else is a BadRequest."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.data import TableNotFound
from fedflow.base.errors.data_plane import PeerFailed, SpoolFull
from fedflow.base.errors.requests import BadRequest
from fedflow.federation.keys import WireKey
from fedflow.federation.messages import (
    Ack,
    ErrorInfo,
    Notice,
    Put,
    error_from_wire,
    error_to_wire,
    pack,
    pack_chunk,
    parse_chunk,
    parse_request,
    split_frames,
)

KEY = WireKey("s_0", "n", "t", "guest-1", "host-2")


def test_frames_in_one_message_come_apart_again() -> None:
    put = Put(seq=1, key=KEY, digest="d" * 64, crc32=5)
    notice = Notice(
        seq=2, kind="failed", session="s_0", source="guest-1", destination="host-2", reason="x"
    )
    data = pack(put, b"body") + pack(notice) + pack(Ack(seq=3, status="stored"))
    assert list(split_frames(data)) == [
        (put, b"body"),
        (notice, b""),
        (Ack(seq=3, status="stored"), b""),
    ]


@given(st.binary(min_size=1, max_size=60))
def test_random_bytes_are_no_frames(data: bytes) -> None:
    with pytest.raises(BadRequest):
        list(split_frames(data))


def test_a_message_of_too_many_or_too_large_frames_is_refused() -> None:
    ack = pack(Ack(seq=3, status="stored"))
    assert len(list(split_frames(ack * 5, most=5))) == 5
    with pytest.raises(BadRequest, match="more than 5 frames"):
        list(split_frames(ack * 6, most=5))
    with pytest.raises(BadRequest, match="a message of"):
        next(split_frames(ack * 200_000))


@pytest.mark.parametrize("cut", [1, 7, 8, 30, -1])
def test_a_frame_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(BadRequest):
        list(split_frames(pack(Ack(seq=3, status="stored"), b"body")[:cut]))


def test_a_frame_that_announces_too_much_is_refused() -> None:
    with pytest.raises(BadRequest):
        list(split_frames(struct.pack("<II", 2**31, 0)))
    with pytest.raises(BadRequest):
        list(split_frames(struct.pack("<II", 2, 2**31) + b"{}"))


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b'{"type":"hello","session":"s","site":"guest-1"}',
        b'{"type":"hello","session":"s","site":"guest-1","token":1}',
        b'{"type":"hello","session":"s","site":"guest-1","token":"t","more":1}',
        b'{"type":"unknown"}',
        b"\xff\xfe",
    ],
)
def test_a_message_with_wrong_members_is_refused(text: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request(text)


def test_a_chunk_must_continue_its_value() -> None:
    key_id = bytes(range(32))
    raw = pack_chunk(key_id, b"abc", offset=10)
    data, _ = parse_chunk(raw, key_id, offset=10, size=13)
    assert bytes(data) == b"abc"
    for change in (
        {"offset": 9, "size": 13},
        {"offset": 10, "size": 12},
    ):
        with pytest.raises(BadRequest):
            parse_chunk(raw, key_id, **change)
    with pytest.raises(BadRequest):
        parse_chunk(raw, bytes(32), offset=10, size=13)
    with pytest.raises(BadRequest):
        parse_chunk(raw + b"x", key_id, offset=10, size=20)
    with pytest.raises(BadRequest):
        parse_chunk(raw[:32], key_id, offset=10, size=13)


def test_errors_keep_their_class_and_message() -> None:
    error = PeerFailed(site="host 1", reason="killed")
    found = error_from_wire(error_to_wire(error))
    assert type(found) is PeerFailed
    assert found.message == error.message
    assert type(error_from_wire(error_to_wire(SpoolFull(used=1, limit=2)))) is SpoolFull


def test_errors_of_other_areas_and_nonsense_become_bad_requests() -> None:
    other = error_from_wire(error_to_wire(TableNotFound(namespace="a", name="b", party_id="1")))
    assert type(other) is BadRequest
    assert "No table a.b" in other.message
    for info in (
        None,
        ErrorInfo(name="SystemExit", fields={}),
        ErrorInfo(name="PeerFailed", fields={}),
        ErrorInfo(name="PeerFailed", fields={"site": "x", "self": 1}),
    ):
        assert type(error_from_wire(info)) is BadRequest
