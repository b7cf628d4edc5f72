"""A site that is launched again in an attempt: what is of, or for, its earlier launch is gone."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.data_plane import DuplicateValue, PeerFailed, SessionUnknown
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.arrivals import Departure
from fedflow.domain.site import Role, Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.mailbox import Mailbox
from fedflow.federation.messages import Hello, Notice, Offer, Put, Value, pack, split_frames
from fedflow.federation.plane import DataPlane
from fedflow.federation.session import (
    MAX_REVIVALS,
    AnyOf,
    Ending,
    Opening,
    Session,
    SessionRegistry,
    Unread,
)
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import Blob, Spool

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
OTHER = Site(Role.HOST, PartyId("10001"))
HERE = ("s_0", GUEST)
ANY = AnyOf(name="n", tags="", sources=(HOST, OTHER))
OF_HOST = AnyOf(name="n", tags="", sources=(HOST,))

Story = Callable[[Mailbox, SessionRegistry], Coroutine[Any, Any, None]]


def key(tag: str = "", **changes: Any) -> ValueKey:
    made = ValueKey(session="s_0", name="n", tag=tag, source=HOST, destination=GUEST)
    return replace(made, **changes)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[Story], None]]:
    pool = ThreadPoolExecutor(2)
    book = SessionRegistry()
    book.open(HERE, token="t", sites=(GUEST, HOST, OTHER))

    def start(story: Story) -> None:
        mailbox = Mailbox(
            FederationSettings(hold_timeout_s=60),
            book=book,
            spool=Spool(tmp_path / "spool"),
            in_thread=lambda f, *a, **k: asyncio.wrap_future(pool.submit(f, *a, **k)),
            on_start=lambda _: None,
        )
        asyncio.run(asyncio.wait_for(story(mailbox, book), 60))

    yield start
    pool.shutdown()


def put(mailbox: Mailbox, data: bytes, **changes: Any) -> bool:
    return mailbox.put_now(key(**changes), data, digest=hashlib.sha256(data).hexdigest())


def session_of(mailbox: Mailbox) -> Session:
    found = mailbox.session(HERE)
    assert found is not None
    return found


def test_a_late_value_of_an_earlier_launch_is_refused(run: Callable[[Story], None]) -> None:
    async def story(mailbox: Mailbox, _: SessionRegistry) -> None:
        put(mailbox, b"old", tag="1")
        put(mailbox, b"new", tag="2", incarnation=1)
        with pytest.raises(SessionUnknown):
            put(mailbox, b"late", tag="3")
        session = session_of(mailbox)
        found = await session.take_any(ANY, 0)
        assert isinstance(found, Unread)
        assert (found.tag, found.incarnation) == ("2", 1)
        assert await session.take_any(ANY, 0) is None

    run(story)


def test_a_value_may_come_again_from_the_next_launch_only(run: Callable[[Story], None]) -> None:
    async def story(mailbox: Mailbox, _: SessionRegistry) -> None:
        session = session_of(mailbox)
        put(mailbox, b"old")
        assert (await session.take(key(), 1)).data == b"old"
        with pytest.raises(DuplicateValue):
            put(mailbox, b"new")
        put(mailbox, b"new", incarnation=3)
        assert (await session.take(key(), 1)).data == b"new"
        with pytest.raises(DuplicateValue):
            await session.take(key(), 1)

    run(story)


def test_a_value_for_an_earlier_launch_is_refused_and_one_for_a_later_waits(
    run: Callable[[Story], None],
) -> None:
    async def story(mailbox: Mailbox, book: SessionRegistry) -> None:
        session = session_of(mailbox)
        put(mailbox, b"unread")
        early = asyncio.create_task(
            mailbox.put(key("e", destination_incarnation=2), b"e", digest="d")
        )
        await asyncio.wait((early,), timeout=0.01)
        assert book.open(HERE, token="t", sites=(GUEST, HOST, OTHER), incarnation=2)
        mailbox.replace(HERE, 2)
        assert session.ended
        assert not put(mailbox, b"x", tag="e", destination_incarnation=3)
        with pytest.raises(SessionUnknown):
            put(mailbox, b"y", tag="y")
        with pytest.raises(SessionUnknown):
            put(mailbox, b"y", tag="y", destination_incarnation=1)
        assert put(mailbox, b"z", tag="z", destination_incarnation=2)
        assert session_of(mailbox).incarnation == 2
        assert mailbox.ledger.memory == 513
        with pytest.raises(TimeoutError):
            await early  # it came too early, and is sent again

    run(story)


def test_waiting_receives_of_the_site_end_and_those_of_others_go_on(
    run: Callable[[Story], None],
) -> None:
    async def story(mailbox: Mailbox, _: SessionRegistry) -> None:
        session = session_of(mailbox)
        of_host = asyncio.create_task(session.take(key(), 60))
        of_other = asyncio.create_task(session.take(key(source=OTHER), 60))
        of_any = asyncio.create_task(session.take_any(ANY, 60))
        await asyncio.sleep(0)
        mailbox.revive(session, HOST, 1)
        with pytest.raises(PeerFailed, match="launched again"):
            await of_host
        gone = await of_any
        assert isinstance(gone, Departure)
        assert gone.site == HOST
        put(mailbox, b"o", source=OTHER)
        assert (await of_other).data == b"o"
        again = asyncio.create_task(session.take(key(), 60))
        await asyncio.sleep(0)
        put(mailbox, b"new", incarnation=1)
        assert (await again).data == b"new"

    run(story)


def test_a_part_of_an_earlier_launch_is_removed(run: Callable[[Story], None]) -> None:
    async def story(mailbox: Mailbox, _: SessionRegistry) -> None:
        arrival = await mailbox.begin(key(), size=10, digest="a" * 64)
        assert arrival is not None
        await mailbox.grow(arrival, 10)
        mailbox.revive(session_of(mailbox), HOST, 1)
        assert mailbox.ledger.spool == 0
        with pytest.raises(SessionUnknown):
            await mailbox.finish(arrival)
        arrival.part.close()

    run(story)


def test_launches_are_bounded(run: Callable[[Story], None]) -> None:
    async def story(mailbox: Mailbox, _: SessionRegistry) -> None:
        session = session_of(mailbox)
        for number in range(1, MAX_REVIVALS + 1):
            session.revive(HOST, number)
        with pytest.raises(BadRequest):
            session.revive(HOST, MAX_REVIVALS + 1)

    run(story)


@given(
    launches=st.lists(
        st.tuples(st.integers(0, 3), st.booleans(), st.sampled_from("ab")), max_size=12
    )
)
def test_no_order_of_arrivals_mixes_two_launches(launches: list[tuple[int, bool, str]]) -> None:
    """After a value of some launch was read, none of an earlier one is."""

    async def story() -> None:
        session = Session(
            key=HERE, sites=frozenset((GUEST, HOST)), limit=100, release=lambda _: None
        )
        latest = 0
        for number, (incarnation, is_read, tag) in enumerate(launches):
            value = key(f"{tag}{number}", incarnation=incarnation)
            try:
                if incarnation > session.incarnation_of(HOST):
                    session.revive(HOST, incarnation)
                session.knows(value, "d")
            except SessionUnknown:
                assert incarnation < session.incarnation_of(HOST)
            else:
                session.accept(value, Blob(size=0, digest="d", data=b""))
            found = await session.take_any(OF_HOST, 0) if is_read else None
            if isinstance(found, Unread):
                assert found.incarnation >= latest
                latest = found.incarnation

    asyncio.run(story())


def test_the_book_keeps_the_latest_launch() -> None:
    book = SessionRegistry()
    sites = (GUEST, HOST)
    assert not book.open(HERE, token="first", sites=sites)
    assert book.open(HERE, token="second", sites=sites, incarnation=1)
    assert not book.open(HERE, token="late", sites=sites)
    known = book.find(HERE)
    assert isinstance(known, Opening)
    assert (known.token, known.incarnation) == ("second", 1)
    assert book.end(HERE, "the first was killed", incarnation=0) == (None, False)
    assert book.end(HERE, "killed", incarnation=1)[0] is known
    ended = book.find(HERE)
    assert isinstance(ended, Ending)
    assert ended.incarnation == 1
    assert isinstance(book.activate(HERE, 1), Ending)
    assert book.activate(HERE, 2) is None
    assert book.expect(HERE, 2)


def test_the_first_launch_is_written_as_earlier_releases_write_it() -> None:
    """Bytes recorded before incarnations were known."""
    wire = key("t").wire
    put = Put(seq=1, key=wire, digest="d" * 64, crc32=5)
    notice = Notice(
        seq=2, kind="failed", session="s_0", source="host-10000", destination="guest-9999",
        reason="x",
    )  # fmt: skip
    offer = Offer(key=wire, size=7, digest="d" * 64)
    named = b'["s_0","n","t","host-10000","guest-9999"]'
    digest = b'"' + b"d" * 64 + b'"'
    expected = {
        put: b'{"type":"put","seq":1,"key":' + named + b',"digest":' + digest + b',"crc32":5}',
        notice: b'{"type":"notice","seq":2,"kind":"failed","session":"s_0",'
        b'"source":"host-10000","destination":"guest-9999","reason":"x"}',
        offer: b'{"type":"offer","key":' + named + b',"size":7,"digest":' + digest + b"}",
        Hello(session="s_0", site="host-10000", token="t"):
        b'{"type":"hello","session":"s_0","site":"host-10000","token":"t"}',
        Value(id=1, size=2, digest="d" * 64, file=False):
        b'{"type":"value","id":1,"size":2,"digest":' + digest + b',"file":false}',
    }  # fmt: skip
    for message, text in expected.items():
        assert pack(message)[8:] == text
    for message in (put, notice, offer):
        assert [found for found, _ in split_frames(pack(message))] == [message]
    assert key("t").id == hashlib.sha256(named).digest()
    assert key("t", incarnation=1).id != key("t", destination_incarnation=1).id


@pytest.mark.parametrize("wrong", [-1, 2**31, 0.5, "1", None])
def test_a_launch_that_is_no_number_is_refused(wrong: Any) -> None:
    put = Put(seq=1, key=key().wire, digest="d" * 64, crc32=5, incarnation=wrong)
    with pytest.raises(BadRequest):
        list(split_frames(pack(put)))


# --- who knows of which launch --------------------------------------------------------------------


@pytest.mark.parametrize("others", [0, 1], ids=["elsewhere", "here"])
def test_a_site_that_is_launched_again_learns_which_others_were(
    tmp_path: Path, others: int
) -> None:
    """Else what it sends first is for an earlier launch, and lost."""
    outgoing: list[Notice] = []

    async def close() -> None:
        return

    port: Any = SimpleNamespace(
        is_local=lambda party: others == 1 or party == GUEST.party_id,
        notify=lambda _, notice: outgoing.append(notice),
        close=close,
    )
    plane = DataPlane(
        FederationSettings(), spool_dir=tmp_path, socket_path=tmp_path / "s", port=port
    )

    async def launch_all() -> None:
        for launch in (0, 1):
            for site in (GUEST, HOST) if others else (GUEST,):
                plane.open_session("s_0", site, token="t", sites=(GUEST, HOST), incarnation=launch)
                await asyncio.sleep(0.01)
            if launch == 0:
                plane.fail_site("s_0", HOST, "killed")
                plane.fail_site("s_0", GUEST, "killed")
                await asyncio.sleep(0.01)
        if others:
            session = plane.mailbox.session(("s_0", HOST))
            assert session is not None
            assert session.incarnation_of(GUEST) == 1
        else:
            outgoing.clear()
            for known in (0, 1):
                plane.on_notice(opened(known))
            (answer,) = outgoing
            assert (answer.kind, answer.source, answer.incarnation) == ("opened", GUEST.key, 1)

    async def story() -> None:
        await plane.start()
        try:
            await launch_all()
        finally:
            await plane.stop()

    asyncio.run(story())


def opened(known: int) -> Notice:
    """Return what the host says that is launched again, and knows that launch of the guest."""
    return Notice(
        seq=1, kind="opened", session="s_0", source=HOST.key, destination=GUEST.key, reason="",
        incarnation=1, destination_incarnation=known,
    )  # fmt: skip
