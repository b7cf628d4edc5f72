import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.parties import SealBroken, SealCutOff
from fedflow.rpc.sealed import records
from fedflow.rpc.sealed.records import DOWN, OVERHEAD, UP, RecordFlag, RecordOpener, RecordSealer

SECRET = bytes(range(32))
HEADER = b"header of a call"


def sealed(*values: bytes) -> list[bytes]:
    sealer = RecordSealer(SECRET, HEADER, direction=UP)
    return [
        sealer.seal(value, RecordFlag.LAST if number == len(values) else RecordFlag.NONE)
        for number, value in enumerate(values, start=1)
    ]


def opened(found: list[bytes]) -> list[bytes]:
    opener = RecordOpener(SECRET, HEADER, direction=UP)
    return [opener.open(record)[0] for record in found]


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=8))
def test_what_was_sealed_is_opened(values: list[bytes]) -> None:
    found = sealed(*values)
    assert opened(found) == values
    assert [len(record) for record in found] == [len(value) + OVERHEAD for value in values]


@given(st.data(), st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=5))
def test_no_changed_bit_is_ever_accepted(data: st.DataObject, values: list[bytes]) -> None:
    found = sealed(*values)
    which = data.draw(st.integers(0, len(found) - 1))
    bit = data.draw(st.integers(0, 8 * len(found[which]) - 1))
    changed = bytearray(found[which])
    changed[bit // 8] ^= 1 << bit % 8
    found[which] = bytes(changed)
    with pytest.raises((SealBroken, SealCutOff)):
        opened(found)


@given(st.permutations(range(5)).filter(lambda order: order != sorted(order)))
def test_no_other_order_is_ever_accepted(order: list[int]) -> None:
    found = sealed(*(bytes((n,)) * 20 for n in range(5)))
    with pytest.raises((SealBroken, SealCutOff)):
        opened([found[n] for n in order])


@given(st.integers(0, 3))
def test_a_record_that_is_left_out_or_repeated_is_noticed(which: int) -> None:
    found = sealed(b"a", b"b", b"c", b"d", b"e")
    for other in (found[:which] + found[which + 1 :], found[: which + 1] + found[which:]):
        with pytest.raises(SealBroken):
            opened(other)


def test_whoever_cuts_the_end_off_leaves_an_opener_that_has_not_ended() -> None:
    opener = RecordOpener(SECRET, HEADER, direction=UP)
    for record in sealed(b"a", b"b")[:-1]:
        opener.open(record)
    assert not opener.has_ended


@pytest.mark.parametrize(
    ("secret", "header", "direction"),
    [(bytes(32), HEADER, UP), (SECRET, b"header of another", UP), (SECRET, HEADER, DOWN)],
    ids=["session", "header", "direction"],
)
def test_a_record_opens_only_where_it_belongs(
    secret: bytes, header: bytes, direction: bytes
) -> None:
    (record,) = sealed(b"value")
    with pytest.raises(SealBroken):
        RecordOpener(secret, header, direction=direction).open(record)


def test_a_direction_takes_new_keys_and_the_opener_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ROTATE_BYTES", 100)
    sealer, opener = (kind(SECRET, HEADER, direction=UP) for kind in (RecordSealer, RecordOpener))
    flags = []
    for number in range(20):
        data, flag = opener.open(sealer.seal(bytes((number,)) * 40))
        assert data == bytes((number,)) * 40
        flags.append(bool(flag & RecordFlag.NEXT_KEY))
    assert flags == [False, False, True] * 6 + [False, False]


def test_nothing_is_sealed_or_opened_after_the_last_record() -> None:
    sealer, opener = (kind(SECRET, HEADER, direction=UP) for kind in (RecordSealer, RecordOpener))
    opener.open(sealer.seal(b"", RecordFlag.LAST))
    with pytest.raises(SealCutOff):
        sealer.seal(b"more")
    with pytest.raises(SealCutOff):
        opener.open(bytes(40))
