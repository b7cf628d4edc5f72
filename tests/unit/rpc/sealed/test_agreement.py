from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import SealBroken, SealExpired, SealMisdirected, SealReplayed
from fedflow.base.errors.requests import NotSigned
from fedflow.rpc.sealed.agreement import (
    WINDOW_MS,
    SealedSession,
    accept,
    conclude,
    propose,
    read_hello,
)
from fedflow.rpc.sealed.sessions import CALLS_BACK, HELLOS, PER_PARTY, CallNumbers, PartySessions
from tests.support.site_keys import MemorySiteKeys

NOW_MS = 1_800_000_000_000


@dataclass
class Two:
    """Parties 9999 and 10000, who know each other's keys, and 7777 whom both know."""

    caller: MemorySiteKeys = field(default_factory=lambda: MemorySiteKeys("9999"))
    called: MemorySiteKeys = field(default_factory=lambda: MemorySiteKeys("10000"))
    third: MemorySiteKeys = field(default_factory=lambda: MemorySiteKeys("7777"))

    def __post_init__(self) -> None:
        for one in (self.caller, self.called, self.third):
            for other in (self.caller, self.called, self.third):
                one.trust(other)


@pytest.fixture(scope="module")
def two() -> Two:
    return Two()


def test_both_parties_get_one_secret(two: Two) -> None:
    proposal = propose("9999", "10000", keys=two.caller, now_ms=NOW_MS)
    theirs, answer = accept(proposal.message, keys=two.called, now_ms=NOW_MS)
    ours = conclude(proposal, answer, keys=two.caller, now_ms=NOW_MS)
    assert ours == theirs
    assert (ours.source, ours.destination) == ("9999", "10000")
    assert ours.secret not in proposal.message + answer
    assert repr(ours.secret) not in repr(ours)


def test_each_session_has_another_secret(two: Two) -> None:
    secrets = set()
    for _ in range(3):
        proposal = propose("9999", "10000", keys=two.caller, now_ms=NOW_MS)
        session, _ = accept(proposal.message, keys=two.called, now_ms=NOW_MS)
        secrets |= {session.secret, session.session_id}
    assert len(secrets) == 6


@given(data=st.data())
def test_no_changed_byte_of_either_message_leads_to_a_session(
    two: Two, data: st.DataObject
) -> None:
    proposal = propose("9999", "10000", keys=two.caller, now_ms=NOW_MS)
    _, answer = accept(proposal.message, keys=two.called, now_ms=NOW_MS)

    def changed(message: bytes) -> bytes:
        at = data.draw(st.integers(0, len(message) - 1))
        by = data.draw(st.integers(1, 255))
        return message[:at] + bytes((message[at] ^ by,)) + message[at + 1 :]

    with pytest.raises(FedflowError):
        accept(changed(proposal.message), keys=two.called, now_ms=NOW_MS)
    with pytest.raises(FedflowError):
        conclude(proposal, changed(answer), keys=two.caller, now_ms=NOW_MS)


def test_an_exchange_that_speaks_for_a_party_has_not_its_key(two: Two) -> None:
    stranger = MemorySiteKeys("9999")
    proposal = propose("9999", "10000", keys=stranger, now_ms=NOW_MS)
    with pytest.raises(NotSigned):
        accept(proposal.message, keys=two.called, now_ms=NOW_MS)
    proposal = propose("9999", "10000", keys=two.caller, now_ms=NOW_MS)
    _, answer = accept(
        proposal.message, keys=MemorySiteKeys("10000").trust(two.caller), now_ms=NOW_MS
    )
    with pytest.raises(NotSigned):
        conclude(proposal, answer, keys=two.caller, now_ms=NOW_MS)


def test_the_answer_to_another_proposal_is_refused(two: Two) -> None:
    first, second = (propose("9999", "10000", keys=two.caller, now_ms=NOW_MS) for _ in range(2))
    _, answer = accept(first.message, keys=two.called, now_ms=NOW_MS)
    with pytest.raises(NotSigned):
        conclude(second, answer, keys=two.caller, now_ms=NOW_MS)


def test_the_answer_of_another_party_is_refused(two: Two) -> None:
    proposal = propose("9999", "10000", keys=two.caller, now_ms=NOW_MS)
    other = propose("9999", "7777", keys=two.caller, now_ms=NOW_MS)
    _, answer = accept(other.message, keys=two.third, now_ms=NOW_MS)
    with pytest.raises(SealMisdirected):
        conclude(proposal, answer, keys=two.caller, now_ms=NOW_MS)


@pytest.mark.parametrize("off_ms", [WINDOW_MS + 1, -WINDOW_MS - 1])
def test_a_proposal_and_an_answer_outside_of_the_time_window_are_refused(
    two: Two, off_ms: int
) -> None:
    proposal = propose("9999", "10000", keys=two.caller, now_ms=NOW_MS)
    with pytest.raises(SealExpired, match="300 s off"):
        accept(proposal.message, keys=two.called, now_ms=NOW_MS + off_ms)
    _, answer = accept(proposal.message, keys=two.called, now_ms=NOW_MS)
    with pytest.raises(SealExpired):
        conclude(proposal, answer, keys=two.caller, now_ms=NOW_MS + off_ms)


def test_a_key_without_a_secret_is_refused(two: Two) -> None:
    proposal = propose("9999", "10000", keys=two.caller, now_ms=NOW_MS)
    raw = msgspec.json.encode(msgspec.structs.replace(proposal.hello, key=bytes(32)))
    signature = two.caller.sign_message(b"fedflow exchange hello 1\0" + raw)
    message = len(raw).to_bytes(2, "little") + raw + signature.encode()
    with pytest.raises(SealBroken, match="no secret"):
        accept(message, keys=two.called, now_ms=NOW_MS)


@given(message=st.binary(max_size=300))
def test_any_bytes_are_refused_as_a_proposal(message: bytes) -> None:
    with pytest.raises(SealBroken):
        read_hello(message, now_ms=NOW_MS)


@given(st.lists(st.integers(1, 3 * CALLS_BACK), max_size=40))
def test_no_call_is_ever_taken_twice(calls: list[int]) -> None:
    numbers, taken = CallNumbers(), []
    for call in calls:
        try:
            numbers.add(call)
        except SealReplayed:
            assert call in taken or call <= max(taken) - CALLS_BACK
        else:
            taken.append(call)
    assert len(set(taken)) == len(taken)


def test_calls_that_overtake_each_other_are_taken() -> None:
    numbers = CallNumbers()
    for call in (3, 1, 2, 500, 4):
        numbers.add(call)
    with pytest.raises(SealReplayed):
        numbers.check(500)
    with pytest.raises(SealReplayed):
        numbers.check(0)


def session_of(number: int, party: str = "9999") -> SealedSession:
    return SealedSession(
        session_id=number.to_bytes(16, "big"), source=party, destination="10000", secret=b""
    )


def test_a_party_has_a_bounded_number_of_sessions_and_takes_none_of_others() -> None:
    sessions = PartySessions()
    sessions.add(session_of(1_000, "7777"))
    for number in range(PER_PARTY + 1):
        sessions.add(session_of(number))
    assert sessions.find(session_of(0).session_id) is None
    assert sessions.find(session_of(1).session_id) is not None
    assert sessions.find(session_of(1_000).session_id) is not None


def refusal_of(do: Callable[[], object]) -> str:
    with pytest.raises(FedflowError) as caught:
        do()
    return caught.value.name


def test_a_repeated_proposal_opens_no_session_and_their_number_is_bounded(two: Two) -> None:
    sessions = PartySessions()
    hello = propose("9999", "10000", keys=two.caller, now_ms=NOW_MS).hello
    sessions.see(hello)
    assert refusal_of(lambda: sessions.see(hello)) == "SealReplayed"
    for number in range(HELLOS - 1):
        sessions.see(msgspec.structs.replace(hello, nonce=number.to_bytes(32, "big")))
    more = msgspec.structs.replace(hello, nonce=b"n" * 32)
    assert refusal_of(lambda: sessions.see(more)) == "SealBroken"
    sessions.see(msgspec.structs.replace(more, source="7777"))
