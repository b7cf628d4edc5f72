"""Notices for sessions that are not open: kept for a while, short, and with a share per party."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation import plane as plane_module
from fedflow.federation.messages import Notice
from fedflow.federation.plane import MAX_EARLY_BYTES, MAX_EARLY_REASON, DataPlane, _Early
from fedflow.federation.settings import FederationSettings

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
OUTSIDER = Site(Role.HOST, PartyId("7777"))


def a_plane(folder: Path) -> DataPlane:
    port: Any = SimpleNamespace(is_local=lambda party: party == "9999")
    return DataPlane(FederationSettings(), spool_dir=folder, socket_path=folder / "s", port=port)


def notice(session: str, source: Site = HOST, *, reason: str = "it failed") -> Notice:
    return Notice(
        seq=1, kind="failed", session=session, source=source.key, destination=GUEST.key,
        reason=reason,
    )  # fmt: skip


def kept(plane: DataPlane) -> dict[tuple[str, Site], _Early]:
    """Return what is kept, by session and source."""
    return {
        (key[0], source): one
        for key, early in plane._early.items()
        for source, one in early.items()
    }


def let_pass(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the event loop's time go on; notices are kept for 300 seconds."""
    loop = asyncio.get_running_loop()
    now_s = loop.time() + seconds
    monkeypatch.setattr(loop, "time", lambda: now_s)


def test_an_outsider_cannot_fill_the_memory_or_push_others_out(tmp_path: Path) -> None:
    plane = a_plane(tmp_path)

    async def flood() -> None:
        plane.on_notice(notice("first"))
        for i in range(20_000):
            plane.on_notice(notice(f"s_{i}".ljust(512, "\U0001f41f"), OUTSIDER, reason="x" * 1000))
        plane.on_notice(notice("last"))

    tracemalloc.start()
    asyncio.run(flood())
    assert tracemalloc.get_traced_memory()[0] < 1.5 * MAX_EARLY_BYTES
    tracemalloc.stop()
    assert {session for session, source in kept(plane) if source == HOST} == {"first", "last"}
    assert max(len(one.reason) for one in kept(plane).values()) == MAX_EARLY_REASON


def test_one_source_has_one_notice_per_session_and_the_first_counts(tmp_path: Path) -> None:
    plane = a_plane(tmp_path)

    async def twice() -> None:
        plane.on_notice(notice("s", reason="the first"))
        plane.on_notice(notice("s", reason="the second"))

    asyncio.run(twice())
    assert [one.reason for one in kept(plane).values()] == ["the first"]


def test_early_notices_are_forgotten_and_their_share_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plane_module, "MAX_EARLY_BYTES", 4 * 1200)
    plane = a_plane(tmp_path)

    async def wait() -> None:
        for i in range(10):
            plane.on_notice(notice(f"s_{i}", OUTSIDER))
        assert len(kept(plane)) == 3
        let_pass(301, monkeypatch)
        plane.tick()
        assert kept(plane) == {}
        plane.on_notice(notice("later", OUTSIDER))
        assert len(kept(plane)) == 1

    asyncio.run(wait())


def test_an_outsiders_notice_does_not_make_a_later_one_expire_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = a_plane(tmp_path)

    async def wait() -> None:
        plane.on_notice(notice("s", OUTSIDER))
        let_pass(200, monkeypatch)
        plane.on_notice(notice("s"))
        let_pass(200, monkeypatch)
        plane.tick()
        assert list(kept(plane)) == [("s", HOST)]

    asyncio.run(wait())


def test_a_session_with_too_long_a_name_is_refused(tmp_path: Path) -> None:
    plane = a_plane(tmp_path)
    with pytest.raises(BadRequest, match="too long"):
        plane.on_notice(notice("s" * 513))
