"""Where attacks take place: two honest parties, a partner and strangers; what is there to steal.

9999 checks permissions and has granted nothing. 10000 has the settings that a new server has, but
takes few open jobs of a party, and wants signed requests. 8888 is a party of jobs with each of them
and hostile: its server plays along while its certificate is used for other things, and it keeps
what it sends and gets. 6666 is a partner without a job: the others have a route to it, and nobody
answers there. 7777 has a certificate, and nobody knows it. 9999 has one server, or two on one MySQL
database.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fedflow.client.client import Client
from fedflow.wire.api.jobs import JobStatusView
from tests.attack.loop import Loop
from tests.attack.recorder import Recorder
from tests.e2e.servers import (
    GUEST_ID,
    HOST_ID,
    QUICK,
    Party,
    Place,
    free_ports,
    make_certificates,
    mysql_database,
    running,
    wait_for,
)

PARTNER_ID: Final = "8888"
NEWCOMER_ID: Final = "6666"
STRANGER_ID: Final = "7777"
HOSTILE: Final = (PARTNER_ID, NEWCOMER_ID, STRANGER_ID)
ROWS: Final = {"agreed": 3, "patients": 70_001}  #: of the tables, which tells them apart
CANARIES: Final = ("canary_column", "canary_cell", rf"(?<!\d){ROWS['patients']}(?!\d)")
"""Patterns of what the honest parties alone know of a table: no answer may hold one of them."""

MIB: Final = 1 << 20
DESCRIPTORS: Final = 1024  #: the usual soft limit, which a server starts with
CHECKED: Final = {
    "FEDFLOW__PERMISSION__SWITCH": "true",
    "FEDFLOW__PERMISSION__COMPONENT": "true",
    "FEDFLOW__PERMISSION__DATASET": "true",
}
APP_KEY, SECRET_KEY = "key", "secret"
SIGNED: Final = {
    "FEDFLOW__AUTHENTICATION__CLIENT__SWITCH": "true",
    "FEDFLOW__AUTHENTICATION__CLIENT__HTTP_APP_KEY": APP_KEY,
    "FEDFLOW__AUTHENTICATION__CLIENT__HTTP_SECRET_KEY": SECRET_KEY,
}
OPEN_JOBS: Final = 150  #: of one party, at 10000; no attack but that on it has as many
FEW_JOBS: Final = {"FEDFLOW__JOBS__OPEN_PER_PARTY": str(OPEN_JOBS)}
NOBODY: Final = 1  #: a port at which nobody answers
BIG: Final = 200_000  #: numbers of 8 bytes in a value that goes over a stream of its own

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The running servers, and what has happened on them before the first attack."""

    guest: Party  #: 9999, or the one of its two servers that is attacked
    desk: Party  #: where 9999 submits its jobs: the same, or the other one
    host: Party  #: 10000
    partner: Party  #: 8888
    tls: Path
    loop: Loop  #: on which the hostile parties are
    recorder: Recorder  #: what the partner sent and got in `joint_job`
    joint_job: str  #: an ended job of 9999 with the partner
    trained: str  #: a model version of 10000 with the partner
    deployed: str  #: the same, deployed

    start_mib: Mapping[str, float]  #: memory of the honest servers when all that had been done

    @property
    def honest(self) -> tuple[Party, ...]:
        return tuple(dict.fromkeys((self.guest, self.desk, self.host)))


def name_of(party: Party) -> str:
    """Return what a server is called: its party, and for a second one which it is."""
    return party.home.name


def shared_home(party: Party) -> Path:
    """Return the folder of what all servers of a party have: the home, if there is only one."""
    return Path(party.place.settings.get("FEDFLOW__SHARED_HOME", party.home))


def memory_mib(party: Party) -> float:
    """Return what of a server is resident, in MiB; 0 if it has ended."""
    assert party.process is not None
    try:
        pages = Path(f"/proc/{party.process.pid}/statm").read_text().split()[1]
    except OSError:
        return 0.0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / MIB


@contextmanager
def scene(folder: Path, *, servers: int = 1) -> Iterator[Scene]:
    """Run the parties below `folder` until the block ends; 9999 with so many servers, 1 or 2.

    Two are on a MySQL database of their own. Without MySQL a test is skipped.
    """
    with ExitStack() as stack:
        database = stack.enter_context(mysql_database()) if servers > 1 else {}
        tls = make_certificates(folder / "tls", GUEST_ID, HOST_ID, *HOSTILE)
        loop = stack.enter_context(Loop())
        recorder = stack.enter_context(Recorder(loop, tls=tls))
        places = _places(folder, tls, recorder, database=database)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with _soft_limit(DESCRIPTORS):
            host, partner, *guests = stack.enter_context(running(*places))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8 * DESCRIPTORS, hard), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        host.client.close()
        host.client = Client(host.url, app_key=APP_KEY, secret=SECRET_KEY, timeout_s=60.0)
        guest, desk = guests[0], guests[-1]
        _upload(folder, desk, host, partner)
        joint_job = _run(desk, *_joint_job())
        recorder.stop_recording()
        trained = _run(host, *_model_job())
        view = host.client.models.deploy(_model_id(), trained)
        yield Scene(
            guest=guest, desk=desk, host=host, partner=partner, tls=tls, loop=loop,
            recorder=recorder, joint_job=joint_job, trained=trained, deployed=view.model_version,
            start_mib={name_of(one): memory_mib(one) for one in (*guests, host)},
        )  # fmt: skip


def _places(
    folder: Path, tls: Path, recorder: Recorder, *, database: Mapping[str, str]
) -> list[Place]:
    """Return where 10000, 8888 and the servers of 9999 are, in this order.

    What honest parties and the partner say to each other passes the recorder.
    """
    second = [f"{GUEST_ID}-2"] if database else []
    names = [HOST_ID, PARTNER_ID, GUEST_ID, *second]
    ports = free_ports(2 * len(names))
    grpc = dict(zip(names, ports, strict=False))
    http = dict(zip(names, ports[len(names) :], strict=True))
    honest = (GUEST_ID, HOST_ID)
    to_partner = {one: recorder.relay(one, to=(PARTNER_ID, grpc[PARTNER_ID])) for one in honest}
    from_partner = {one: recorder.relay(PARTNER_ID, to=(one, grpc[one])) for one in honest}
    routes = {
        GUEST_ID: {HOST_ID: [grpc[HOST_ID]], PARTNER_ID: [to_partner[GUEST_ID]]},
        HOST_ID: {GUEST_ID: [grpc[name] for name in names[2:]], PARTNER_ID: [to_partner[HOST_ID]]},
        PARTNER_ID: {one: [port] for one, port in from_partner.items()},
    }
    for one in honest:
        routes[one][NEWCOMER_ID] = [NOBODY]
    settings = {GUEST_ID: {**CHECKED, **database}, HOST_ID: {**SIGNED, **FEW_JOBS}, PARTNER_ID: {}}
    if database:
        settings[GUEST_ID]["FEDFLOW__SHARED_HOME"] = str(folder / f"{GUEST_ID}-shared")
    return [
        Place(
            home=folder / name, party_id=party_id, http_port=http[name], grpc_port=grpc[name],
            tls=tls, settings={**QUICK, **settings[party_id]},
            routes={
                to: ",".join(f"127.0.0.1:{port}" for port in found)
                for to, found in routes[party_id].items()
            },
        )
        for name in names
        for party_id in [name.partition("-")[0]]
    ]  # fmt: skip


@contextmanager
def _soft_limit(number: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _upload(folder: Path, *parties: Party) -> None:
    for name, rows in ROWS.items():
        column = "canary_column" if name == "patients" else "x0"
        path = folder / f"{name}.csv"
        lines = (f"i{n},{n if name == 'agreed' else 'canary_cell'}\n" for n in range(rows))
        path.write_text(f"id,{column}\n" + "".join(lines))
        for party in parties:
            if name == "agreed" or str(party.place.party_id) != PARTNER_ID:
                assert party.upload(path, name, drop=True).succeeded


def _run(party: Party, dsl: Json, conf: Json) -> str:
    """Run a job to its good end at a party's server, and return its id."""
    view = party.client.wait(party.client.submit(dsl, conf).job_id, timeout_s=120)
    assert view.succeeded, view
    return view.job_id


def conf_of(initiator: tuple[str, str], roles: Json, **more: Any) -> Json:
    """Return a conf of a job; `initiator` is (role, party)."""
    role, party = initiator
    return {
        "dsl_version": 2,
        "initiator": {"role": role, "party_id": int(party)},
        "role": {name: [int(one) for one in ids] for name, ids in roles.items()},
        **more,
    }


def reads(table: str) -> Json:
    """Return the section of a site whose Reader reads a table."""
    return {"0": {"reader_0": {"table": {"namespace": "experiment", "name": table}}}}


READER: Final[Json] = {"module": "Reader", "output": {"data": ["data"]}}
ONE: Final[Json] = {"components": {"empty_0": {"module": "Empty", "output": {"data": ["data"]}}}}
TRANSFORM: Final[Json] = {
    "module": "DataTransform",
    "input": {"data": {"data": ["reader_0.data"]}},
    "output": {"data": ["data"], "model": ["model"]},
}


def _joint_job() -> tuple[Json, Json]:
    """Return a job of 9999 and the partner in which small and big values travel."""
    dsl = {"components": {"reader_0": READER, "toy_0": {"module": "SecureAddExample"}}}
    conf = conf_of(
        ("guest", GUEST_ID), {"guest": [GUEST_ID], "host": [PARTNER_ID]},
        component_parameters={
            "common": {"toy_0": {"data_num": BIG}},
            "role": {"guest": reads("agreed"), "host": reads("agreed")},
        },
    )  # fmt: skip
    return dsl, conf


MODEL_ROLES: Final = {"guest": [HOST_ID], "host": [PARTNER_ID]}


def _model_id() -> str:
    return f"guest-{HOST_ID}#host-{PARTNER_ID}#model"


def _model_job() -> tuple[Json, Json]:
    """Return a job of 10000 that trains a small model with the partner."""
    dsl = {"components": {"reader_0": READER, "data_transform_0": TRANSFORM}}
    conf = conf_of(
        ("guest", HOST_ID), MODEL_ROLES,
        component_parameters={
            "common": {"data_transform_0": {"with_label": False}},
            "role": {"guest": reads("agreed"), "host": reads("agreed")},
        },
    )  # fmt: skip
    return dsl, conf


# --- honest work ----------------------------------------------------------------------------------

CHAIN: Final = 10  #: tasks of an honest chain


def honest_job() -> tuple[Json, Json]:
    """Return a chain of ten empty tasks of 9999 and 10000, and beside it one with big values."""
    components: Json = {"toy_0": {"module": "SecureAddExample"}}
    for number in range(CHAIN):
        components[f"empty_{number}"] = {"module": "Empty", "output": {"data": ["data"]}}
        if number:
            given = {"data": {"data": [f"empty_{number - 1}.data"]}}
            components[f"empty_{number}"]["input"] = given
    conf = conf_of(
        ("guest", GUEST_ID), {"guest": [GUEST_ID], "host": [HOST_ID]},
        job_parameters={"common": {"task_parallelism": 2, "auto_retries": 0}},
        component_parameters={"common": {"toy_0": {"data_num": BIG}}},
    )  # fmt: skip
    return {"components": components}, conf


def wait_end(client: Client, job_id: str, *, within_s: float) -> JobStatusView:
    """Return how a job ended. Raises: AssertionError: not within `within_s`."""

    def look() -> JobStatusView | None:
        view = client.job(job_id)
        return view if view.is_final else None

    return wait_for(look, f"the end of job {job_id}", within_s=within_s)
