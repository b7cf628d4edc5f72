"""Real server processes for tests: start, kill, restart on the same ports, nothing left behind.

A `Party` is one server with a home of its own. Its process, the zygote and the executors all work
in folders below that home, so whatever is left of it can be found by its working folder.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

import psutil
import pymysql
import pytest
import requests

from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import ClientError
from fedflow.base.errors.start import ServerNotReachable
from fedflow.base.ids import PartyId
from fedflow.client.client import Client
from fedflow.domain.site import Role, Site
from fedflow.wire.api.jobs import JobStatusView
from tests.support.certificates import make_ca, make_certificate

ROOT = Path(__file__).parents[2]
DATA = ROOT / "examples" / "data"
GUEST_ID, HOST_ID = "9999", "10000"
GUEST = Site(Role.GUEST, PartyId(GUEST_ID))
HOST = Site(Role.HOST, PartyId(HOST_ID))
ARBITER = Site(Role.ARBITER, PartyId(HOST_ID))

READY_S = 120.0
STOP_S = 60.0
QUICK = {
    "FEDFLOW__SCHEDULING__LEASE_S": "20",
    "FEDFLOW__SCHEDULING__HEARTBEAT_S": "1",
    "FEDFLOW__SCHEDULING__DETECT_INTERVAL_S": "1",
    "FEDFLOW__SCHEDULING__RETRY_CAP_S": "1",
    "FEDFLOW__SCHEDULING__LAUNCH_GRACE_S": "3",
    "FEDFLOW__SCHEDULING__PREFLIGHT_TIMEOUT_S": "20",
    "FEDFLOW__SCHEDULING__CREATE_TIMEOUT_S": "30",
}
"""Settings that notice faults sooner than the defaults do, and let a busy machine answer."""

T = TypeVar("T")
_clock = SystemClock()
_never = threading.Event()


# --- waiting --------------------------------------------------------------------------------------


def wait_for(look: Callable[[], T | None], what: str, *, within_s: float = 60.0) -> T:
    """Return what `look` finds, once that is neither None nor False. Raises: AssertionError.

    It looks less often the longer it waits: each look takes time of the servers that it waits for.
    """
    begun_s = _clock.monotonic_s()
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        waited_s = _clock.monotonic_s() - begun_s
        if waited_s > within_s:
            raise AssertionError(f"waited {within_s:g} s for {what}")
        pause(min(max(0.05 * waited_s, 0.005), 0.1), _never)


def pass_time(seconds: float) -> None:
    """Let time pass while a server is down: how long it is away is what the test is about."""
    pause(seconds, _never)


# --- one server -----------------------------------------------------------------------------------


def _shown(process: psutil.Process) -> str:
    """Return which process it is and where it works."""
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:300]} in {process.cwd()}"
    except psutil.Error as exc:
        return str(exc)


@dataclass(frozen=True, kw_only=True)
class Place:
    """What stays the same over restarts: where a server lives and listens, and who it is."""

    home: Path
    party_id: str | None
    http_port: int
    grpc_port: int
    routes: Mapping[str, str] = field(default_factory=dict)
    tls: Path | None = None  #: folder with ca.pem and <party>.pem, <party>.key
    settings: Mapping[str, str] = field(default_factory=dict)  #: FEDFLOW__... variables
    conf: Path | None = None

    def arguments(self) -> list[str]:
        """Return the options of `fedflow server run`."""
        words = [
            "--home", str(self.home),
            "--http", f"127.0.0.1:{self.http_port}",
            "--grpc", f"127.0.0.1:{self.grpc_port}",
        ]  # fmt: skip
        words += ["--party", self.party_id] if self.party_id else []
        words += ["--conf", str(self.conf)] if self.conf else []
        for party, address in self.routes.items():
            words += ["--route", f"{party}={address}"]
        if self.tls is not None:
            pair = self.tls / str(self.party_id)
            words += ["--tls-ca", str(self.tls / "ca.pem")]
            words += ["--tls-cert", f"{pair}.pem", "--tls-key", f"{pair}.key"]
        return words


class Party:
    """One real server process, and all that it started."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.url = f"http://127.0.0.1:{place.http_port}"
        self.client = Client(self.url, timeout_s=60.0)
        self.process: subprocess.Popen[bytes] | None = None
        place.home.mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.place.home

    @property
    def log(self) -> Path:
        return self.place.home / "server.log"

    # --- life

    def start(self) -> Self:
        """Start the process; `wait_ready` waits until it can run jobs."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "fedflow.cli.main",
                    "server",
                    "run",
                    *self.place.arguments(),
                ],
                cwd=self.home,
                env=environment(self.place.settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def wait_ready(self) -> Self:
        """Wait for /readyz. Raises: AssertionError: it ended, or is not ready in time."""

        def is_ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"the server ended:\n{self.tail()}"
            return self.readiness().get("ready", False)

        wait_for(is_ready, f"{self.url} to be ready", within_s=READY_S)
        return self

    def stop(self) -> None:
        """End it with SIGTERM. Raises: AssertionError: it needs longer than `STOP_S`, or fails."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # its log gets the stacks of all threads
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)
            self.kill()
            raise AssertionError(f"did not stop within {STOP_S} s:\n{self.tail(400)}") from None
        self.process = None
        assert code == 0, f"the server ended with status {code}:\n{self.tail()}"

    def kill(self) -> None:
        """kill -9 of the server process alone; its zygote and executors are left to themselves."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let the server process stand still: it takes connections, and answers none."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def restart(self, *, after_s: float = 1.0) -> None:
        """kill -9, and a new server in the same place after `after_s` seconds."""
        self.kill()
        pass_time(after_s)
        self.start().wait_ready()

    def close(self) -> None:
        """Stop it and end whatever is left. Raises: AssertionError: something was left."""
        try:
            self.stop()
            with suppress(AssertionError):  # what is left is named below
                wait_for(lambda: not self.processes(), "the end of all processes", within_s=30.0)
        finally:
            self.kill()
            left = self.processes()
            named = [_shown(process) for process in left]
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            self.client.close()
        assert not left, f"left behind by {self.home}: {named}"

    # --- looking

    def tail(self, lines: int = 60) -> str:
        """Return the end of the server's log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def readiness(self) -> dict[str, Any]:
        """Return what /readyz says; empty if nothing answers."""
        try:
            return self.client.readiness()
        except (ServerNotReachable, ClientError):
            return {}

    def processes(self) -> list[psutil.Process]:
        """Return everything that works below this home and has not ended."""
        found = []
        for pid in pids_below(self.home):
            with suppress(psutil.NoSuchProcess):  # it ended in this moment
                found.append(psutil.Process(pid))
        return found

    def executors(
        self, job_id: str = "", *, component: str | None = None, site: Site | None = None,
        below: Path | None = None,
    ) -> list[int]:  # fmt: skip
        """Return the pids of the executors at work, of one job, component and site if named.

        `below` is the folder that the party's servers share, if it is not the home.
        """
        jobs = (below or self.home) / "jobs"
        return [
            pid
            for pid, folder in pids_below(jobs / job_id).items()
            if _is_of(folder.relative_to(jobs), component, site)
        ]

    def wait_executor(
        self, job_id: str, *, component: str, site: Site, within_s: float = 60.0
    ) -> int:
        """Return the pid of an executor as soon as it is at work; its server may not know yet."""

        def look() -> int | None:
            return next(iter(self.executors(job_id, component=component, site=site)), None)

        return wait_for(look, f"{component} at {site}", within_s=within_s)

    def post(self, path: str, body: Any = None, *, raw: bytes | None = None) -> dict[str, Any]:
        """Return the JSON answer to a POST; `raw` is sent as it is."""
        options: dict[str, Any] = {"json": body}
        if raw is not None:
            options = {"data": raw, "headers": {"Content-Type": "application/json"}}
        answer: dict[str, Any] = requests.post(f"{self.url}{path}", timeout=60, **options).json()
        return answer

    def shares(self, job_id: str) -> dict[str, str]:
        """Return site -> status of this server's shares of a job."""
        rows = self.post("/v1/job/query", {"job_id": job_id}).get("data") or []
        return {f"{row['f_role']}-{row['f_party_id']}": row["f_status"] for row in rows}

    def upload(self, path: Path, name: str, **options: Any) -> JobStatusView:
        """Upload a file as `experiment`.`name` and return how that ended."""
        sent = self.client.upload(path, namespace="experiment", table_name=name, **options)
        return self.client.wait(sent.job_id, timeout_s=120)

    def wait_idle(self, *, within_s: float = 60.0) -> None:
        """Wait until all cores are free and only the server and its zygote are left.

        Raises: AssertionError: it takes longer than `within_s` seconds.
        """

        def idle() -> bool:
            ready = self.readiness()
            cores = ready.get("cores", {"free": 0, "total": -1})
            engines = (cores, ready.get("spark_cores", cores))
            all_free = all(one["free"] == one["total"] for one in engines)
            return all_free and len(self.processes()) == 2

        try:
            wait_for(idle, "the server to be idle", within_s=within_s)
            wait_for(self._has_launched, "the zygote to answer", within_s=within_s)
            wait_for(idle, "what was started last to end", within_s=within_s)
        except AssertionError as exc:
            cores, left = self.readiness().get("cores"), self.processes()
            raise AssertionError(f"{exc}: cores {cores}, processes {left}") from exc

    def _has_launched(self) -> bool:
        """Tell whether the zygote has started all that it was asked to start before.

        A job that is stopped as it starts a process holds no cores, and the process comes later.
        The zygote does one thing after the other, so once it answers there is none to come. Wrong
        parameters are asked about, as it is not asked twice about right ones.
        """
        party = self.place.party_id or "1"
        asked = {
            "component_name": "empty_0",
            "component_module_name": "Empty",
            "role": {"guest": [int(party)]},
            "dsl_version": "2",
            "component_parameters": {"common": {"empty_0": {"sleep_s": -1}}},
        }
        try:
            answer = self.post("/v1/component/validate", asked)
        except requests.RequestException:
            return False
        return (answer.get("error") or {}).get("name") != "ExecutorNotStarted"


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without settings of fedflow, and with these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FEDFLOW")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1", **settings}


def pids_below(folder: Path) -> dict[int, Path]:
    """Return the processes that work in `folder` or below it, with their working folders."""
    found: dict[int, Path] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            cwd = Path(os.readlink(f"/proc/{name}/cwd"))
        except OSError:  # it is gone, a zombie, or somebody else's
            continue
        if cwd.is_relative_to(folder):
            found[int(name)] = cwd
    return found


def _is_of(folder: Path, component: str | None, site: Site | None) -> bool:
    """Tell whether a work folder is `job/role-party-component-version` of these."""
    parts = folder.parts
    if len(parts) < 2:
        return False
    role, party, rest = parts[1].split("-", 2)
    fits = component is None or rest.rpartition("-")[0] == component
    return fits and (site is None or (role, party) == (site.role.value, site.party_id))


def zygote_of(party: Party) -> psutil.Process:
    """Return the zygote of a running server."""
    assert party.process is not None

    def look() -> psutil.Process | None:
        for child in psutil.Process(party.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # one that ended in this moment, or a zombie
                if "fedflow.worker.zygote" in " ".join(child.cmdline()):
                    return child
        return None

    return wait_for(look, "a zygote")


# --- several servers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Guest 9999, and host and arbiter 10000; standalone both are the same server."""

    guest: Party
    host: Party

    @property
    def all(self) -> tuple[Party, ...]:
        return (self.guest,) if self.guest is self.host else (self.guest, self.host)

    def of(self, site: Site) -> Party:
        """Return the server of a site."""
        return self.guest if site.party_id == GUEST_ID else self.host

    def ends(self, job_id: str, *, within_s: float = 120.0) -> dict[str, str]:
        """Return site -> status once every share of a job has ended, at all parties.

        Raises: AssertionError: one has not, or they are not all the same.
        """
        final = {"success", "failed", "canceled", "timeout"}

        def look() -> dict[str, str] | None:
            shares = self.shares(job_id)
            return shares if shares and set(shares.values()) <= final else None

        try:
            shares = wait_for(look, f"the end of {job_id} everywhere", within_s=within_s)
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {self.shares(job_id)}") from exc
        assert len(set(shares.values())) == 1, shares
        return shares

    def shares(self, job_id: str) -> dict[str, str]:
        """Return site -> status over all servers; one that does not answer counts as unknown."""
        found: dict[str, str] = {}
        for party in self.all:
            try:
                found |= party.shares(job_id)
            except requests.RequestException:
                found[str(party.place.party_id)] = "unknown"
        return found

    def views(self, job_id: str) -> list[JobStatusView]:
        """Return what `fedflow job query` shows at each server."""
        return [party.client.job(job_id) for party in self.all]

    def wait_idle(self) -> None:
        """Wait until no executor is left and all cores are free, everywhere."""
        for party in self.all:
            party.wait_idle()

    def wait_connected(self, *, within_s: float = 60.0) -> None:
        """Wait until the parties reach each other, both ways.

        One that was away is up some time before others call it again: their circuits are open, and
        a submit is refused for as long. Raises: AssertionError.
        """
        for asked, other in permutations(self.all, 2):
            to = str(other.place.party_id)
            what = f"{asked.place.party_id} and {to} to reach each other"
            wait_for(
                lambda asked=asked, to=to: asked.client.parties.ping(to).ok, what, within_s=within_s
            )


LIVE: list[Party] = []
"""Servers whose logs conftest shows when a test fails: those that run, and those just given up."""


@contextmanager
def two_parties(
    folder: Path,
    *,
    settings: Mapping[str, str] | None = None,
    guest_settings: Mapping[str, str] | None = None,
    host_settings: Mapping[str, str] | None = None,
    host_conf: Path | None = None,
) -> Iterator[Pair]:
    """Run a server for each party below `folder`, with mutual TLS, until the block ends."""
    tls = make_certificates(folder / "tls", GUEST_ID, HOST_ID)
    http_g, http_h, grpc_g, grpc_h = free_ports(4)
    guest = Place(
        home=folder / "guest",
        party_id=GUEST_ID,
        http_port=http_g,
        grpc_port=grpc_g,
        routes={HOST_ID: f"127.0.0.1:{grpc_h}"},
        tls=tls,
        settings={**(settings or {}), **(guest_settings or {})},
    )
    host = Place(
        home=folder / "host",
        party_id=HOST_ID,
        http_port=http_h,
        grpc_port=grpc_h,
        routes={GUEST_ID: f"127.0.0.1:{grpc_g}"},
        tls=tls,
        settings={**(settings or {}), **(host_settings or {})},
        conf=host_conf,
    )
    with running(guest, host) as (first, second):
        yield Pair(first, second)


@contextmanager
def standalone(folder: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[Pair]:
    """Run one server that hosts every party."""
    http, grpc = free_ports(2)
    place = Place(
        home=folder / "standalone",
        party_id=None,
        http_port=http,
        grpc_port=grpc,
        settings=settings or {},
    )
    with running(place) as (party,):
        yield Pair(party, party)


@contextmanager
def running(*places: Place) -> Iterator[tuple[Party, ...]]:
    """Run servers until the block ends; each is closed, whatever happens to the others."""
    with ExitStack() as stack:
        parties = []
        for place in places:
            party = Party(place)
            LIVE.append(party)
            stack.push(lambda failed, *_, party=party: None if failed else LIVE.remove(party))
            stack.callback(party.close)
            parties.append(party.start())
        for party in parties:
            party.wait_ready()
        yield tuple(parties)


def make_certificates(folder: Path, *party_ids: str) -> Path:
    """Write an authority's ca.pem, and a certificate with its key per party, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = make_ca()
    (folder / "ca.pem").write_bytes(authority.certificate)
    for party_id in party_ids:
        pair = make_certificate(party_id, authority=authority)
        (folder / f"{party_id}.pem").write_bytes(pair.certificate)
        key = folder / f"{party_id}.key"
        key.touch(mode=0o600)
        key.write_bytes(pair.key)
    return folder


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, outside of the range that the system hands out itself.

    So that no outgoing connection takes one while its server is down.
    """
    ports: set[int] = set()
    while len(ports) < count:
        port = 15_000 + secrets.randbelow(15_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.add(port)
    return list(ports)


# --- MySQL ----------------------------------------------------------------------------------------


@contextmanager
def mysql_database() -> Iterator[dict[str, str]]:
    """Give the settings of a new MySQL database, dropped at the end; skip without a server."""
    url = os.environ.get("FEDFLOW_TEST_MYSQL", "mysql://root@127.0.0.1:3306/")
    parts = urlsplit(url)
    login: dict[str, Any] = {
        "host": parts.hostname or "127.0.0.1",
        "port": parts.port or 3306,
        "user": unquote(parts.username or "root"),
        "password": unquote(parts.password or ""),
    }
    try:
        pymysql.connect(**login, connect_timeout=3).close()
    except pymysql.err.OperationalError as exc:
        where = (
            f"no MySQL at {login['host']}:{login['port']} (set FEDFLOW_TEST_MYSQL): {exc.args[0]}"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(where)
        pytest.skip(where)
    name = f"fedflow_e2e_{secrets.token_hex(5)}"
    try:
        yield {
            "FEDFLOW__DATABASE__ENGINE": "mysql",
            "FEDFLOW__DATABASE__NAME": name,
            "FEDFLOW__DATABASE__HOST": login["host"],
            "FEDFLOW__DATABASE__PORT": str(login["port"]),
            "FEDFLOW__DATABASE__USER": login["user"],
            "FEDFLOW__DATABASE__PASSWD": f'"{login["password"]}"',
        }
    finally:
        with pymysql.connect(**login) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def refusal_of(call: Callable[[], Any]) -> FedflowError:
    """Return the error that a call of the client ends with. Raises: AssertionError: it does not."""
    try:
        done = call()
    except FedflowError as exc:
        return exc
    raise AssertionError(f"not refused: {done}")
