"""Parties in network namespaces; this process carries the packets between them.

Each namespace has a TUN device for the calls of other parties, whose packets are read here and
written to the device of the party that they are for: late, or not at all, if the link says so. A
pair of virtual Ethernet devices, which no fault touches, leads to the REST API. Needs root.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.chaos.links import Address, Links

HTTP_PORT, GRPC_PORT = 9380, 9360
_NET = "10.214.0"  #: between parties; each namespace has its own, so nobody else is met there
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_PACKET_BYTES = 65_536


def permitted() -> bool:
    """Tell whether this process may make network namespaces and TUN devices."""
    tools = all(shutil.which(tool) for tool in ("ip", "nsenter"))
    if os.geteuid() != 0 or not tools or not Path("/dev/net/tun").exists():
        return False
    name = f"fedflow-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode:
        return False
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return True


class NamespaceNetwork:
    """See `links.Network`. One thread with an event loop carries all packets."""

    def __init__(self, parties: Sequence[str], *, rng: Random) -> None:
        self.links = Links()
        self._rng = rng
        self._parties = list(parties)
        self._subnet = f"10.{128 + os.getpid() % 80}"
        self._devices: list[int] = []
        self._loop = asyncio.new_event_loop()
        try:
            for number in range(len(parties)):
                self._make(number)
        except BaseException:
            self._remove()
            self._loop.close()
            raise
        for number, device in enumerate(self._devices):
            self._loop.add_reader(device, self._carry, number, device)
        self._thread = threading.Thread(target=self._loop.run_forever, name="packets")
        self._thread.start()

    def address(self, party: str) -> Address:
        number = self._parties.index(party)
        routes = {
            other: f"{_NET}.{i + 1}:{GRPC_PORT}"
            for i, other in enumerate(self._parties)
            if other != party
        }
        return Address(
            http_host=f"{self._subnet}.{number}.2",
            http_port=HTTP_PORT,
            grpc_host=f"{_NET}.{number + 1}",
            grpc_port=GRPC_PORT,
            routes=routes,
            prefix=("nsenter", f"--net=/run/netns/{self._name(number)}"),
            settings={"FEDFLOW__INSECURE": "true"},  # of the REST API, which only we can reach
        )

    def reset(self, source: str, destination: str) -> None:
        """Break the connections that one party opened to the other. Needs `ss -K` of the kernel."""
        number, other = self._parties.index(source), self._parties.index(destination)
        subprocess.run(
            ["nsenter", f"--net=/run/netns/{self._name(number)}",
             "ss", "-K", "dst", f"{_NET}.{other + 1}"],
            capture_output=True, check=True,
        )  # fmt: skip

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._remove()

    def _name(self, number: int) -> str:
        return f"fedflow-{os.getpid()}-{number}"

    def _near(self, number: int) -> str:
        return f"fc{os.getpid()}-{number}"

    def _make(self, number: int) -> None:
        name, near = self._name(number), self._near(number)
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("link", "add", near, "type", "veth", "peer", "name", "control", "netns", name)
        _ip("address", "add", f"{self._subnet}.{number}.1/30", "dev", near)
        _ip("link", "set", near, "up")
        _ip("-n", name, "address", "add", f"{self._subnet}.{number}.2/30", "dev", "control")
        _ip("-n", name, "link", "set", "control", "up")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self._devices.append(device)
        tun = f"ft{os.getpid()}-{number}"
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", tun.encode(), _IFF_TUN | _IFF_NO_PI))
        _ip("link", "set", tun, "netns", name)
        _ip("-n", name, "address", "add", f"{_NET}.{number + 1}/24", "dev", tun)
        _ip("-n", name, "link", "set", tun, "up")

    def _remove(self) -> None:
        for device in self._devices:
            os.close(device)
        for number in range(len(self._parties)):  # the names are free only without the devices
            for words in (
                ("link", "del", self._near(number)),
                ("netns", "del", self._name(number)),
            ):
                subprocess.run(["ip", *words], capture_output=True, check=False)

    def _carry(self, number: int, device: int) -> None:
        """Pass on what waits at a device."""
        with suppress(BlockingIOError):
            for _ in range(64):
                packet = os.read(device, _PACKET_BYTES)
                if packet[0] >> 4 == 4 and 1 <= packet[19] <= len(self._parties):
                    self._pass_on(number, packet[19] - 1, packet)

    def _pass_on(self, source: int, destination: int, packet: bytes) -> None:
        link = self.links.get(self._parties[source], self._parties[destination])
        if link.cut or (link.loss and self._rng.random() < link.loss):
            return
        if link.delay_s:
            self._loop.call_later(link.delay_s, self._write, destination, packet)
        else:
            self._write(destination, packet)

    def _write(self, destination: int, packet: bytes) -> None:
        with suppress(OSError):  # its queue is full: the packet is lost, as on any network
            os.write(self._devices[destination], packet)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
