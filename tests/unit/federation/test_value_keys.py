"""Keys name a value unambiguously, and nothing else gets through as a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.keys import ValueKey, decode_key, encode_key

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))

words = st.text(
    st.characters(exclude_categories=("C", "Z")) | st.sampled_from('"\\/. '),
    min_size=1,
    max_size=40,
).filter(str.isprintable)
keys = st.builds(
    ValueKey,
    session=words,
    name=words,
    tag=words | st.just(""),
    source=st.just(GUEST),
    destination=st.just(HOST),
)


@given(keys)
def test_a_key_survives_its_encoding(key: ValueKey) -> None:
    assert decode_key(encode_key(key)) == key


@given(keys, keys)
def test_different_keys_have_different_ids(one: ValueKey, other: ValueKey) -> None:
    assert (one == other) == (one.id == other.id) == (encode_key(one) == encode_key(other))


@given(st.binary(max_size=100))
def test_random_bytes_are_not_a_key(data: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_key(data)


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'["s","n","t","guest-1"]',
        b'["s","n","t","guest-1","host-2","more"]',
        b'["s","n","t","king-1","host-2"]',
        b'["s","n","t","guest","host-2"]',
        b'["","n","t","guest-1","host-2"]',
        b'["s","","t","guest-1","host-2"]',
        b'["s","n\\n","t","guest-1","host-2"]',
        b'["s","n","t\\u0000","guest-1","host-2"]',
        b'["s","n",5,"guest-1","host-2"]',
        b'["s","' + b"n" * 257 + b'","t","guest-1","host-2"]',
        b'["' + b"s" * 513 + b'","n","t","guest-1","host-2"]',
        b'["s","n","t","guest-' + b"1" * 300 + b'","host-2"]',
        b" " * 20_000 + b"[]",
    ],
)
def test_a_key_that_is_not_acceptable_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_key(data)
