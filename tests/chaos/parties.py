"""The parties of a chaos run: real servers that survive what is done to them, and the one world."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Self

import psutil
import requests

from fedflow.client.client import Client
from fedflow.domain.site import Site
from tests.chaos.database import Database
from tests.chaos.links import Address, Network
from tests.chaos.namespaces import NamespaceNetwork
from tests.chaos.proxy import ProxyNetwork
from tests.e2e.servers import (
    Party,
    Place,
    environment,
    free_ports,
    make_certificates,
    wait_for,
)

IDS = ("9999", *map(str, range(10000, 10020)))
SECOND = "b"  #: ends the name of the second server of a party
CORES = 8
LEASE_S = 15
SETTINGS = {
    "FEDFLOW__SCHEDULING__LEASE_S": str(LEASE_S),
    "FEDFLOW__SCHEDULING__HEARTBEAT_S": "1",
    "FEDFLOW__SCHEDULING__DETECT_INTERVAL_S": "1",
    "FEDFLOW__SCHEDULING__RETRY_CAP_S": "1",
    "FEDFLOW__SCHEDULING__LAUNCH_GRACE_S": "3",
    "FEDFLOW__SCHEDULING__CALL_TIMEOUT_S": "5",
    "FEDFLOW__FATE_ON_STANDALONE__STANDALONE__CORES_PER_NODE": str(CORES),
}
"""What differs from the defaults: shorter times, so that a run meets more of what follows them."""

START_S = 180.0  #: how long the first start of a server may take, if up to four begin together
HTTP_S = (3.0, 20.0)  #: seconds to connect, and to answer
HOME_MIB = 512
CLOCK = Path(__file__).parent / "clock" / "sitecustomize.py"
STOP_AT = CLOCK.with_name("stop_at.py")


class ChaosParty(Party):
    """A party's server at an address of the network, with its disk, its clock and its database.

    It has a name of its own: its party may have a second one.
    """

    def __init__(
        self, name: str, *, folder: Path, address: Address, tls: Path,
        database: Database | None, offset_s: float, second: SecondServer | None = None,
        more: Mapping[str, str] | None = None, stops: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.id = party_id = id_of(name)
        self.offset_s = offset_s
        self.address = address
        self.database = database
        self._clock_dir = folder / "clock"
        settings = {**SETTINGS, **address.settings, **(database.settings if database else {})}
        settings |= more or {}
        self.shared = folder / "home"
        if second is not None:
            self.shared = second.shared
            settings |= {
                "FEDFLOW__SHARED_HOME": str(second.shared),
                "FEDFLOW__DATABASE__PORT": str(second.database_port),
            }
        place = Place(
            home=folder / "home",
            party_id=party_id,
            http_port=address.http_port,
            grpc_port=address.grpc_port,
            routes=address.routes,
            tls=tls,
            settings=settings,
        )
        super().__init__(place)
        self._log = folder / "server.log"
        self.client.close()
        self.url = f"http://{address.http_host}:{address.http_port}"
        self.client = Client(self.url, timeout_s=HTTP_S[1])
        self._clock_dir.mkdir()
        shutil.copy(CLOCK, self._clock_dir)
        self.stops = self._clock_dir / "stops"  #: see `clock/stop_at.py`
        if stops:
            self.stops.mkdir()
            shutil.copy(STOP_AT, self._clock_dir)
        (self._clock_dir / "offset_ns").write_bytes(bytes(8))
        self.step_clock(0.0)

    @property
    def log(self) -> Path:
        """Return the server's log; it lies outside of the home, whose disk may be full."""
        return self._log

    def start(self) -> Self:
        """Start the process, or a new one after a fault."""
        words = self.place.arguments()
        words[words.index("--http") + 1] = f"{self.address.http_host}:{self.address.http_port}"
        words[words.index("--grpc") + 1] = f"{self.address.grpc_host}:{self.address.grpc_port}"
        variables = environment(self.place.settings)
        variables["PYTHONPATH"] = f"{self._clock_dir}:{variables['PYTHONPATH']}"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.address.prefix, sys.executable, "-m", "fedflow.cli.main", "server", "run",
                 *words],
                cwd=self.home, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        return self

    def wait_ready(self, *, within_s: float = START_S) -> Self:
        """Wait for /readyz; the machine may be busy with other work. Raises: AssertionError."""

        def is_ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"the server ended:\n{self.tail()}"
            return bool(self.readiness().get("ready", False))

        wait_for(is_ready, f"{self.url} to be ready", within_s=within_s)
        return self

    def step_clock(self, step_s: float) -> None:
        """Let the wall clock of all processes of the party be off by so much more."""
        with (self._clock_dir / "offset_ns").open("r+b") as file:
            file.write(struct.pack("<q", int((self.offset_s + step_s) * 1e9)))

    def executors(
        self, job_id: str = "", *, component: str | None = None, site: Site | None = None,
        below: Path | None = None,
    ) -> list[int]:  # fmt: skip
        """Return the pids of the party's executors at work, those of its other server too."""
        return super().executors(job_id, component=component, site=site, below=below or self.shared)

    def zygotes(self) -> list[psutil.Process]:
        """Return the processes below the home that are neither the server nor executors."""
        own = self.process.pid if self.process else None
        at_work = set(self.executors())
        return [p for p in self.processes() if p.pid != own and p.pid not in at_work]

    def ask_shares(self, job_id: str) -> dict[str, str]:
        """Return site -> status of this server's shares. Raises: requests.RequestException."""
        answer = requests.post(
            f"{self.url}/v1/job/query", json={"job_id": job_id}, timeout=HTTP_S
        ).json()
        rows = answer.get("data") or []
        return {f"{row['f_role']}-{row['f_party_id']}": row["f_status"] for row in rows}

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what a SELECT finds in the party's database."""
        if self.database is not None:
            return self.database.rows(statement)
        where = f"file:{self.home / 'fedflow.sqlite'}?mode=ro"
        with closing(sqlite3.connect(where, uri=True, timeout=10)) as connection:
            return connection.execute(statement).fetchall()


@dataclass(frozen=True, kw_only=True)
class SecondServer:
    """What two servers of a party share, and a server's own way to their database."""

    shared: Path
    database_port: int


def id_of(name: str) -> str:
    """Return the party of a server: the second one's name has a letter at its end."""
    return name.rstrip(SECOND)


def database_of(name: str) -> str:
    """Return the name of the end of a server's way to its database, among the links."""
    return f"{name}-database"


@dataclass(frozen=True, kw_only=True)
class PutBack:
    """A party whose database was put back, in seconds of a clock that never goes back."""

    party_id: str
    copied_s: float  #: when the copy was made that is its database now
    ended_s: float  #: when that was put back


@dataclass(frozen=True)
class World:
    """All servers of a run by name, and the network between them."""

    parties: Mapping[str, ChaosParty]
    network: Network
    folder: Path
    has_small_disks: bool
    put_back: list[PutBack] = field(default_factory=list)

    def forgot(self, sites: Iterable[str], *, since_s: float, until_s: float) -> set[str]:
        """Return those of some sites whose party has lost what it knew of a time."""
        lost = {
            one.party_id
            for one in self.put_back
            if since_s < one.ended_s and until_s > one.copied_s
        }
        return {site for site in sites if site.partition("-")[2] in lost}

    @property
    def all(self) -> tuple[ChaosParty, ...]:
        return tuple(self.parties.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the parties, each once."""
        return tuple(dict.fromkeys(party.id for party in self.all))

    @property
    def databases(self) -> tuple[Database, ...]:
        """Return the MariaDB of each party that has one."""
        found = (party.database for party in self.all)
        return tuple(dict.fromkeys(one for one in found if one is not None))

    @property
    def has_second_server(self) -> bool:
        return len(self.ids) < len(self.parties)

    def servers_of(self, party_id: str) -> list[ChaosParty]:
        return [party for party in self.all if party.id == party_id]


@contextmanager
def world(
    folder: Path, *, parties: int, mysql: bool, namespaces: bool, rng: Random,
    offset_s: float = 0.0, servers: int = 1, settings: Mapping[str, str] | None = None,
    stops: bool = False,
) -> Iterator[World]:  # fmt: skip
    """Run so many parties below `folder`, with mutual TLS, until the block ends.

    The wall clock of the second one is off by `offset_s` seconds. The first one may have two
    servers; that needs `mysql`, and no `namespaces`. `settings` are added to those of all servers.
    With `stops` executors can be stopped at a stage of a round.
    """
    ids = IDS[:parties]
    names = (*ids, ids[0] + SECOND) if servers > 1 else ids
    with ExitStack() as stack:
        network: Network = (NamespaceNetwork if namespaces else ProxyNetwork)(names, rng=rng)
        stack.callback(network.close)
        tls = make_certificates(folder / "tls", *ids)
        databases: dict[str, Database] = {}
        found: dict[str, ChaosParty] = {}
        has_small_disks = may_mount(folder)
        for name in names:
            own = folder / name
            (own / "home").mkdir(parents=True)
            if has_small_disks:
                stack.enter_context(_small_disk(own / "home"))
            address = network.address(name)
            if mysql and id_of(name) not in databases:
                (port,) = free_ports(1)
                database = Database(own / "mysql", port=port, prefix=address.prefix)
                stack.callback(database.stop)
                database.start()
                databases[id_of(name)] = database
            second = None
            if servers > 1 and id_of(name) == ids[0]:
                assert isinstance(network, ProxyNetwork)
                way = network.way(name, database_of(name), databases[ids[0]].port)
                second = SecondServer(shared=folder / "shared", database_port=way)
            party = ChaosParty(
                name, folder=own, address=by_party(address, own=id_of(name)), tls=tls,
                database=databases.get(id_of(name)),
                offset_s=offset_s if name == ids[1] else 0.0, second=second,
                more=settings, stops=stops,
            )  # fmt: skip
            stack.callback(_end, party)
            found[name] = party.start()
            if second is not None:  # the first one makes the schema
                party.wait_ready()
        for party in found.values():
            party.wait_ready(within_s=START_S * max(1.0, len(found) / 4))
        yield World(found, network, folder, has_small_disks)


def by_party(address: Address, *, own: str) -> Address:
    """Return an address whose routes lead to other parties, to all servers of each."""
    routes: dict[str, list[str]] = {}
    for name, to in address.routes.items():
        if id_of(name) != own:
            routes.setdefault(id_of(name), []).append(to)
    return replace(address, routes={party: ",".join(to) for party, to in routes.items()})


def may_mount(folder: Path) -> bool:
    """Tell whether this process may mount file systems below `folder`."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    point = folder / "try-mount"
    point.mkdir(exist_ok=True)
    try:
        with _small_disk(point):
            return True
    except subprocess.CalledProcessError:
        return False


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    """Mount a file system of its own at `folder`, so that it can be full alone."""
    options = f"size={HOME_MIB}m,mode=700"
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        check=True, capture_output=True,
    )  # fmt: skip
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _end(party: ChaosParty) -> None:
    """Kill whatever is left of a party; the checks before have said what should not be."""
    party.kill()
    for process in party.processes():
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    wait_for(lambda: not party.processes(), "the end of all processes")
    party.client.close()
