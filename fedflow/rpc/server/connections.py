"""The connections of the gRPC port: what gRPC does not do, it is done to its sockets from outside.

gRPC counts connections in total, but lets one address have all of them, and gives its sockets to
nobody. So they are found among the descriptors of this process. Linux only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import chain
from math import ceil
from stat import S_ISSOCK
from typing import Final

logger = logging.getLogger(__name__)

_FOLDER: Final = "/proc/self/fd"
_PAUSE_S: Final = 1.0  #: between two looks
_AGAIN_S: Final = 0.25  #: after one that closed some; a look at 2,048 takes 25 ms
_RECEIVED: Final = 128  #: where `struct tcp_info` has the bytes received, 64 bits
_NET: Final = 8  #: bytes of an IPv6 address that one customer has


def keep_silent_ones_out(port: int, limit_s: float) -> None:
    """Let the kernel keep connections that send nothing: they cost no descriptor and no memory.

    Whoever calls speaks first, with TLS and without.
    """
    if hasattr(socket, "TCP_DEFER_ACCEPT"):
        for _, one in _sockets(port):  # none is connected yet
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, ceil(limit_s))


async def keep_room(port: int, most: int) -> None:
    """Close connections of the addresses that have most of them, as long as few are free.

    A quarter of the `most` stays free, so that each address gets in. The first to go are those that
    have sent least: they are not through their handshake. Runs until it is canceled.
    """
    closed: dict[str, int] = {}
    while os.path.isdir(_FOLDER):
        await asyncio.sleep(_AGAIN_S if closed else _PAUSE_S)
        closed = {}
        try:
            if len(os.listdir(_FOLDER)) > most // 2:
                closed = await asyncio.to_thread(_make_room, port, most - most // 4)
        except (OSError, RuntimeError) as exc:  # there is no descriptor, or no thread, for a look
            logger.warning("cannot look at connections: %s", exc, extra={"action": "connections"})
        for address, number in closed.items():
            logger.warning(
                "closed %d connections of address %s: it has too many", number, address,
                extra={"action": "close_connections"},
            )  # fmt: skip


def _make_room(port: int, most: int) -> dict[str, int]:
    """Close what is more than `most` connections; return how many of which address."""
    by_address: defaultdict[str, list[tuple[int, int, object]]] = defaultdict(list)
    for descriptor, one in _sockets(port):
        with suppress(OSError):  # it listens, or has just been closed
            peer = one.getpeername()
            info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            (received,) = struct.unpack_from("Q", info, _RECEIVED)
            by_address[_address(peer[0])].append((received, descriptor, peer))
    level = _level(map(len, by_address.values()), most)
    surplus = {address: sorted(found)[: -level or None] for address, found in by_address.items()}
    for _, descriptor, peer in chain.from_iterable(surplus.values()):
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
            if one.getpeername() == peer:  # the number is not another's by now
                one.shutdown(socket.SHUT_RDWR)
    return {address: len(found) for address, found in surplus.items() if found}


def _level(counts: Iterable[int], most: int) -> int:
    """Return how many each may have at most, so that all together have `most` or fewer."""
    left, ordered = most, sorted(counts)
    for index, count in enumerate(ordered):
        share = left // (len(ordered) - index)
        if count > share:
            return share
        left -= count
    return most


def _sockets(port: int) -> Iterator[tuple[int, socket.socket]]:
    """Yield the TCP sockets of this process with that port here, each open until the next one."""
    for descriptor in map(int, os.listdir(_FOLDER) if os.path.isdir(_FOLDER) else ()):
        with suppress(OSError):  # it was closed meanwhile
            if S_ISSOCK(os.stat(descriptor).st_mode):
                with socket.socket(fileno=os.dup(descriptor)) as one:
                    tcp = one.family in (socket.AF_INET, socket.AF_INET6)
                    if tcp and one.getsockname()[1] == port:
                        yield descriptor, one


def _address(text: str) -> str:
    """Return an address; of IPv6 the network that one customer has."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or IPv6Address(address.packed[:_NET] + bytes(16 - _NET)))
